"""An expression of `--where`: typed, and made of these nodes alone.

docs/where.md says what each means, and `duckdb_sql.py` beside it says it in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kafka_redelivery.dead_letters.where.columns import Column, ColumnKind


class Op(StrEnum):
    """What an operation does. NULL if an operand is NULL, except for ``IS_NULL``, ``AND``, ``OR`` and ``COALESCE``."""

    AND = "and"
    OR = "or"
    NOT = "not"
    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    BETWEEN = "between"
    """The first operand is at least the second and at most the third."""

    IN = "in"
    """The first operand equals one of the others."""

    IS_NULL = "is null"
    ADD = "+"
    """Of two integers, two doubles, or a timestamp or interval and an interval, as each of the next two."""

    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    """Of two doubles; NULL if the second is zero."""

    CONCAT = "||"
    LOWER = "lower"
    UPPER = "upper"
    LENGTH = "length"
    COALESCE = "coalesce"
    STARTS_WITH = "starts_with"
    CONTAINS = "contains"
    CAST = "cast"
    """From the kind of the operand to that of the operation; NULL if the text does not say such a value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. A timestamp is in epoch ms, an interval in ms."""

    value: str | int | float | bool
    kind: ColumnKind


@dataclass(frozen=True, slots=True)
class Now:
    """The time that the caller gives."""

    kind: ColumnKind = ColumnKind.TIMESTAMP


@dataclass(frozen=True, slots=True)
class Named:
    """A column."""

    column: Column

    @property
    def kind(self) -> ColumnKind:
        """The type of the column."""
        return self.column.kind


@dataclass(frozen=True, slots=True)
class Header:
    """The header of this name."""

    name: str
    kind: ColumnKind = ColumnKind.TEXT


@dataclass(frozen=True, slots=True)
class JsonPath:
    """What is at ``path`` in a text that is JSON."""

    of: Expression
    path: str
    """Such as ``$."lines"[0]."price"``."""

    kind: ColumnKind = ColumnKind.TEXT


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text matches a pattern."""

    of: Expression
    pattern: str
    r"""With ``%`` and ``_``; a backslash precedes each ``%``, ``_`` and backslash that means itself."""

    kind: ColumnKind = ColumnKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or a function with its operands."""

    op: Op
    operands: tuple[Expression, ...]
    kind: ColumnKind


Expression: TypeAlias = Literal | Now | Named | Header | JsonPath | Like | Operation


def nodes(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it is made of."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Operation):
            waiting += reversed(node.operands)
        elif isinstance(node, JsonPath | Like):
            waiting.append(node.of)


def columns(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    named = {node.column.name for node in nodes(expression) if isinstance(node, Named)}
    return frozenset(named | ({"headers"} if any(isinstance(node, Header) for node in nodes(expression)) else set()))
