"""An expression of `--where` as a condition on the rows of an archive. docs/where.md gives the meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.where.columns import Kind
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
from kafka_redelivery.dead_letters.where.letter_case import LOWER, UPPER
from kafka_redelivery.dead_letters.where.number_text import DOUBLE_TEXT, INTEGER_TEXT
from kafka_redelivery.dead_letters.where.times import TIMESTAMP_TEXT
from kafka_redelivery.pipeline.archive.json_paths import at_json_path
from kafka_redelivery.pipeline.errors import PredicateError, SlowConditionError
from kafka_redelivery.pipeline.spark.time_limit import time_limit

DEFAULT_LIMIT: Final = timedelta(minutes=10)
"""How long a condition may take for all rows."""

LACKING: Final = frozenset({"state", "job", "sends"})
"""Columns that the archive does not have: jobs come after it."""

_TYPES: Final = {
    Kind.TEXT: "string",
    Kind.DOUBLE: "double",
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.TIMESTAMP: "bigint",
    Kind.INTERVAL: "bigint",
}


def condition(expression: Expression, now_ms: int) -> Column:
    """Return a condition on rows of :data:`ARCHIVE_SCHEMA`. Times are numbers of ms, as in DuckDB.

    Args:
        expression: the condition.
        now_ms: what ``now()`` is, epoch ms.

    Raises:
        PredicateError: it names a column that the archive does not have.
    """
    missing = sorted(columns(expression) & LACKING)
    if missing:
        raise PredicateError(
            f"the archive has no {', '.join(missing)}: what became of a letter is known to `redelivery dlq` alone; "
            "leave it out of --where"
        )
    return _column(expression, now_ms)


@contextmanager
def limited(session: SparkSession, limit: timedelta) -> Iterator[None]:
    """Stop the block's jobs, which compute a condition, after a time.

    Raises:
        SlowConditionError: they have been stopped.
    """
    with time_limit(session, limit) as expired:
        try:
            yield
        except Exception as error:  # of PySpark, or of Py4J for what PySpark does not know
            if expired.is_set():
                raise SlowConditionError(limit.total_seconds()) from error
            raise


def _column(node: Expression, now_ms: int) -> Column:
    match node:
        case Literal(value, kind):
            return F.lit(value).cast(_TYPES[kind])
        case Now():
            return F.lit(now_ms).cast("bigint")
        case Named(column):
            return _COLUMNS[column.name]()
        case Header(name):
            found = F.filter("headers", lambda each: each["key"] == F.lit(name))
            return _text(F.get(found, F.size(found) - 1)["value"])
        case JsonPath(of, path):
            return at_json_path(_column(of, now_ms), path)
        case Like(of, pattern):
            return _column(of, now_ms).like(pattern)
        case Operation():
            return _operation(node, [_column(each, now_ms) for each in node.operands])


def _operation(node: Operation, operands: list[Column]) -> Column:
    match node.op:
        case Op.AND | Op.OR:
            return reduce(and_ if node.op is Op.AND else or_, operands)
        case Op.CAST:
            return _CASTS[node.operands[0].kind, node.kind](operands[0])
        case Op.IN:
            return operands[0].isin(*operands[1:])
        case Op.ADD | Op.SUBTRACT | Op.MULTIPLY if node.kind is Kind.DOUBLE:
            return _ARITHMETIC[node.op](*operands)
        case Op.ADD | Op.SUBTRACT | Op.MULTIPLY:
            # Spark changes the order of operations such as try_add, and with it whether one of them overflows.
            left, right = (each.cast("decimal(19, 0)") for each in operands)
            return _ARITHMETIC[node.op](left, right).try_cast("bigint")
    return _OPERATIONS[node.op](*operands)


def _text(data: Column) -> Column:
    """Return bytes as text, null if they are not UTF-8."""
    return F.try_validate_utf8(data.cast("string"))


def _value() -> Column:
    """Return the text of the value, or the JSON of a decoded Avro value.

    The archive does not say which codec a value had. Avro with a registry begins with a zero, which no text does. The
    JSON of other Avro records is an object, which the text is not.
    """
    text, decoded = _text(F.col("value")), F.col("value_json")
    is_avro = F.substring("value", 1, 1) == F.lit(b"\0")
    is_record = decoded.rlike(r"\A[\[{]") & ~text.rlike(r"\A\s*[\[{]")
    return F.when(is_avro | text.isNull() | F.coalesce(is_record, F.lit(False)), decoded).otherwise(text)  # noqa: FBT003 - the value


def _said(name: str) -> Column:
    """Return a text of a header, null if it is empty."""
    return F.nullif(F.col(name), F.lit(""))


def _time(data: Column) -> Column:
    """Return a time in UTC without a zone in epoch ms, whatever the time zone of the session is."""
    return F.timestamp_diff("MILLISECOND", F.lit("1970-01-01").cast("timestamp_ntz"), data)


_COLUMNS: Final[Mapping[str, Callable[[], Column]]] = {
    "id": lambda: F.concat(
        "topic", F.lit("-"), F.col("partition").cast("string"), F.lit("@"), F.col("offset").cast("string")
    ),
    "topic": lambda: F.col("topic"),
    "partition": lambda: F.col("partition").cast("bigint"),
    "offset": lambda: F.col("offset"),
    "died": lambda: F.unix_millis("dead_lettered_at"),
    "group": lambda: _said("origin_group"),
    "origin": lambda: _said("origin_address"),
    "source_id": lambda: _said("origin_message_id"),
    "attempts": lambda: F.col("delivery_count").cast("bigint"),
    "reason": lambda: _said("reason"),
    "exception": lambda: _said("exception"),
    "message": lambda: _said("message"),
    "fingerprint": lambda: _said("fingerprint"),
    "expires": lambda: F.unix_millis("expiration"),
    "key": lambda: _text(F.col("key")),
    "value": _value,
    "size": lambda: F.octet_length("value").cast("bigint"),
}

_ARITHMETIC: Final[Mapping[Op, Callable[[Column, Column], Column]]] = {Op.ADD: add, Op.SUBTRACT: sub, Op.MULTIPLY: mul}

_OPERATIONS: Final[Mapping[Op, Callable[..., Column]]] = {
    Op.NOT: lambda one: ~one,
    Op.EQ: eq,
    Op.NE: ne,
    Op.LT: lt,
    Op.LE: le,
    Op.GT: gt,
    Op.GE: ge,
    Op.BETWEEN: lambda one, low, high: (one >= low) & (one <= high),
    Op.IS_NULL: lambda one: one.isNull(),
    Op.DIVIDE: F.try_divide,
    Op.CONCAT: F.concat,
    Op.LOWER: lambda text: F.translate(text, UPPER, LOWER),
    Op.UPPER: lambda text: F.translate(text, LOWER, UPPER),
    Op.LENGTH: lambda text: F.length(text).cast("bigint"),
    Op.COALESCE: F.coalesce,
    Op.STARTS_WITH: F.startswith,
    Op.CONTAINS: F.contains,
}

_CASTS: Final[Mapping[tuple[Kind, Kind], Callable[[Column], Column]]] = {
    (Kind.TEXT, Kind.INTEGER): lambda text: F.regexp_extract(text, rf"\A{INTEGER_TEXT}\z", 0).try_cast("bigint"),
    (Kind.TEXT, Kind.DOUBLE): lambda text: F.regexp_extract(text, rf"\A{DOUBLE_TEXT}\z", 0).try_cast("double"),
    (Kind.TEXT, Kind.BOOLEAN): lambda text: F.regexp_extract(text, r"\A(?:true|false)\z", 0).try_cast("boolean"),
    (Kind.TEXT, Kind.TIMESTAMP): lambda text: _time(
        F.regexp_extract(text, rf"\A({TIMESTAMP_TEXT})Z?\z", 1).try_cast("timestamp_ntz")
    ),
    (Kind.INTEGER, Kind.DOUBLE): lambda number: number.cast("double"),
    (Kind.INTEGER, Kind.TEXT): lambda number: number.cast("string"),
}
