"""The functions of the language."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_redelivery.dead_letters.where.columns import Kind
from kafka_redelivery.dead_letters.where.expression import Op


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
