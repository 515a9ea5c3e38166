"""Which types go together in operations and functions, and what to write where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlglot import exp

from kafka_redelivery.dead_letters.where.columns import Kind
from kafka_redelivery.dead_letters.where.expression import Expression, Literal, Op, Operation

NUMBERS: Final = frozenset({Kind.INTEGER, Kind.DOUBLE})
LARGEST: Final = 2**63 - 1
"""The largest integer."""

OF_TYPE: Final = {
    exp.DType.TEXT: Kind.TEXT,
    exp.DType.VARCHAR: Kind.TEXT,
    exp.DType.INT: Kind.INTEGER,
    exp.DType.BIGINT: Kind.INTEGER,
    exp.DType.DOUBLE: Kind.DOUBLE,
    exp.DType.BOOLEAN: Kind.BOOLEAN,
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
}
CASTS: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.TEXT: frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.BOOLEAN, Kind.TIMESTAMP}),
    Kind.INTEGER: frozenset({Kind.DOUBLE, Kind.TEXT}),
}
"""What can be converted, and to what."""

_OF_TIMES: Final = {
    (Op.ADD, Kind.TIMESTAMP, Kind.INTERVAL): Kind.TIMESTAMP,
    (Op.ADD, Kind.INTERVAL, Kind.TIMESTAMP): Kind.TIMESTAMP,
    (Op.ADD, Kind.INTERVAL, Kind.INTERVAL): Kind.INTERVAL,
    (Op.SUBTRACT, Kind.TIMESTAMP, Kind.INTERVAL): Kind.TIMESTAMP,
    (Op.SUBTRACT, Kind.TIMESTAMP, Kind.TIMESTAMP): Kind.INTERVAL,
    (Op.SUBTRACT, Kind.INTERVAL, Kind.INTERVAL): Kind.INTERVAL,
    (Op.MULTIPLY, Kind.INTERVAL, Kind.INTEGER): Kind.INTERVAL,
    (Op.MULTIPLY, Kind.INTEGER, Kind.INTERVAL): Kind.INTERVAL,
}


class Function(NamedTuple):
    """A function."""

    op: Op
    takes: tuple[Kind, ...]
    """Empty = two values or more of one type, which is also its result's."""

    yields: Kind | None
    shape: str
    """How it is written."""


FUNCTIONS: Final = {
    "lower": Function(Op.LOWER, (Kind.TEXT,), Kind.TEXT, "lower(text)"),
    "upper": Function(Op.UPPER, (Kind.TEXT,), Kind.TEXT, "upper(text)"),
    "length": Function(Op.LENGTH, (Kind.TEXT,), Kind.INTEGER, "length(text)"),
    "starts_with": Function(Op.STARTS_WITH, (Kind.TEXT, Kind.TEXT), Kind.BOOLEAN, "starts_with(text, start)"),
    "contains": Function(Op.CONTAINS, (Kind.TEXT, Kind.TEXT), Kind.BOOLEAN, "contains(text, part)"),
    "coalesce": Function(Op.COALESCE, (), None, "coalesce(value, value, ...)"),
}
SHAPES: Final = (*(function.shape for function in FUNCTIONS.values()), "now()", "cast(value as type)")
"""How each function is written, for errors."""


def arithmetic(op: Op, left: Expression, right: Expression) -> Operation | None:
    """Return ``left op right``, ``None`` if it has no meaning."""
    if {left.kind, right.kind} <= NUMBERS:
        if op is Op.DIVIDE or left.kind is not right.kind or left.kind is Kind.DOUBLE:
            return Operation(op, (double(left), double(right)), Kind.DOUBLE)
        return Operation(op, (left, right), Kind.INTEGER)
    kind = _OF_TIMES.get((op, left.kind, right.kind))
    return None if kind is None else Operation(op, (left, right), kind)


def double(value: Expression) -> Expression:
    """Return a number as a double."""
    if value.kind is Kind.DOUBLE:
        return value
    if isinstance(value, Literal):
        return Literal(float(value.value), Kind.DOUBLE)
    return Operation(Op.CAST, (value,), Kind.DOUBLE)


def named(kind: Kind) -> str:
    """Return a type with its article."""
    return f"an {kind}" if kind in {Kind.INTEGER, Kind.INTERVAL} else f"a {kind}"


def remedy(have: Expression, want: Kind) -> str:
    """Return what to write instead of ``have`` where a value of type ``want`` is needed."""
    if have.kind is Kind.MAP:
        return "name one header: headers['name']"
    if want in CASTS.get(have.kind, ()) and not isinstance(have, Literal):
        return f"write cast(... as {want})"
    if want is Kind.TEXT and not isinstance(have, Literal):
        return "it has no form as text; compare it as it is"
    return _FIXES.get(want, "docs/where.md has the types")


_FIXES: Final = {
    Kind.BOOLEAN: "compare it with something, such as: attempts >= 3",
    Kind.TIMESTAMP: "write timestamp '2026-11-23T02:00'",
    Kind.INTERVAL: "write interval '2 hours'",
    Kind.TEXT: "write a text in quotes: '...'",
    Kind.INTEGER: "write an integer, without quotes",
    Kind.DOUBLE: "write a number, without quotes",
}
