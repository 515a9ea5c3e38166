"""Redelivery policies and dead letters for who has a DataFrame: a row can be rejected, or tried again later.

The policies, headers, retry topics and dead letters are those of workers, and so is the promise: each record has
exactly one outcome, whichever process is killed::

    from pyspark.sql import functions as F
    from kafka_redelivery.spark import Redelivery

    r = Redelivery.load("redelivery.yaml")

    def clean(orders):
        return orders.withColumn(
            "_failure",
            F.when(F.col("amount") < 0, r.reject("a negative amount"))
             .when(F.col("rate").isNull(), r.retry("no exchange rate yet")),
        )

    query = r.start(spark, clean, to=r.kafka("receipts"), schema="amount double, rate double")
    ...
    query.stop()

It needs the extra ``spark``.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from kafka_redelivery.consumers.app import App
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.embedding import Definition
from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.frames import Frames
from kafka_redelivery.pipeline.handler.computed import FILTERED, NO_ROW, Computing
from kafka_redelivery.pipeline.spark.jars import CONNECTOR, DELTA, refuse_connect, refuse_version, with_jars
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options
from kafka_redelivery.pipeline.stream.queries import records
from kafka_redelivery.pipeline.stream.row_codecs import RowCodecs
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.start_offsets import partition_counts
from kafka_redelivery.pipeline.stream.stream import run_stream
from kafka_redelivery.pipeline.stream.transformation import FAILURE_TYPE, RECORD, Transformation, failure
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, Settings, SinkSection
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.preflight import make_topics
from kafka_redelivery.transport.protocols import Partition

__all__ = ["DeltaTable", "KafkaTopic", "Query", "Redelivery", "session_settings"]


_log = logging.getLogger(__name__)

_QUERIES: Final[dict[tuple[str, str], Query]] = {}
"""The last query of each group and Kafka cluster in this process."""

_MISSING: Final = {"fail": NO_ROW, "discard": FILTERED}


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """Rows become records of a topic, in the transaction that acknowledges their source record."""

    topic: str
    key: Column | None = None
    """Binary or text; ``None`` = the key of the source record."""

    value: Column | None = None
    """Binary or text; ``None`` = all columns but ``_record`` and ``_failure``, in the format that ``outputs`` of the
    configuration has for the topic: Avro, Protobuf or JSON Schema; otherwise as JSON."""

    where: Column | str | None = None
    """Which rows are sent, as a column or in SQL; ``None`` = all. The record of another is acknowledged without it."""


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """Rows are appended to a Delta table, exactly once.

    They are records of a topic first, as with :class:`KafkaTopic`. A second query appends that topic to the table.
    """

    path: str
    through: str
    partition_by: str | tuple[str, ...] = ()
    trigger: timedelta = timedelta(minutes=1)
    where: Column | str | None = None


class Redelivery:
    """A consumer group whose records a transformation of DataFrames handles. Creating one opens nothing."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as of App
        """Create one of Python values; they are the arguments of :class:`kafka_redelivery.App`."""
        self._app = App(**settings)

    @classmethod
    def load(cls, file: str | Path, *, environment: Mapping[str, str] | None = None) -> Self:
        """Create one of a configuration file.

        Args:
            file: the configuration.
            environment: overrides settings and replaces ``${NAME}``; by default that of this process.

        Raises:
            OSError: the file cannot be read.
        """
        found = cls(group="", kafka={})
        found._app = App.from_config(file, environment=environment)
        return found

    @property
    def settings(self) -> Settings:
        """The settings, checked.

        Raises:
            ConfigurationError: they have faults.
        """
        return self._app.settings

    def apply(self) -> None:
        """Create the topics of the group, as `redelivery topology apply` does. The sources have to exist.

        Raises:
            ConfigurationError: the settings have faults.
            TransportError: Kafka does not answer, or refuses.
        """
        make_topics(self.settings, wall_clock_ms())

    @staticmethod
    def reject(reason: str | Column) -> Column:
        """Return the failure of a row that no later attempt could save: its record is dead-lettered."""
        return failure(FailureKind.REJECTED, "Reject", _text(reason))

    @staticmethod
    def retry(reason: str | Column, *, after: timedelta | None = None) -> Column:
        """Return the failure of a row that is tried again as the redelivery policy says, and dead-lettered at its end.

        Args:
            reason: for people.
            after: delay before the next attempt, if ``maximumHandlerDelay`` in the policy entry allows it; ``None`` =
                that of the policy.
        """
        after_ms = None if after is None else round(after.total_seconds() * 1000)
        return failure(FailureKind.REDELIVER, "Redeliver", _text(reason), after_ms)

    @staticmethod
    def guard(function: Callable[..., object], returns: str | DataType) -> Callable[..., Column]:
        """Return a function as a UDF whose exceptions fail their row instead of the query.

        What it returns is a struct with the fields ``value`` and ``failure``::

            parse = r.guard(lambda text: Decimal(text), "decimal(12, 2)")
            rows = orders.withColumn("parsed", parse("amount")).select(
                "_record", F.col("parsed.value").alias("amount"), F.col("parsed.failure").alias("_failure"))

        Args:
            function: a plain function of one row. Its exception is redelivered and dead-lettered as that of a handler.
            returns: the type of what it returns.
        """

        def call(*values: object) -> tuple[object, object]:
            try:
                return function(*values), None
            except Exception as error:  # noqa: BLE001 - whatever it raises is the failure of its row
                return None, (str(FailureKind.RAISED), type(error).__qualname__, str(error), None)

        kind = returns if isinstance(returns, str) else returns.simpleString()
        return F.udf(call, f"struct<value: {kind}, failure: {FAILURE_TYPE}>")

    @staticmethod
    def kafka(
        topic: str, *, key: Column | None = None, value: Column | None = None, where: Column | str | None = None
    ) -> KafkaTopic:
        """Return a topic as the target of rows, see :class:`KafkaTopic`."""
        return KafkaTopic(topic, key, value, where)

    @staticmethod
    def delta(
        path: str,
        *,
        through: str,
        partition_by: str | tuple[str, ...] = (),
        trigger: timedelta = timedelta(minutes=1),
        where: Column | str | None = None,
    ) -> DeltaTable:
        """Return a Delta table as the target of rows, see :class:`DeltaTable`.

        Args:
            path: the folder of the table.
            through: the topic that its rows pass through. It must exist; its retention limits how long the table may
                be away.
            partition_by: the column or columns that divide the table.
            trigger: time from one append to the next.
            where: which rows are appended, as a column or in SQL; ``None`` = all. The record of another row is
                acknowledged without it.
        """
        return DeltaTable(path, through, partition_by, trigger, where)

    def read(
        self,
        spark: SparkSession,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        schema: str | StructType | None = None,
    ) -> DataFrame:
        """Return records of the sources as a transformation gets them, in a batch: to try it, or for a backfill.

        A record that cannot be decoded has null columns and a ``_failure``. A transformation decides nothing about it,
        so leave such rows out first. SQL's ``reject`` and ``retry`` are defined in transformations alone. No offset is
        committed.

        Args:
            spark: as in :meth:`start`.
            start: the first timestamp, with a time zone; ``None`` = what is there.
            end: the first timestamp behind it; ``None`` = now.
            schema: as in :meth:`start`.

        Raises:
            ConfigurationError, PipelineRefusedError, TransportError: as in :meth:`start`.
        """
        refuse_session(spark)
        for name, time in (("start", start), ("end", end)):
            if time is not None and getattr(time, "tzinfo", None) is None:
                raise PipelineRefusedError(
                    f"{name} is {time!r}: pass a datetime with a time zone, such as datetime(2026, 1, 31, tzinfo=UTC)"
                )
        definition = self._app.definition()
        settings = definition.settings
        found = _transformation(definition, lambda given: given, schema)
        counts, offsets = partition_counts(settings), PartitionOffsets(settings.kafka)
        if missing := [each.topic for each in settings.sources if each.topic not in counts]:
            raise PipelineRefusedError(f"there is no topic {missing[0]}: create it, or correct its name in sources")
        wanted = [Partition(each.topic, number) for each in settings.sources for number in range(counts[each.topic])]
        first, last = offsets.log_start_offsets(wanted), offsets.last_stable_offsets(wanted)
        if start is not None:
            first = last | offsets.offsets_for_time(wanted, round(start.timestamp() * 1000))
        if end is not None:
            last |= offsets.offsets_for_time(wanted, round(end.timestamp() * 1000))
        frame = Frames(spark, kafka_options(settings.kafka)).records(
            [(each, first[each], last[each]) for each in wanted]
        )
        return found.batch(records(frame))

    def start(
        self,
        spark: SparkSession,
        transformation: Callable[[DataFrame], DataFrame] | None = None,
        *,
        to: KafkaTopic | DeltaTable | None = None,
        schema: str | StructType | None = None,
        on_missing: Literal["fail", "discard"] = "fail",
        name: str | None = None,
        available_now: bool = False,
        until_settled: timedelta | None = None,
    ) -> Query:
        """Start a query whose micro-batches the transformation is applied to, and return when it runs.

        The DataFrame that it is given has a row for each record: the struct ``_record`` and the columns of the value.
        The one that it returns has rows with the same ``_record``, any columns, and ``_failure`` if rows may fail:
        null, :meth:`reject` or :meth:`retry`. A record fails if one of its rows does, or if it has none.

        Args:
            spark: the session, which has Spark's Kafka connector. It is left as it is, and not stopped.
            transformation: may filter, join with tables and call any UDF. It is not to aggregate over records.
                ``None`` = the handlers of the configuration are called, as by `redelivery pipeline stream`.
            to: where rows of records without a failure go; ``None`` = nowhere.
            schema: the columns of values that have fields, such as ``"amount double, currency string"``. Columns of
                Avro and the like are those of their JSON: bytes are text in base64, times ISO 8601.
            on_missing: what a record without a row means. ``fail``: it has failed as if a handler had raised ``NoRow``.
                ``discard``: it is discarded, and counted as ``filtered``.
            name: the name of the query in Spark; ``None`` = that of the group.
            available_now: end when all records that exist at the start have been handled once.
            until_settled: with ``available_now``, go on until no record waits, at most for this time.

        A query of the same group that runs in this process is stopped before, as by :meth:`Query.stop`.

        Raises:
            ConfigurationError, PipelineRefusedError: what is configured cannot run.
            TopologyRefusedError: the topics would lose data.
            TransportError: Kafka does not answer, or refuses a request for good.
        """
        refuse_session(spark)
        definition = self._app.definition()
        settings, found = definition.settings, None
        if transformation is not None:
            if settings.pipeline is not None and settings.pipeline.sink is not None:
                raise PipelineRefusedError(
                    "pipeline.sink is a table of handlers: remove it, and pass to=r.delta(path, through=topic)"
                )
            found = _transformation(definition, transformation, schema, to, name, on_missing).checked(spark)
            settings = found.settings_of_query()
        elif (to, schema, name, on_missing) != (None, None, None, "fail"):
            raise PipelineRefusedError(
                "to, schema, on_missing and name are for a transformation: pass one, or leave them out"
            )
        query = Query(name or settings.group, Shutdown(settings.limits.shutdown_timeout))

        def run(shutdown: Shutdown) -> None:
            run_stream(
                settings,
                definition.base,
                available_now=available_now,
                until_settled=until_settled,
                session=spark,
                shutdown=shutdown,
                transformation=found,
            )

        key = settings.group, str(settings.kafka.get("bootstrap.servers"))
        earlier = _QUERIES.get(key)
        if earlier is not None and earlier.isActive:
            _log.info("the query of group %s that runs in this process is stopped first", settings.group)
            with suppress(Exception):  # it raises that to who waits for the query
                earlier.stop()
        _QUERIES[key] = query
        query.start(run)
        return query


class Query:
    """A query that runs in a thread of this process. The names are those of Spark's ``StreamingQuery``."""

    def __init__(self, name: str, shutdown: Shutdown) -> None:
        """Run nothing yet."""
        self.name = name
        self._shutdown = shutdown
        self._error: BaseException | None = None
        self._ended = threading.Event()

    def start(self, run: Callable[[Shutdown], None]) -> None:
        """Run it, and wait until Spark has started it.

        Raises:
            Exception: what it has raised before.
        """

        def go_on() -> None:
            try:
                run(self._shutdown)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._error = error
            finally:
                self._ended.set()
                self._shutdown.started.set()

        # A daemon: a notebook that ends without stop() loses nothing, since the next query goes on there.
        threading.Thread(target=go_on, name=f"query {self.name}", daemon=True).start()
        self._shutdown.started.wait()
        if self._error is not None:
            raise self._error

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs."""
        return not self._ended.is_set()

    def exception(self) -> BaseException | None:
        """Return the error that has ended it, or ``None``."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        """Wait until it has ended, at most ``timeout`` seconds; return whether it has.

        Raises:
            Exception: the error that has ended it.
        """
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        """Let it finish its micro-batch within ``limits.shutdownTimeout``, and wait for its end.

        Raises:
            Exception: the error that has ended it.
        """
        self._shutdown.request()
        self.awaitTermination()


def session_settings(*, delta: bool = False) -> dict[str, Any]:
    """Return the settings of a session with the jars that PySpark does not bring, for ``builder.config(map=...)``.

    Python workers will use this interpreter, unless PYSPARK_PYTHON names another one or the job is submitted.

    Args:
        delta: with Delta Lake, besides the Kafka connector.

    Raises:
        PipelineRefusedError: the version of PySpark is not supported.
        TransportError: a jar cannot be downloaded, or does not match its pinned hash.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit, which alone reads a setting for it
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = (CONNECTOR, DELTA) if delta else (CONNECTOR,)
    found: dict[str, Any] = with_jars({}, jars)
    for each in jars:
        found |= each.settings
    return found


def refuse_session(spark: object) -> None:
    """Refuse a session that a query cannot run in.

    Raises:
        PipelineRefusedError: it is one of Spark Connect, or none at all, or starts tasks twice, or of a version that
            is not supported.
    """
    refuse_version()
    refuse_connect(spark)
    if not isinstance(spark, SparkSession):
        raise PipelineRefusedError(f"spark is a {type(spark).__qualname__}: pass a SparkSession")
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise PipelineRefusedError(
            "spark.speculation is true: two tasks of one partition would fence each other; set it to false"
        )


def check_formats(settings: Settings, schema: StructType | None) -> None:
    """Refuse sources whose values cannot become the columns of one DataFrame.

    Raises:
        PipelineRefusedError: their formats differ, or do not fit the schema.
    """
    formats = {source.value.format for source in settings.sources}
    if len(formats) > 1:
        raise PipelineRefusedError(
            f"values are {' and '.join(sorted(formats))}: the sources of a query need one format"
        )
    (found,) = formats
    fields = found in {"json", *WITH_SCHEMA}
    if fields and schema is None:
        raise PipelineRefusedError(
            f'values are {found}: name the columns that you need, such as schema="amount double, id string"'
        )
    if not fields and schema is not None:
        fix = "set sources: value: {format: json}, or leave the schema out and parse the column value"
        raise PipelineRefusedError(f"values are {found}, and schema= is for values with fields: {fix}")
    if schema is not None and (wrong := [name for name in schema.names if name.startswith("_")]):
        raise PipelineRefusedError(f"schema has {wrong[0]}: names that begin with _ are for {RECORD} and the like")


def check_output(settings: Settings, to: KafkaTopic | None) -> None:
    """Refuse a topic whose records rows cannot become.

    Raises:
        PipelineRefusedError: its configured format has no place for what a row is.
    """
    section = next((each for each in settings.outputs if to is not None and each.topic == to.topic), None)
    if section is None:
        return
    if section.value.schema_id == "header":
        raise PipelineRefusedError(
            f"outputs: {section.topic} has schemaId: header, and rows have no headers: remove it"
        )
    if section.key.format in WITH_SCHEMA and to is not None and to.key is not None:
        fix = "leave key= out, and the output has the key of its record, or encode it yourself and remove the format"
        raise PipelineRefusedError(f"outputs: {section.topic} has keys of format {section.key.format}: {fix}")


def _transformation(
    definition: Definition,
    function: Callable[[DataFrame], DataFrame],
    schema: str | StructType | None,
    to: KafkaTopic | DeltaTable | None = None,
    name: str | None = None,
    on_missing: Literal["fail", "discard"] = "fail",
) -> Transformation:
    settings, columns = definition.settings, _columns(schema)
    check_formats(settings, columns)
    target, sink = _target(to)
    topic = None if target is None else target.topic
    where = None if target is None else target.where
    check_output(settings, target)
    if on_missing not in _MISSING:
        raise PipelineRefusedError(f'on_missing is {on_missing!r}: pass "fail" or "discard"')
    return Transformation(
        settings=settings,
        function=function,
        schema=columns,
        computing=Computing(topic, _MISSING[on_missing]),
        key=None if target is None else target.key,
        value=None if target is None else target.value,
        sent=F.expr(where) if isinstance(where, str) else where,
        codecs=RowCodecs.of(settings, definition.base, None if sink is not None else topic),
        name=name or settings.group,
        sink=sink,
    )


def _target(to: KafkaTopic | DeltaTable | None) -> tuple[KafkaTopic | None, SinkSection | None]:
    """Return the topic that rows are sent to, and the section of a table.

    Raises:
        PipelineRefusedError: it is no target.
    """
    if not (to is None or isinstance(to, (KafkaTopic, DeltaTable))):
        raise PipelineRefusedError(f"to is {to!r}: pass r.kafka(topic) or r.delta(path, through=topic)")
    if not isinstance(to, DeltaTable):
        return to, None
    columns = (to.partition_by,) if isinstance(to.partition_by, str) else to.partition_by
    sink = SinkSection(topic=to.through, path=to.path, partition_by=columns, trigger=to.trigger)
    return KafkaTopic(to.through, where=to.where), sink


def _columns(schema: str | StructType | None) -> StructType | None:
    """Return the columns of values.

    Raises:
        PipelineRefusedError: the text is that of one type.
    """
    if not isinstance(schema, str):
        return schema
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise PipelineRefusedError(f'schema is {schema}: name columns and types, such as schema="amount double"')
    return found


def _text(reason: str | Column) -> Column:
    return reason if isinstance(reason, Column) else F.lit(reason)
