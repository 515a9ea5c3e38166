"""`--where` on rows of an archive: DuckDB evaluates it in the Python workers of Spark, with the SQL of the topics."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, reduce
from operator import and_
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from kafka_redelivery.dead_letters.where.duckdb_sql import duckdb_sql
from kafka_redelivery.dead_letters.where.expression import Expression, Header, Named, Op, Operation, columns, nodes
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.dead_letters import UNKNOWN_ORIGIN
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.pipeline.frames import header, header_number
from kafka_redelivery.pipeline.spark.codecs import arrow_function
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.headers import ACTUAL_EXPIRY, DELIVERY_COUNT, EXPIRATION

DEFAULT_LIMIT: Final = timedelta(minutes=10)
"""How long a condition may take for all rows."""

_AGAIN_S: Final = 1.0
"""A job that begins after the limit is cancelled at the latest after this time."""

_LACKING: Final = frozenset({"state", "job", "sends"})
"""Columns that conditions on the archive do not have: its states are those of its last run."""


def condition(where: Where) -> Column:
    """Return a condition that is true for the rows of :data:`ARCHIVE_SCHEMA` that are meant, else false or null.

    Only the columns that it names are sent to Python.

    Raises:
        OptionError: it names a column that the archive does not have here.
    """
    missing = sorted(where.columns & _LACKING)
    if missing:
        raise OptionError(
            "where",
            f"there is no {', '.join(missing)} here: an archive has the states of its last run, and `redelivery dlq` "
            "those of now; leave it out of --where",
        )
    names = sorted(where.columns) or ["offset"]
    sql, parameters = where.duckdb

    def met(*values: pa.Array) -> pa.Array:
        opened = _duckdb()
        opened.register("rows", pa.table(list(values), names))
        found = opened.sql(f"SELECT {sql} AS met FROM rows", params=list(parameters))  # noqa: S608 - compiled
        return found.to_arrow_table()["met"].combine_chunks()

    given = _columns(where)
    return _skipping(where) & arrow_function(met, BooleanType())(*(given[name] for name in names))


@contextmanager
def limited(session: SparkSession, limit: timedelta) -> Iterator[None]:
    """Stop the block's jobs, which compute a condition, after a time.

    A task that computes one row without an end, such as a pattern with many ``%``, goes on until its process ends.

    Raises:
        PipelineError: they have been stopped.
    """
    context, tag = session.sparkContext, f"limited-{secrets.token_hex(4)}"
    ended, expired = threading.Event(), threading.Event()

    def cancel() -> None:
        wait_s = limit.total_seconds()
        while not ended.wait(wait_s):
            expired.set()
            context.cancelJobsWithTag(tag)
            wait_s = _AGAIN_S

    thread = threading.Thread(target=cancel, name="time limit", daemon=True)
    context.addJobTag(tag)
    thread.start()
    try:
        yield
    except Exception as error:  # of PySpark, or of Py4J for what PySpark does not know
        if expired.is_set():
            raise PipelineError(
                f"--where was not computed for all rows within {limit.total_seconds():g} s, and nothing was changed: a "
                "LIKE with many % can take for ever on a long text; make it simpler (contains, starts_with), or give "
                "more time: --within"
            ) from error
        raise
    finally:
        ended.set()
        thread.join()
        context.removeJobTag(tag)


@lru_cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """Open a database in memory once in each process."""
    opened = duckdb.connect(config={"threads": 1, "memory_limit": "512MB"})
    # Conditions are compiled from an allow-list; should one get through, it reads nothing. The order counts: without
    # access to files DuckDB takes no other folder for its own.
    for setting in ("temp_directory = ''", "TimeZone = 'UTC'", "enable_external_access = false"):
        opened.execute(f"SET {setting}")
    opened.execute("SET lock_configuration = true")
    return opened


_MIRRORED: Final = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_FROM: Final = frozenset({Op.EQ, Op.IN, Op.GT, Op.GE, Op.BETWEEN})
_UP_TO: Final = frozenset({Op.EQ, Op.IN, Op.LT, Op.LE, Op.BETWEEN})
_DAY: Final = timedelta(days=1)
_SPAN_MS: Final = range(1, LATEST_MS - 2 * _DAY // timedelta(milliseconds=1))
"""Times that have a day after them. Zero also stands for earlier ones."""


def _skipping(where: Where) -> Column:
    """Return a condition by which Spark skips files: true wherever ``where`` is.

    It has the comparisons of ``died`` and ``origin`` with constants that each letter has to meet.
    """
    found = [F.lit(True)]  # noqa: FBT003 - the value
    for op, name, values in _comparisons(where.expression, where.now_ms):
        if name == "origin" and op in {Op.EQ, Op.IN}:
            found.append(F.col("origin").isin(UNKNOWN_ORIGIN, *values))
        elif name == "died":
            low, high = min(values), max(values)
            # In tables of an early version the day is that of the session's time zone.
            if op in _FROM and low in _SPAN_MS:
                found += [_at(low) <= F.col("dead_lettered_at"), F.lit(_day(low) - _DAY) <= F.col("day")]
            if op in _UP_TO and high in _SPAN_MS:
                found += [F.col("dead_lettered_at") < _at(high + 1), F.col("day") <= F.lit(_day(high) + _DAY)]
    return reduce(and_, found)


def _comparisons(node: Expression, now_ms: int) -> Iterator[tuple[Op, str, list[Any]]]:
    """Yield the comparisons of a column with constants that have to be met: how, which column, the constants."""
    if not isinstance(node, Operation):
        return
    if node.op is Op.AND:
        for each in node.operands:
            yield from _comparisons(each, now_ms)
        return
    op: Op = node.op
    first, *others = node.operands
    if op in _MIRRORED and isinstance(others[0], Named):
        op, first, others = _MIRRORED[op], others[0], [first]
    if others and isinstance(first, Named) and not any(map(columns, others)):
        values = [_constant(each, now_ms) for each in others]
        if None not in values:
            yield op, first.column.name, values


def _constant(node: Expression, now_ms: int) -> object:
    sql, parameters = duckdb_sql(node, now_ms)
    found = _duckdb().execute(f"SELECT {sql}", parameters).fetchone()
    return None if found is None else found[0]


def _at(ms: int | Column) -> Column:
    return F.timestamp_millis(F.lit(ms))


def _day(ms: int) -> date:
    return datetime.fromtimestamp(ms // 1000, UTC).date()


def _columns(where: Where) -> Mapping[str, Column]:
    """Return what the columns of ``--where`` are in the archive; of the headers only those that ``where`` names."""
    named = sorted({node.name for node in nodes(where.expression) if isinstance(node, Header)})
    return {
        "id": F.concat(
            "topic", F.lit("-"), F.col("partition").cast("string"), F.lit("@"), F.col("offset").cast("string")
        ),
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "died": _at(F.greatest(F.lit(0), F.least(F.unix_millis("dead_lettered_at"), F.lit(LATEST_MS)))),
        "group": _said("origin_group"),
        "origin": _said("origin_address"),
        "source_id": _said("origin_message_id"),
        # Read from the header: earlier versions have taken other numbers for it.
        "attempts": header_number(DELIVERY_COUNT, "int"),
        "reason": _said("reason"),
        "exception": _said("exception"),
        "message": _said("message"),
        "place": _said("place"),
        "fingerprint": _said("fingerprint"),
        "expires": _expires(),
        "key": _text(F.col("key")),
        "headers": F.create_map(*(each for name in named for each in (F.lit(name), _text(header(name))))),
        "value": _value(),
        "size": F.octet_length("value"),
    }


def _expires() -> Column:
    """Return when a letter expires, null if never; of one that was moved to an expiry topic when it was found."""
    of_record = F.when(F.col("reason").eqNullSafe(Reason.EXPIRED.value), 1).otherwise(0)
    return F.coalesce(_time_in(EXPIRATION), _time_in(ACTUAL_EXPIRY, of_record))


def _time_in(name: str, without: Column | None = None) -> Column:
    """Return the time in a header, null if it is 0. Of several headers the first that is a number counts.

    ``without``: how many of them are left out.
    """
    named = F.filter("headers", lambda each: each["key"] == name)
    if without is not None:
        named = F.slice(named, without + 1, F.size(named))
    numbers = F.filter(named, lambda each: _text(each["value"]).rlike(r"\A[0-9]{1,19}\z"))
    found = F.try_element_at(numbers, F.lit(1))["value"].cast("string").cast("decimal(19, 0)")
    return F.when(found > 0, _at(F.least(found, F.lit(LATEST_MS)).cast("bigint")))


def _text(data: Column) -> Column:
    """Return bytes as text, null if they are not UTF-8."""
    return F.try_validate_utf8(data.cast("string"))


def _said(name: str) -> Column:
    """Return a text of a header, null if it is empty."""
    return F.nullif(F.col(name), F.lit(""))


def _value() -> Column:
    """Return the text of the value, or the JSON of a decoded Avro value.

    The archive does not say which codec a value had. Avro with a registry begins with a zero, which no text does. The
    JSON of other Avro records is an object, which the text is not.
    """
    text, decoded = _text(F.col("value")), F.col("value_json")
    is_avro = F.substring("value", 1, 1) == F.lit(b"\0")
    is_record = decoded.rlike(r"\A[\[{]") & ~text.rlike(r"\A\s*[\[{]")
    return F.when(is_avro | text.isNull() | F.coalesce(is_record, F.lit(False)), decoded).otherwise(text)  # noqa: FBT003 - the value
