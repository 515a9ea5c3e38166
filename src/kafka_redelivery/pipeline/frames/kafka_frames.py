"""DataFrames of records between fixed offsets and of local rows, and record headers as columns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.transport.protocols import Partition

ORIGIN: Final = ("topic", "partition", "offset")
"""The columns that identify a record. Columns that begin with ``origin_`` identify its source record."""

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_RECORD: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A later header value is not a timestamp."""


class Frames:
    """Creates DataFrames. They are lazy: Spark reads when an action runs."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        """Create no DataFrame yet.

        Args:
            spark: the session.
            options: the connection options of Spark's Kafka source.
        """
        self._spark = spark
        self._options = options

    def records(self, ranges: Iterable[tuple[Partition, int, int]], *, headers: bool = True) -> DataFrame:
        """Return committed records: ``topic, partition, offset, timestamp, key, value, headers``.

        Args:
            ranges: partition, first offset and end offset (exclusive).
            headers: whether to read headers; the column is null otherwise.
        """
        starts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        ends: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for partition, start, end in ranges:
            if start < end:
                starts[partition.topic][str(partition.number)] = start
                ends[partition.topic][str(partition.number)] = end
        if not starts:
            return self.local([], _RECORD)
        options = {
            **self._options,
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
            "includeHeaders": str(headers).lower(),
            "assign": json.dumps({topic: [int(number) for number in numbers] for topic, numbers in starts.items()}),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
        }
        return (
            self._spark.read.format("kafka")
            .options(**options)
            .load()
            .select(*_COLUMNS, F.col("headers") if headers else F.lit(None).alias("headers"))
        )

    def table(self, path: str, schema: StructType) -> DataFrame:
        """Return these columns of a table of a lake; those that it does not have are null.

        Raises:
            TableFormatError: there is no Delta table.
        """
        return read_table(self._spark, path, schema)

    def local(self, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        """Return local rows. Created through Arrow they are part of the plan, so Spark can drop empty relations."""
        arrow_schema = to_arrow_schema(cast("StructType", StructType.fromDDL(schema)), timezone="UTC")
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in arrow_schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema, strict=True)]
        table: Any = pa.Table.from_arrays(arrays, schema=arrow_schema)
        return self._spark.createDataFrame(table, schema)


def header(name: str) -> Column:
    """Return the bytes of a header: the last one if there are several, null if there is none."""
    return F.try_element_at(F.filter("headers", lambda each: each["key"] == name), F.lit(-1))["value"]


def header_text(name: str) -> Column:
    """Return a header as text; invalid UTF-8 is replaced."""
    return F.make_valid_utf8(header(name).cast("string"))


def header_number(name: str, kind: str = "bigint") -> Column:
    """Return a header as a number, null if it is not a number."""
    return header_text(name).try_cast(kind)


def header_time(name: str) -> Column:
    """Return a header in epoch ms as a timestamp, null if it is 0 (never) or out of range."""
    milliseconds = header_number(name)
    return F.when(milliseconds.between(1, _LAST_MS), F.timestamp_millis(milliseconds))
