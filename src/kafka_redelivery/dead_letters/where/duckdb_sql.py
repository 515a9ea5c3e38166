"""An expression in DuckDB's SQL, with its constants as bound parameters. docs/where.md gives the reasons.

Times are numbers of ms, so that their arithmetic is that of integers. An integer that does not fit into 64 bits is NULL
where DuckDB would end the query.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_redelivery.dead_letters.where.columns import ColumnKind
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
)
from kafka_redelivery.dead_letters.where.literals import ESCAPE, LOWER, TIMESTAMP_TEXT, UPPER


class DuckDbSql(NamedTuple):
    """A condition for WHERE."""

    sql: str
    """Fixed words and names of columns, and a ``?`` for each parameter."""

    parameters: tuple[str | int | float | bool, ...]


_INFIX: Final = frozenset({Op.AND, Op.OR, Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.CONCAT})
_WITHIN_64_BITS: Final = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY})
_TYPES: Final = {
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.DOUBLE: "DOUBLE",
    ColumnKind.BOOLEAN: "BOOLEAN",
    ColumnKind.INTEGER: "BIGINT",
    ColumnKind.TIMESTAMP: "BIGINT",
    ColumnKind.INTERVAL: "BIGINT",
}
_FIXED: Final = {
    Op.NOT: "(NOT {})",
    Op.IS_NULL: "({} IS NULL)",
    Op.BETWEEN: "({} BETWEEN {} AND {})",
    Op.DIVIDE: "({} / list_transform([{}], lambda divisor: CASE WHEN divisor <> 0 THEN divisor END)[1])",
    Op.LENGTH: "length({})",
    Op.STARTS_WITH: "starts_with({}, {})",
    Op.CONTAINS: "contains({}, {})",
}
_CASE: Final = (
    # DuckDB's own function is fast, and means the same where all characters are ASCII.
    "list_transform([{text}], lambda text: CASE WHEN strlen(text) = length(text) THEN {function}(text) "
    "ELSE translate(text, ?, ?) END)[1]"
)
# With at most 400 digits on either side of the point, and three in the exponent.
_INTEGER: Final = "[+-]?[0-9]{1,19}"
_DOUBLE: Final = "[+-]?(?:[0-9]{1,400}(?:[.][0-9]{0,400})?|[.][0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?"
_CASTS: Final = {
    (ColumnKind.TEXT, ColumnKind.INTEGER): ("TRY_CAST(regexp_extract(", f", '\\A{_INTEGER}\\z') AS BIGINT)"),
    (ColumnKind.TEXT, ColumnKind.DOUBLE): ("TRY_CAST(regexp_extract(", f", '\\A{_DOUBLE}\\z') AS DOUBLE)"),
    (ColumnKind.TEXT, ColumnKind.BOOLEAN): ("TRY_CAST(regexp_extract(", ", '\\A(?:true|false)\\z') AS BOOLEAN)"),
    (ColumnKind.TEXT, ColumnKind.TIMESTAMP): (
        "epoch_ms(TRY_CAST(regexp_extract(",
        f", '\\A({TIMESTAMP_TEXT})Z?\\z', 1) AS TIMESTAMP))",
    ),
    (ColumnKind.INTEGER, ColumnKind.DOUBLE): ("CAST(", " AS DOUBLE)"),
    (ColumnKind.INTEGER, ColumnKind.TEXT): ("CAST(", " AS VARCHAR)"),
}
"""What stands before and after the text or number. A text of another form becomes empty, which no cast accepts."""


def duckdb_sql(expression: Expression, now_ms: int) -> DuckDbSql:
    """Return a condition for a table or view that has the columns of :data:`COLUMNS` with these types.

    Args:
        expression: the condition.
        now_ms: what ``now()`` is, epoch ms.
    """
    writer = _Writer(now_ms)
    return DuckDbSql(writer.sql(expression), tuple(writer.parameters))


class _Writer:
    """Writes one expression; a parameter is added where its sign is written, so the order is that of the signs."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self.parameters: list[str | int | float | bool] = []

    def sql(self, node: Expression) -> str:
        match node:
            case Literal(value, kind):
                return self._bound(value, kind)
            case Now():
                return self._bound(self._now_ms, ColumnKind.TIMESTAMP)
            case Named(column):
                return f'epoch_ms("{column.name}")' if column.kind is ColumnKind.TIMESTAMP else self._column(node)
            case Header(name):
                return f'"headers"[{self._bound(name, ColumnKind.TEXT)}]'
            case JsonPath(of, path):
                return f"json_extract_string(TRY_CAST({self.sql(of)} AS JSON), {self._bound(path, ColumnKind.TEXT)})"
            case Like(of, pattern):
                # Without ESCAPE no character is special but % and _, and the engine compares twice as fast.
                escape = f" ESCAPE '{ESCAPE}'" if ESCAPE in pattern else ""
                return f"({self.sql(of)} LIKE {self._bound(pattern, ColumnKind.TEXT)}{escape})"
            case Operation():
                return self._operation(node)

    def _column(self, node: Named) -> str:
        name = f'"{node.column.name}"'
        return f"CAST({name} AS BIGINT)" if node.kind is ColumnKind.INTEGER else name

    def _bound(self, value: str | float | bool, kind: ColumnKind) -> str:  # noqa: FBT001 - a value of any type
        self.parameters.append(value)
        return f"CAST(? AS {_TYPES[kind]})"

    def _operation(self, node: Operation) -> str:
        if node.op in {Op.LOWER, Op.UPPER}:
            text = self.sql(node.operands[0])
            self.parameters += (UPPER, LOWER) if node.op is Op.LOWER else (LOWER, UPPER)
            return _CASE.format(text=text, function=node.op)
        operands = [self.sql(each) for each in node.operands]
        if node.op in _INFIX:
            return f"({f' {node.op.upper()} '.join(operands)})"
        if node.op is Op.IN:
            return f"({operands[0]} IN ({', '.join(operands[1:])}))"
        if node.op is Op.COALESCE:
            return f"coalesce({', '.join(operands)})"
        if node.op is Op.CAST:
            return operands[0].join(_CASTS[node.operands[0].kind, node.kind])
        if node.op in _WITHIN_64_BITS:
            left, right = operands
            if node.kind is ColumnKind.DOUBLE:
                return f"({left} {node.op} {right})"
            return f"TRY_CAST(CAST({left} AS HUGEINT) {node.op} CAST({right} AS HUGEINT) AS BIGINT)"
        return _FIXED[node.op].format(*operands)
