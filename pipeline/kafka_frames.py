"""Frames that report and audit begin with: records between fixed offsets, and rows of our own."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.lake_table import read_table
from pipeline.table_format import TableFormat
from transport.protocols import Partition

ORIGIN: Final = ("topic", "partition", "offset")
"""The columns that name a record; of a source record, unless they begin with ``origin_``."""

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_RECORD: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


class Frames:
    """Makes frames. Nothing is read before somebody asks for rows."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        """Prepare.

        Args:
            spark: the session.
            options: of Spark's Kafka source, for connecting.
        """
        self._spark = spark
        self._options = options

    def records(self, ranges: Iterable[tuple[Partition, int, int]], *, headers: bool = True) -> DataFrame:
        """Committed records: ``topic, partition, offset, timestamp, key, value, headers``.

        Args:
            ranges: for each partition the first offset, and the one behind the last.
            headers: whether they are needed; without, they are null.
        """
        starts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        ends: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for place, start, end in ranges:
            if start < end:
                starts[place.topic][str(place.number)] = start
                ends[place.topic][str(place.number)] = end
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

    def table(self, path: str, table: TableFormat) -> DataFrame:
        """A table of a lake.

        Raises:
            TableFormatError: it has another format.
        """
        return read_table(self._spark, path, table)

    def local(self, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        """Rows of ours. Through Arrow they are a part of the plan, so that Spark leaves out what is empty."""
        arrow_schema = to_arrow_schema(cast("StructType", StructType.fromDDL(schema)), timezone="UTC")
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in arrow_schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema, strict=True)]
        table: Any = pa.Table.from_arrays(arrays, schema=arrow_schema)
        return self._spark.createDataFrame(table, schema)
