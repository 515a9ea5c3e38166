"""The columns of the archive, which are a public contract. docs/spark.md explains each."""

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
"""The version in every row. A removed column or a changed meaning increments it; an added column does not."""

UNKNOWN_ORIGIN: Final = "(unknown)"
"""The ``origin`` of a dead letter whose headers name no valid topic."""

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("schema_version", IntegerType()),
    # The position of the dead letter.
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("topic_mark", StringType()),
    ("dead_lettered_at", TimestampType()),
    # The record.
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("headers", ArrayType(_HEADER)),
    ("key_json", StringType()),
    ("value_json", StringType()),
    ("decode_error", StringType()),
    # The origin of the record.
    ("origin_address", StringType()),
    ("origin_group", StringType()),
    ("origin_message_id", StringType()),
    ("origin_partition", IntegerType()),
    ("origin_offset", LongType()),
    ("origin_timestamp", TimestampType()),
    # Deliveries and failure.
    ("delivery_count", IntegerType()),
    ("expiration", TimestampType()),
    ("original_expiration", TimestampType()),
    ("actual_expiry", TimestampType()),
    ("reason", StringType()),
    ("exception", StringType()),
    ("message", StringType()),
    ("normal_message", StringType()),
    ("fingerprint", StringType()),
    # What divides and orders the table.
    ("day", DateType()),
    ("origin", StringType()),
)

ARCHIVE_SCHEMA: Final = StructType([StructField(name, kind) for name, kind in _COLUMNS])
"""The schema of version :data:`SCHEMA_VERSION`."""
