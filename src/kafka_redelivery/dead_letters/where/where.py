"""What a person has given as `--where`: its text becomes a typed tree, and what is not named here is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Final, NamedTuple, Self

from sqlglot import exp

from kafka_redelivery.dead_letters.where.columns import BY_NAME, ColumnKind
from kafka_redelivery.dead_letters.where.duckdb_sql import DuckDbSql, duckdb_sql
from kafka_redelivery.dead_letters.where.expression import (
    Expression,
    Header,
    JsonPath,
    Like,
    Literal,
    Named,
    Now,
    Op,
    Operation,
    columns,
)
from kafka_redelivery.dead_letters.where.grammar import GRAMMAR, ExpressionError, syntax
from kafka_redelivery.dead_letters.where.literals import (
    UNITS,
    canonical_path,
    canonical_pattern,
    epoch_ms,
    interval_ms,
    lowered,
)

NUMBERS: Final = frozenset({ColumnKind.INTEGER, ColumnKind.DOUBLE})
LARGEST: Final = 2**63 - 1
"""The largest integer."""

OF_TYPE: Final = {
    exp.DType.TEXT: ColumnKind.TEXT,
    exp.DType.VARCHAR: ColumnKind.TEXT,
    exp.DType.INT: ColumnKind.INTEGER,
    exp.DType.BIGINT: ColumnKind.INTEGER,
    exp.DType.DOUBLE: ColumnKind.DOUBLE,
    exp.DType.BOOLEAN: ColumnKind.BOOLEAN,
    exp.DType.TIMESTAMP: ColumnKind.TIMESTAMP,
}
CASTS: Final[Mapping[ColumnKind, frozenset[ColumnKind]]] = {
    ColumnKind.TEXT: frozenset({ColumnKind.INTEGER, ColumnKind.DOUBLE, ColumnKind.BOOLEAN, ColumnKind.TIMESTAMP}),
    ColumnKind.INTEGER: frozenset({ColumnKind.DOUBLE, ColumnKind.TEXT}),
}
"""What can be converted, and to what."""

_OF_TIMES: Final = {
    (Op.ADD, ColumnKind.TIMESTAMP, ColumnKind.INTERVAL): ColumnKind.TIMESTAMP,
    (Op.ADD, ColumnKind.INTERVAL, ColumnKind.TIMESTAMP): ColumnKind.TIMESTAMP,
    (Op.ADD, ColumnKind.INTERVAL, ColumnKind.INTERVAL): ColumnKind.INTERVAL,
    (Op.SUBTRACT, ColumnKind.TIMESTAMP, ColumnKind.INTERVAL): ColumnKind.TIMESTAMP,
    (Op.SUBTRACT, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP): ColumnKind.INTERVAL,
    (Op.SUBTRACT, ColumnKind.INTERVAL, ColumnKind.INTERVAL): ColumnKind.INTERVAL,
    (Op.MULTIPLY, ColumnKind.INTERVAL, ColumnKind.INTEGER): ColumnKind.INTERVAL,
    (Op.MULTIPLY, ColumnKind.INTEGER, ColumnKind.INTERVAL): ColumnKind.INTERVAL,
}


class Function(NamedTuple):
    """A function."""

    op: Op
    takes: tuple[ColumnKind, ...]
    """Empty = two values or more of one type, which is also its result's."""

    yields: ColumnKind | None
    shape: str
    """How it is written."""


FUNCTIONS: Final = {
    "lower": Function(Op.LOWER, (ColumnKind.TEXT,), ColumnKind.TEXT, "lower(text)"),
    "upper": Function(Op.UPPER, (ColumnKind.TEXT,), ColumnKind.TEXT, "upper(text)"),
    "length": Function(Op.LENGTH, (ColumnKind.TEXT,), ColumnKind.INTEGER, "length(text)"),
    "starts_with": Function(
        Op.STARTS_WITH, (ColumnKind.TEXT, ColumnKind.TEXT), ColumnKind.BOOLEAN, "starts_with(text, start)"
    ),
    "contains": Function(Op.CONTAINS, (ColumnKind.TEXT, ColumnKind.TEXT), ColumnKind.BOOLEAN, "contains(text, part)"),
    "coalesce": Function(Op.COALESCE, (), None, "coalesce(value, value, ...)"),
}
SHAPES: Final = (*(function.shape for function in FUNCTIONS.values()), "now()", "cast(value as type)")
"""How each function is written, for errors."""


def arithmetic(op: Op, left: Expression, right: Expression) -> Operation | None:
    """Return ``left op right``, ``None`` if it has no meaning."""
    if {left.kind, right.kind} <= NUMBERS:
        if op is Op.DIVIDE or left.kind is not right.kind or left.kind is ColumnKind.DOUBLE:
            return Operation(op, (double(left), double(right)), ColumnKind.DOUBLE)
        return Operation(op, (left, right), ColumnKind.INTEGER)
    kind = _OF_TIMES.get((op, left.kind, right.kind))
    return None if kind is None else Operation(op, (left, right), kind)


def double(value: Expression) -> Expression:
    """Return a number as a double."""
    if value.kind is ColumnKind.DOUBLE:
        return value
    if isinstance(value, Literal):
        return Literal(float(value.value), ColumnKind.DOUBLE)
    return Operation(Op.CAST, (value,), ColumnKind.DOUBLE)


def named(kind: ColumnKind) -> str:
    """Return a type with its article."""
    return f"an {kind}" if kind in {ColumnKind.INTEGER, ColumnKind.INTERVAL} else f"a {kind}"


def remedy(have: Expression, want: ColumnKind) -> str:
    """Return what to write instead of ``have`` where a value of type ``want`` is needed."""
    if have.kind is ColumnKind.MAP:
        return "name one header: headers['name']"
    if want in CASTS.get(have.kind, ()) and not isinstance(have, Literal):
        return f"write cast(... as {want})"
    if want is ColumnKind.TEXT and not isinstance(have, Literal):
        return "it has no form as text; compare it as it is"
    return _FIXES.get(want, "docs/where.md has the types")


_FIXES: Final = {
    ColumnKind.BOOLEAN: "compare it with something, such as: attempts >= 3",
    ColumnKind.TIMESTAMP: "write timestamp '2026-11-23T02:00'",
    ColumnKind.INTERVAL: "write interval '2 hours'",
    ColumnKind.TEXT: "write a text in quotes: '...'",
    ColumnKind.INTEGER: "write an integer, without quotes",
    ColumnKind.DOUBLE: "write a number, without quotes",
}


_MAX_DEPTH: Final = 64
_COMPARISONS: Final[Mapping[type[exp.Expr], Op]] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_ARITHMETIC: Final[Mapping[type[exp.Expr], Op]] = {
    exp.Add: Op.ADD,
    exp.Sub: Op.SUBTRACT,
    exp.Mul: Op.MULTIPLY,
    exp.Div: Op.DIVIDE,
}
_NO_ORDER: Final = "true and false have no order", "compare them with = or <>"


@dataclass(frozen=True, slots=True)
class Where:
    """A condition, and the time that `now()` is in it."""

    expression: Expression
    now_ms: int

    @classmethod
    def of(cls, text: str, now_ms: int) -> Self:
        """Parse a condition.

        Raises:
            ExpressionError: it is not one.
        """
        return cls(parse(text), now_ms)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return columns(self.expression)

    @property
    def duckdb(self) -> DuckDbSql:
        """The condition in DuckDB's SQL."""
        return duckdb_sql(self.expression, self.now_ms)


def parse(text: str) -> Expression:
    """Return the condition that a text says, typed.

    Raises:
        ExpressionError: it is not a condition of the language of ``--where``; says where and what is allowed instead.
    """
    parser = _Parser(text)
    tree = syntax(text)
    try:
        condition = parser.of(tree, 0)
    except RecursionError:
        raise ExpressionError(text, 0, len(text), "it is nested too deep", "use fewer brackets") from None
    if condition.kind is not ColumnKind.BOOLEAN:
        fix = "compare it with something, such as: attempts >= 3"
        raise parser.fault(tree, f"this is {named(condition.kind)}, not a condition", fix)
    return condition


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._convert: Mapping[type[exp.Expr], Callable[[exp.Expr, int], Expression]] = {
            **dict.fromkeys((exp.And, exp.Or, exp.DPipe), self._connected),
            **dict.fromkeys(_COMPARISONS, self._comparison),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), self._like),
            **dict.fromkeys((exp.Cast, exp.TryCast), self._cast),
            exp.Not: self._inverted,
            exp.Paren: self._in_brackets,
            exp.Neg: self._negated,
            exp.Is: self._is,
            exp.Null: self._null,
            exp.In: self._within,
            exp.Between: self._between,
            exp.Literal: self._literal,
            exp.Boolean: self._boolean,
            exp.Column: self._column,
            exp.Bracket: self._header,
            exp.JSONExtractScalar: self._json,
            exp.Interval: self._interval,
            exp.Anonymous: self._function,
        }

    def fault(self, node: exp.Expr, problem: str, fix: str) -> ExpressionError:
        places = [each.meta for each in node.walk() if "start" in each.meta]
        start = min((each["start"] for each in places), default=0)
        end = max((each["end"] for each in places), default=len(self._text) - 1)
        return ExpressionError(self._text, start, end + 1, problem, fix)

    def of(self, node: exp.Expr, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise self.fault(node, "it is nested too deep", f"{_MAX_DEPTH} operations in one another are allowed")
        convert = self._convert.get(type(node))
        if convert is None:
            raise self.fault(node, "this is no part of the language", GRAMMAR)
        return convert(node, depth + 1)

    def _arguments(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node with a part that would be ignored."""
        if any(value not in (None, False, []) and name not in known for name, value in node.args.items()):
            raise self.fault(node, "this is no part of the language", GRAMMAR)

    def _needed(self, node: exp.Expr | None, of: exp.Expr, depth: int) -> Expression:
        if not isinstance(node, exp.Expr):
            raise self.fault(of, "an operand is missing", GRAMMAR)
        return self.of(node, depth)

    def _typed(self, node: exp.Expr | None, of: exp.Expr, kind: ColumnKind, depth: int) -> Expression:
        """Return a node that has to have a type."""
        made = self._needed(node, of, depth)
        if made.kind is kind:
            return made
        raise self.fault(node or of, f"this is {named(made.kind)}, not {named(kind)}", remedy(made, kind))

    def _alike(self, nodes: Sequence[exp.Expr], of: exp.Expr, depth: int) -> tuple[Expression, ...]:
        """Return nodes that have to have one type; integers beside doubles become doubles."""
        made = [self._needed(each, of, depth) for each in nodes]
        kind = made[0].kind
        if kind is ColumnKind.MAP:
            raise self.fault(nodes[0], "headers is a map", "name one: headers['name']")
        if {each.kind for each in made} == NUMBERS:
            kind = ColumnKind.DOUBLE
            made = [double(each) for each in made]
        for node, each in zip(nodes, made, strict=True):
            if each.kind is not kind:
                problem = f"this is {named(each.kind)}, which cannot be compared with {named(kind)}"
                raise self.fault(node, problem, remedy(each, kind))
        return tuple(made)

    def _comparison(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expression")
        operands = self._alike([node.this, node.expression], node, depth)
        op = _COMPARISONS[type(node)]
        if operands[0].kind is ColumnKind.BOOLEAN and op not in {Op.EQ, Op.NE}:
            raise self.fault(node, *_NO_ORDER)
        return Operation(op, operands, ColumnKind.BOOLEAN)

    def _arithmetic(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expression", "typed", "safe")
        op = _ARITHMETIC[type(node)]
        left, right = self._needed(node.this, node, depth), self._needed(node.expression, node, depth)
        made = arithmetic(op, left, right)
        if made is None:
            wrong = (
                (node.this, left)
                if left.kind not in {*NUMBERS, ColumnKind.TIMESTAMP, ColumnKind.INTERVAL}
                else (node.expression, right)
            )
            problem = f"{named(left.kind)} {op} {named(right.kind)} has no meaning"
            raise self.fault(wrong[0], problem, remedy(wrong[1], ColumnKind.DOUBLE))
        return made

    def _connected(self, node: exp.Expr, depth: int) -> Expression:
        """Return a chain of AND, of OR or of ``||`` as one operation, however long it is."""
        parts, waiting = list[exp.Expr](), [node]
        while waiting:
            each = waiting.pop()
            if type(each) is type(node):
                self._arguments(each, "this", "expression", "safe")
                waiting += [part for part in (each.args.get("expression"), each.args.get("this")) if part is not None]
            else:
                parts.append(each)
        op = Op.AND if isinstance(node, exp.And) else Op.OR if isinstance(node, exp.Or) else Op.CONCAT
        kind = ColumnKind.TEXT if op is Op.CONCAT else ColumnKind.BOOLEAN
        return Operation(op, tuple(self._typed(each, node, kind, depth) for each in parts), kind)

    def _inverted(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this")
        return Operation(Op.NOT, (self._typed(node.this, node, ColumnKind.BOOLEAN, depth),), ColumnKind.BOOLEAN)

    def _in_brackets(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this")
        return self._needed(node.this, node, depth)

    def _negated(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this")
        made = self._needed(node.this, node, depth)
        if isinstance(made, Literal) and made.kind in NUMBERS and not isinstance(made.value, str):
            return Literal(-made.value, made.kind)
        if made.kind in NUMBERS:
            zero = Literal(0, made.kind) if made.kind is ColumnKind.INTEGER else Literal(0.0, made.kind)
            return Operation(Op.SUBTRACT, (zero, made), made.kind)
        raise self.fault(node, f"{named(made.kind)} has no sign", remedy(made, ColumnKind.DOUBLE))

    def _is(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expression")
        if not isinstance(node.expression, exp.Null):
            raise self.fault(node.expression or node, "this cannot follow IS", "write IS NULL or IS NOT NULL")
        made = self._needed(node.this, node, depth)
        if made.kind is ColumnKind.MAP:
            raise self.fault(node.this, "headers is never NULL", "name one: headers['name']")
        return Operation(Op.IS_NULL, (made,), ColumnKind.BOOLEAN)

    def _null(self, node: exp.Expr, _: int) -> Expression:
        raise self.fault(node, "nothing equals NULL, not even NULL", "write IS NULL or IS NOT NULL")

    def _within(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expressions")
        if not node.expressions:
            raise self.fault(node, "the list is empty", "write IN ('a', 'b')")
        made = self._alike([node.this, *node.expressions], node, depth)
        for each, literal in zip(node.expressions, made[1:], strict=True):
            if not isinstance(literal, Literal):
                raise self.fault(each, "the list of IN holds constants", "write OR between other comparisons")
        return Operation(Op.IN, made, ColumnKind.BOOLEAN)

    def _between(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "low", "high")
        operands = self._alike([node.this, node.args["low"], node.args["high"]], node, depth)
        if operands[0].kind is ColumnKind.BOOLEAN:
            raise self.fault(node, *_NO_ORDER)
        return Operation(Op.BETWEEN, operands, ColumnKind.BOOLEAN)

    def _like(self, node: exp.Expr, depth: int) -> Expression:
        escape = ""
        if isinstance(node, exp.Escape):
            self._arguments(node, "this", "expression")
            sign = node.expression
            if not isinstance(sign, exp.Literal) or not sign.is_string or len(sign.name) != 1:
                raise self.fault(sign or node, "ESCAPE needs one character", "write ESCAPE '!'")
            escape, node = sign.name, node.this
        if not isinstance(node, exp.Like | exp.ILike):
            raise self.fault(node, "ESCAPE belongs to LIKE", "write it after the pattern of LIKE or ILIKE")
        self._arguments(node, "this", "expression", "negate")
        of, pattern = self._typed(node.this, node, ColumnKind.TEXT, depth), node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            fix = "write it in quotes, or use contains() or starts_with()"
            raise self.fault(pattern or node, "the pattern of LIKE is a text", fix)
        canonical = canonical_pattern(pattern.name, escape)
        if canonical is None:
            raise self.fault(pattern, f"{escape} has to precede %, _ or {escape} here", "double it, or leave it out")
        if isinstance(node, exp.ILike):
            of, canonical = Operation(Op.LOWER, (of,), ColumnKind.TEXT), lowered(canonical)
        made = Like(of, canonical)
        return Operation(Op.NOT, (made,), ColumnKind.BOOLEAN) if node.args.get("negate") else made

    def _literal(self, node: exp.Expr, _: int) -> Expression:
        if node.is_string:
            return Literal(node.name, ColumnKind.TEXT)
        if node.name.isdigit():
            if int(node.name) > LARGEST:
                raise self.fault(node, "this number is too large", f"an integer is at most {LARGEST}")
            return Literal(int(node.name), ColumnKind.INTEGER)
        value = float(node.name)
        if not isfinite(value):
            raise self.fault(node, "this number is too large", "a double is less than 1.8e308")
        return Literal(value, ColumnKind.DOUBLE)

    def _boolean(self, node: exp.Expr, _: int) -> Expression:
        return Literal(bool(node.this), ColumnKind.BOOLEAN)

    def _column(self, node: exp.Expr, _: int) -> Expression:
        self._arguments(node, "this")
        name = node.name
        column = BY_NAME.get(name) or BY_NAME.get(name.lower())
        if column is None:
            near = get_close_matches(name.lower(), BY_NAME, 1)
            fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY_NAME)}"
            if node.this.args.get("quoted") and not near:
                fix = f"a text is written in single quotes: '{name}'"
            raise self.fault(node, f"there is no column {name}", fix)
        return Named(column)

    def _header(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expressions", "offset")
        made = self._needed(node.this, node, depth)
        name = node.expressions[0] if len(node.expressions) == 1 else None
        if made.kind is not ColumnKind.MAP or not isinstance(name, exp.Literal) or not name.is_string:
            fix = "write headers['name'], or value ->> '$[0]' for what is inside a value"
            raise self.fault(node, "only headers has names in brackets", fix)
        return Header(name.name)

    def _json(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expression")
        of, path = self._typed(node.this, node, ColumnKind.TEXT, depth), node.expression
        text = path.name if isinstance(path, exp.Literal) and path.is_string else None
        canonical = None if text is None else canonical_path(text)
        if canonical is None:
            fix = """write names and indexes alone: '$.lines[0].price' or '$."unit price"'"""
            raise self.fault(path or node, "this is not a path", fix)
        return JsonPath(of, canonical)

    def _cast(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "to", "safe")
        to = node.args.get("to")
        kind = OF_TYPE.get(to.this) if isinstance(to, exp.DataType) and not to.expressions else None
        if kind is None or not isinstance(to, exp.DataType):
            raise self.fault(to or node, "there is no such type", "there are text, integer, double, boolean, timestamp")
        made = self._needed(node.this, node, depth)
        if kind is ColumnKind.TIMESTAMP and isinstance(made, Literal) and isinstance(made.value, str):
            at = epoch_ms(made.value)
            if at is None:
                fix = "write '2026-11-23', '2026-11-23T02:00' or '2026-11-23T02:00:00.000+01:00'"
                raise self.fault(node.this, "this is not a time", fix)
            return Literal(at, kind)
        if made.kind is kind:
            return made
        if kind not in CASTS.get(made.kind, ()):
            raise self.fault(node, f"{named(made.kind)} cannot become {named(kind)}", remedy(made, kind))
        return Operation(Op.CAST, (made,), kind)

    def _interval(self, node: exp.Expr, _: int) -> Expression:
        self._arguments(node, "this", "unit", "fraction_in_string")
        number, unit = node.args.get("this"), node.args.get("unit")
        if isinstance(number, exp.Literal) and isinstance(unit, exp.Var):
            length = interval_ms(number.name, unit.name)
            if length is not None and length <= LARGEST:
                return Literal(length, ColumnKind.INTERVAL)
        fix = f"write interval '2 hours'; the units are {', '.join(UNITS)}"
        raise self.fault(node, "this is not an interval", fix)

    def _function(self, node: exp.Expr, depth: int) -> Expression:
        self._arguments(node, "this", "expressions")
        name = str(node.name).lower()
        if name == "now" and not node.expressions:
            return Now()
        function = FUNCTIONS.get(name)
        if function is None:
            near = get_close_matches(name, [*FUNCTIONS, "now"], 1)
            fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(SHAPES)}"
            raise self.fault(node, f"there is no function {name}", fix)
        return self._call(node, function, depth)

    def _call(self, node: exp.Expr, function: Function, depth: int) -> Expression:
        given = node.expressions
        if function.yields is None:
            if len(given) < 2:  # noqa: PLR2004 - one value needs no second choice
                raise self.fault(node, f"{function.op} takes two values or more", f"write {function.shape}")
            operands = self._alike(given, node, depth)
            return Operation(function.op, operands, operands[0].kind)
        if len(given) != len(function.takes):
            raise self.fault(node, f"{function.op} takes other arguments", f"write {function.shape}")
        operands = tuple(self._typed(each, node, kind, depth) for each, kind in zip(given, function.takes, strict=True))
        return Operation(function.op, operands, function.yields)
