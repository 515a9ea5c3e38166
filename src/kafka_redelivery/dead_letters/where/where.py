"""What a person has given as `--where`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kafka_redelivery.dead_letters.where.duckdb_sql import DuckDbSql, duckdb_sql
from kafka_redelivery.dead_letters.where.expression import Expression, columns
from kafka_redelivery.dead_letters.where.parsing import parse


@dataclass(frozen=True, slots=True)
class Where:
    """A condition, and the time that `now()` is in it."""

    expression: Expression
    now_ms: int

    @classmethod
    def of(cls, text: str, now_ms: int) -> Self:
        """Parse a condition.

        Args:
            text: as it was given.
            now_ms: the time, epoch ms.

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
