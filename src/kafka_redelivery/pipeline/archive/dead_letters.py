"""Converts dead letters to rows of :data:`ARCHIVE_SCHEMA`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.archive.decoding import SourceCodecs, decoded
from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA, SCHEMA_VERSION, UNKNOWN_ORIGIN
from kafka_redelivery.pipeline.frames.kafka_frames import header_number, header_text, header_time
from kafka_redelivery.pipeline.lake.table import utc_day
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    DELIVERY_COUNT,
    EXPIRATION,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    ORIGINAL_EXPIRATION,
    TIMESTAMP,
)

_CAUSE: Final = "reason string, exception string, message string"
_MESSAGE_ID: Final = r"^(.+)-(\d{1,9})@(\d{1,18})$"
_TOPIC: Final = r"^[A-Za-z0-9._-]{1,249}$"


def dead_letters(records: DataFrame, codecs: SourceCodecs, marks: Mapping[str, str]) -> DataFrame:
    """Convert records of dead-letter topics to rows of the archive, one row per record.

    Args:
        records: rows of Spark's Kafka source, with headers. A header that cannot be parsed becomes null.
        codecs: codecs of the sources, which decode keys and values.
        marks: the mark of each dead-letter topic, as far as it is known.
    """
    letters = _with_headers(records)
    if codecs.details.class_only:
        letters = _without_details(letters)
    return _archive_columns(_with_decoded(letters, codecs), marks)


def _without_details(letters: DataFrame) -> DataFrame:
    """Remove the keys and the texts of exceptions, also of dead letters that were written with them."""
    return letters.withColumns(
        {
            "key": F.lit(None).cast("binary"),
            "cause": F.col("cause").withField("message", F.lit("")),
            "headers": F.filter("headers", lambda each: each["key"] != FAILURE_CAUSE),
        }
    )


def _with_headers(records: DataFrame) -> DataFrame:
    """Add the columns that come from headers."""
    return records.withColumns(
        {
            "origin_address": header_text(ORIG_ADDRESS),
            "origin_group": header_text(ORIG_QUEUE),
            "origin_message_id": header_text(ORIG_MESSAGE_ID),
            "origin_timestamp": header_time(TIMESTAMP),
            "delivery_count": header_number(DELIVERY_COUNT, "int"),
            "expiration": header_time(EXPIRATION),
            "original_expiration": header_time(ORIGINAL_EXPIRATION),
            "actual_expiry": header_time(ACTUAL_EXPIRY),
            "cause": F.from_json(header_text(FAILURE_CAUSE), _CAUSE),
        }
    )


def _with_decoded(records: DataFrame, codecs: SourceCodecs) -> DataFrame:
    """Add the columns that Python computes: decoded key and value, normal message, fingerprint."""
    decode = decoded(codecs)
    columns = ("origin_address", "key", "value", "cause.exception", "cause.message")
    return records.withColumn("decoded", decode(*(F.col(column) for column in columns)))


def _archive_columns(letters: DataFrame, marks: Mapping[str, str]) -> DataFrame:
    """Select the columns of the schema in its order."""
    made: dict[str, Column] = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "topic_mark": _mark(marks),
        "dead_lettered_at": F.col("timestamp"),
        "origin_partition": _of_message_id(2).try_cast("int"),
        "origin_offset": _of_message_id(3).try_cast("bigint"),
        "day": utc_day("timestamp"),
        "origin": F.when(F.col("origin_address").rlike(_TOPIC), F.col("origin_address")).otherwise(UNKNOWN_ORIGIN),
        **{name: F.col(f"cause.{name}") for name in ("reason", "exception", "message")},
        **{
            name: F.col(f"decoded.{name}")
            for name in ("key_json", "value_json", "decode_error", "normal_message", "fingerprint")
        },
    }
    return letters.select(
        *(made.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name) for field in ARCHIVE_SCHEMA)
    )


def _mark(marks: Mapping[str, str]) -> Column:
    found = F.lit(None).cast("string")
    for topic, mark in sorted(marks.items()):
        if mark:
            found = F.when(F.col("topic") == topic, mark).otherwise(found)
    return found


def _of_message_id(group: int) -> Column:
    return F.regexp_extract("origin_message_id", _MESSAGE_ID, group)
