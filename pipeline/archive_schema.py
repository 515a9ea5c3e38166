"""The columns of the archive: its contract with whoever reads it. docs/spark.md explains each."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA_VERSION: Final = 1
"""In every row. A column that is added leaves it as it is; one that changes its meaning or goes away raises it."""

PARTITION_COLUMNS: Final = ("day", "origin")

UNKNOWN_ORIGIN: Final = "(unknown)"
"""In ``origin``, where the headers name no topic that Kafka would allow."""

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("schema_version", IntegerType()),
    # Where the dead letter is.
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("dead_lettered_at", TimestampType()),
    # The record.
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("headers", ArrayType(_HEADER)),
    ("key_json", StringType()),
    ("value_json", StringType()),
    ("decode_error", StringType()),
    # Where it comes from.
    ("origin_address", StringType()),
    ("origin_group", StringType()),
    ("origin_message_id", StringType()),
    ("origin_partition", IntegerType()),
    ("origin_offset", LongType()),
    ("origin_timestamp", TimestampType()),
    # What happened to it.
    ("delivery_count", IntegerType()),
    ("expiration", TimestampType()),
    ("original_expiration", TimestampType()),
    ("actual_expiry", TimestampType()),
    ("reason", StringType()),
    ("exception", StringType()),
    ("message", StringType()),
    ("normal_message", StringType()),
    ("fingerprint", StringType()),
    # The partitions of the table.
    ("day", DateType()),
    ("origin", StringType()),
)

ARCHIVE_SCHEMA: Final = StructType([StructField(name, kind) for name, kind in _COLUMNS])
"""Version :data:`SCHEMA_VERSION`. The last columns are the table's partitions."""
