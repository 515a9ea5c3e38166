"""Reads the text of an expression with sqlglot: which words and signs there are, and how they bind.

The words and functions of this language are all that its reader knows. So there is no statement, subquery, function of
a database, parameter or comment that could be read by mistake.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, TypeVar

from sqlglot import Dialect, ParseError, Token, TokenError, TokenType, exp
from sqlglot import Parser as AnyParser
from sqlglot import Tokenizer as AnyTokenizer

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.topology.printable import printable

MAX_BYTES: Final = 4096
"""The longest expression, in UTF-8."""

MAX_TOKENS: Final = 600
MAX_DEPTH: Final = 16
"""How deep brackets, and words before an operand such as NOT, may be nested."""

_E = TypeVar("_E", bound=exp.Expr)

_SIGNS: Final = {
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "[": TokenType.L_BRACKET,
    "]": TokenType.R_BRACKET,
    ",": TokenType.COMMA,
    "+": TokenType.PLUS,
    "-": TokenType.DASH,
    "*": TokenType.STAR,
    "/": TokenType.SLASH,
    "=": TokenType.EQ,
    "<": TokenType.LT,
    ">": TokenType.GT,
}
_LONG_SIGNS: Final = {
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    "<=": TokenType.LTE,
    ">=": TokenType.GTE,
    "||": TokenType.DPIPE,
    "->>": TokenType.DARROW,
    "::": TokenType.DCOLON,
}
_WORDS: Final = {
    **{
        word: TokenType[word] for word in ("AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "ILIKE", "ESCAPE")
    },
    **{word: TokenType[word] for word in ("TRUE", "FALSE", "INTERVAL")},
    "AS": TokenType.ALIAS,
}
_TYPES: Final = {
    "TEXT": TokenType.TEXT,
    "VARCHAR": TokenType.VARCHAR,
    "STRING": TokenType.TEXT,
    "INTEGER": TokenType.INT,
    "INT": TokenType.INT,
    "BIGINT": TokenType.BIGINT,
    "DOUBLE": TokenType.DOUBLE,
    "BOOLEAN": TokenType.BOOLEAN,
    "TIMESTAMP": TokenType.TIMESTAMP,
}
_VALUES: Final = {TokenType.STRING, TokenType.NUMBER, TokenType.VAR, TokenType.IDENTIFIER}
_ALLOWED: Final = {*_VALUES, *_SIGNS.values(), *_LONG_SIGNS.values(), *_WORDS.values(), *_TYPES.values()}
_BEFORE_OPERANDS: Final = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.INTERVAL, *_TYPES.values()}
_OPENING: Final = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING: Final = {TokenType.R_PAREN, TokenType.R_BRACKET}
_NUMBER: Final = re.compile(r"([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?")

GRAMMAR: Final = "docs/where.md has the grammar"
_STATEMENT: Final = "an expression is one condition, without statements, comments and parameters; " + GRAMMAR

_SHOWN: Final = 100
"""Characters of the expression's line that an error shows."""


class ExpressionError(TopologyError):
    """An expression of ``--where`` cannot be used: what is wrong in it, where, and what to write instead."""

    exit_code = exit_codes.USAGE

    def __init__(self, text: str, start: int, end: int, problem: str, fix: str) -> None:
        """Describe a fault.

        Args:
            text: the whole expression.
            start: the index of the first character that is wrong.
            end: the index after the last one.
            problem: what is wrong there.
            fix: what to write instead.
        """
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line = text[line_start : len(text) if line_end < 0 else line_end]
        column = start - line_start
        first = max(0, column - _SHOWN * 2 // 3)
        shown = "".join(char if char.isprintable() else " " for char in line[first : first + _SHOWN])
        carets = "^" * max(1, min(end, line_start + first + len(shown)) - start)
        place = f"line {text.count(chr(10), 0, start) + 1}, " if "\n" in text else ""
        where = f"--where, {place}character {column + 1}"
        super().__init__(
            f"{where}: {printable(problem)}; {printable(fix)}\n  {shown}\n  {' ' * (column - first)}{carets}"
        )
        self.start = start
        self.problem = problem
        self.fix = fix


class _Language(Dialect):
    """The language of ``--where`` as a dialect of sqlglot."""

    class Tokenizer(AnyTokenizer):
        """Knows the signs and words of the language alone; any other word is a name."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {**_LONG_SIGNS, **_WORDS, **_TYPES}
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(AnyParser):
        """Knows no functions but the ones that the checker allows, and notes where each value stands."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: AnyParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
        COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
            TokenType.DCOLON: AnyParser.COLUMN_OPERATORS[TokenType.DCOLON],
            TokenType.DARROW: lambda self, this, path: self.expression(
                exp.JSONExtractScalar(this=this, expression=path)
            ),
        }

        def expression(self, instance: _E, token: Token | None = None, comments: list[str] | None = None) -> _E:
            if token is None and isinstance(instance, _LEAVES) and "start" not in instance.meta:
                token = self._prev
            return super().expression(instance, token, comments)


_LEAVES: Final = (exp.Literal, exp.Null, exp.Boolean, exp.Identifier, exp.Var, exp.DataType, exp.Interval)


def syntax(text: str) -> exp.Expr:
    """Return an expression as sqlglot's tree, not checked.

    Raises:
        ExpressionError: it is not an expression, or too large.
    """
    tokens = _tokens(text)
    try:
        trees = _Language().parser(error_message_context=MAX_BYTES + 1).parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _fault(text, tokens, error) from None
    except TokenError:  # sqlglot reads a type in double quotes once more
        raise ExpressionError(text, 0, len(text), "a type is in double quotes", "write it without") from None
    except RecursionError:
        raise ExpressionError(text, 0, len(text), "it is nested too deep", "use fewer brackets") from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise ExpressionError(text, 0, len(text), "this is not one condition", _STATEMENT)
    return tree


def _tokens(text: str) -> list[Token]:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ExpressionError(text, error.start, error.end, "this is not Unicode text", "write it in UTF-8") from None
    if size > MAX_BYTES:
        fix = f"{MAX_BYTES} are allowed; to select by many ids use --ids-from"
        raise ExpressionError(text, 0, 1, f"the expression has {size} bytes", fix)
    for place, char in enumerate(text):
        if not char.isprintable() and char not in " \t\r\n":
            raise ExpressionError(text, place, place + 1, "this character cannot be printed", "leave it out")
    try:
        tokens = _Language().tokenize(text)
    except TokenError:
        start = max(text.rfind("'"), text.rfind('"'), text.rfind("/*"), 0)
        raise ExpressionError(text, start, len(text), "this has no end", "close the quotes") from None
    if not tokens:
        raise ExpressionError(text, 0, 1, "there is no condition", "write one, such as: attempts >= 3")
    _check(text, tokens)
    return tokens


def _check(text: str, tokens: list[Token]) -> None:
    """Refuse what is no part of the language, before it is parsed."""
    if len(tokens) > MAX_TOKENS:
        place = tokens[MAX_TOKENS].start
        raise ExpressionError(
            text, place, len(text), f"more than {MAX_TOKENS} words and signs", "shorten it; --ids-from selects many ids"
        )
    opened = before = 0
    for token in tokens:
        if token.comments:
            raise ExpressionError(text, token.start, token.end + 1, "there is a comment at this word", "leave it out")
        if token.token_type not in _ALLOWED:
            raise ExpressionError(text, token.start, token.end + 1, f"{token.text!r} is not allowed here", _STATEMENT)
        if token.token_type is TokenType.NUMBER and not _NUMBER.fullmatch(token.text):
            raise ExpressionError(
                text, token.start, token.end + 1, f"{token.text!r} is not a number", "write 42 or 1.5"
            )
        opened += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        before = before + 1 if token.token_type in _BEFORE_OPERANDS else 0
        if max(opened, before) > MAX_DEPTH:
            fix = f"{MAX_DEPTH} levels are allowed"
            raise ExpressionError(text, token.start, token.end + 1, "it is nested too deep", fix)


def _fault(text: str, tokens: list[Token], error: ParseError) -> ExpressionError:
    place = error.errors[0] if error.errors else {}
    start = len(place.get("start_context") or "")
    at = next((token for token in tokens if token.start >= start), tokens[-1])
    description = str(place.get("description") or "")
    if description.startswith("Expecting "):
        expected = description.removeprefix("Expecting ").rstrip(".")
        return ExpressionError(text, at.start, at.end + 1, f"{expected} is missing here", GRAMMAR)
    if at is tokens[-1] and description.startswith(("Required", "Expected")):
        return ExpressionError(text, at.start, at.end + 1, "something is missing after this", GRAMMAR)
    problem = f"{at.text!r} is not expected here"
    return ExpressionError(text, at.start, at.end + 1, problem, "join conditions with AND or OR; " + GRAMMAR)
