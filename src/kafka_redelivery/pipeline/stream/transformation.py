"""A transformation of DataFrames in place of a handler: what it is given, and the outcomes that its rows mean.

A micro-batch becomes two branches: the records as they were read, and the rows of the transformation. Both are brought
together by the place of the record, so a record without a row is noticed, whatever filter or join has removed it. A
task gets whole partitions, in order, and writes them as those of a handler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import NullType, StructType

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.frames import header_number, header_text, header_time
from kafka_redelivery.pipeline.handler.computed import OUTCOMES, Computing
from kafka_redelivery.pipeline.stream.start_offsets import ready_topics
from kafka_redelivery.topology.config.settings import (
    HandlerDefaults,
    OutputSection,
    SerdeSection,
    Settings,
    SinkSection,
)
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD, FAILURE = "_record", "_failure"

FAILURE_TYPE: Final = "struct<kind:string,exception:string,message:string,after_ms:bigint>"
_PLACE: Final = ("topic", "partition", "offset")
_BROUGHT: Final = ("key", "value", "headers", "timestamp")
_READ: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp bigint"
)
"""What a micro-batch has; ``timestamp`` is in epoch ms."""

_CORRUPT: Final = "_corrupt"
_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""The default has no microseconds."""


def failure(kind: FailureKind, exception: str, message: Column, after_ms: int | None = None) -> Column:
    """Return a failure as the column ``_failure`` has it."""
    fields = (F.lit(str(kind)), F.lit(exception), message.cast("string"), F.lit(after_ms))
    return F.struct(*fields).cast(FAILURE_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A function of DataFrames, and where its rows go."""

    settings: Settings
    """The configuration as it was given; :meth:`settings_of_query` makes of it that of the query."""

    function: Callable[[DataFrame], DataFrame]
    schema: StructType | None
    """The columns of values in JSON."""

    computing: Computing
    key: Column | None
    """The key of an output; ``None`` = that of the record."""

    value: Column | None
    """The value of an output; ``None`` = all columns as JSON."""

    name: str
    """The name of the query in Spark."""

    sink: SinkSection | None = None
    """The table that gets the rows, too."""

    columns: StructType = field(default_factory=StructType)
    """The columns of its rows that are data, once it is :meth:`checked`."""

    def checked(self, spark: SparkSession) -> Transformation:
        """Apply the function to no records; return it with the columns of its result.

        Raises:
            PipelineRefusedError: its result cannot be used; says why.
        """
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only a type elsewhere

        # Micro-batches run in a clone of the session, too. It gets the functions of SQL, and the user's does not.
        clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - no other clones
        result = self._result(self._given(self._decoded(clone.createDataFrame([], _READ))))
        self._outcomes(result)
        return replace(self, columns=result.drop(RECORD, FAILURE).schema)

    def table_rows(self, records: DataFrame) -> DataFrame:
        """Convert records of the topic of :attr:`sink` to the rows that were sent to it."""
        row = F.from_json(F.col("value").cast("string"), self.columns, _JSON).alias("row")
        return records.select(row).select("row.*")

    def settings_of_query(self) -> Settings:
        """Return the configuration of the query: its tasks call no handler and decode nothing."""
        raw = {"key": SerdeSection(), "value": SerdeSection(), "handler": None}
        update: dict[str, object] = {
            "sources": tuple(each.model_copy(update=raw) for each in self.settings.sources),
            "handler": HandlerDefaults(callable="kafka_redelivery.spark:Redelivery", vectorized=True),
        }
        topic, listed = self.computing.topic, {each.topic for each in self.settings.outputs}
        if topic is not None and topic not in listed:  # one that is missing is no fault of the records
            update["outputs"] = (*self.settings.outputs, OutputSection(topic=topic))
        if self.settings.pipeline is not None:
            update["pipeline"] = self.settings.pipeline.model_copy(update={"sink": self.sink})
        copied = self.settings.model_copy(update=update)
        copied.__dict__.pop("handlers", None)  # a cached property
        return copied

    def batch(self, frame: DataFrame) -> DataFrame:
        """Return records as the function gets them, with ``_failure`` for those that cannot be decoded."""
        decoded = self._decoded(frame)
        failed = F.when(F.col(_CORRUPT), _undecodable()).alias(FAILURE)
        return self._given(decoded, failed)

    def outcomes(self, frame: DataFrame, tasks: int) -> DataFrame:
        """Return the records of a micro-batch with their outcomes, for so many tasks."""
        decoded = self._decoded(frame)
        entry = _entry(_undecodable(), F.lit(None), F.lit(None))
        read = decoded.select(
            *_PLACE, F.struct(*_BROUGHT).alias("record"), F.when(F.col(_CORRUPT), entry).alias("entry")
        )
        found = self._outcomes(self._result(self._given(decoded.where(~F.col(_CORRUPT)))))
        both = read.unionByName(found, allowMissingColumns=True).repartition(tasks, "topic", "partition")
        merged = both.groupBy(*_PLACE).agg(
            F.first("record", ignorenulls=True).alias("record"), F.collect_list("entry").alias(OUTCOMES)
        )
        return merged.sortWithinPartitions(*_PLACE).select("record.*", *_PLACE, OUTCOMES)

    def _decoded(self, frame: DataFrame) -> DataFrame:
        """Add the decoded value as ``decoded``, and whether it cannot be decoded."""
        if self.schema is None:
            return frame.withColumn(_CORRUPT, F.lit(False))  # noqa: FBT003 - a value
        wanted = StructType([*self.schema.fields]).add(_CORRUPT, "string")
        options = {**_JSON, "columnNameOfCorruptRecord": _CORRUPT}
        decoded = frame.withColumn("decoded", F.from_json(F.col("value").cast("string"), wanted, options))
        wrong = F.col("decoded").isNull() | F.col(f"decoded.{_CORRUPT}").isNotNull() | ~F.is_valid_utf8("value")
        return decoded.withColumn(_CORRUPT, F.col("value").isNotNull() & wrong)

    def _given(self, decoded: DataFrame, *more: Column) -> DataFrame:
        """Return what the function gets: ``_record`` and the columns of the value, and ``more``."""
        redelivered = F.col("topic").isin(ready_topics(self.settings))

        def either(of_redelivery: Column, of_source: Column) -> Column:
            return F.when(redelivered, of_redelivery).otherwise(of_source)

        here = F.concat("topic", F.lit("-"), "partition", F.lit("@"), "offset")
        record = F.struct(
            either(header_text(ORIG_MESSAGE_ID), here).alias("id"),
            either(header_text(ORIG_ADDRESS), F.col("topic")).alias("source"),
            either(F.coalesce(header_number(DELIVERY_COUNT, "int"), F.lit(0)) + 1, F.lit(1)).alias("attempt"),
            either(header_time(TIMESTAMP), F.timestamp_millis("timestamp")).alias("timestamp"),
            "key",
            "headers",
            F.struct(*_PLACE).alias("place"),
        ).alias(RECORD)
        if self.schema is not None:
            columns = (F.col("decoded").getField(name).alias(name) for name in self.schema.names)
            return decoded.select(record, *columns, *more)
        text = self.settings.sources[0].value.format == "string"
        return decoded.select(record, F.col("value").cast("string" if text else "binary").alias("value"), *more)

    def _result(self, given: DataFrame) -> DataFrame:
        """Apply the function.

        Raises:
            PipelineRefusedError: its result has not the columns that it needs.
        """
        from pyspark.sql import DataFrame  # noqa: PLC0415 - only a type elsewhere

        _define_functions(given.sparkSession)
        result = self.function(given)
        name = getattr(self.function, "__name__", "the function")
        if not isinstance(result, DataFrame):
            raise PipelineRefusedError(f"{name} returned {type(result).__name__}: let it return a DataFrame")
        columns = {each.name: each.dataType for each in result.schema}
        if columns.get(RECORD) != given.schema[RECORD].dataType:
            raise PipelineRefusedError(
                f"the DataFrame that {name} returns has no column {RECORD} as it was given: keep it in each select, "
                "and do not aggregate over several records: each record has an outcome of its own"
            )
        found = columns.get(FAILURE, NullType())
        if found.simpleString() not in {FAILURE_TYPE, "void"}:
            raise PipelineRefusedError(
                f"{FAILURE} is of type {found.simpleString()}: make it of reject(...) and retry(...); null is success"
            )
        return result

    def _outcomes(self, result: DataFrame) -> DataFrame:
        """Return the place of the record of each row, and what the row means."""
        failed = F.col(FAILURE).cast(FAILURE_TYPE) if FAILURE in result.columns else F.lit(None).cast(FAILURE_TYPE)
        key = F.col(f"{RECORD}.key") if self.key is None else self.key
        data = [each for each in result.columns if each not in {RECORD, FAILURE}]
        value = F.to_json(F.struct(*data), _JSON) if self.value is None and data else self.value
        if self.computing.topic is None or value is None:
            key = value = F.lit(None)
        lost = F.raise_error(F.lit(f"{RECORD} of a row is null: a join must keep the rows of the records"))
        place = [F.coalesce(F.col(f"{RECORD}.place.{each}"), lost).alias(each) for each in _PLACE]
        return result.select(*place, _entry(failed, key, value).alias("entry"))


def _define_functions(spark: SparkSession) -> None:
    """Define ``reject(reason)`` and ``retry(reason)`` for SQL in a session."""
    for name, kind, exception in (
        ("reject", FailureKind.REJECTED, "Reject"),
        ("retry", FailureKind.REDELIVER, "Redeliver"),
    ):
        found = f"named_struct('kind', '{kind}', 'exception', '{exception}', 'message', reason, 'after_ms', null)"
        returns = f"RETURNS {FAILURE_TYPE} RETURN cast({found} AS {FAILURE_TYPE})"
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}(reason STRING) {returns}")


def _undecodable() -> Column:
    return failure(FailureKind.UNDECODABLE, "DecodeError", F.lit("the value is no JSON of this schema"))


def _entry(failed: Column, key: Column, value: Column) -> Column:
    """Return an entry of the column ``outcomes``."""
    return F.struct(
        failed.alias("failure"),
        key.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
    )
