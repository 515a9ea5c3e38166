"""Converts dead letters to rows of the archive.

Its columns are a public contract, which docs/spark-jobs.md explains. Python decodes keys and values and computes normal
messages and fingerprints; Spark's own functions do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
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

from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.pipeline.frames import header, header_number, header_text, header_time
from kafka_redelivery.pipeline.lake.table import utc_day
from kafka_redelivery.pipeline.spark.codecs import SchemaFiles, arrow_function, codecs_here
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, decoded
from kafka_redelivery.serdes.plain import as_json
from kafka_redelivery.topology.config.settings import CodecSection, Settings
from kafka_redelivery.topology.policy.decision import FailureDetails
from kafka_redelivery.topology.policy.fingerprint import kind_of
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
    ("place", StringType()),
    ("fingerprint", StringType()),
    # What became of it, as far as the last run knows.
    ("state", StringType()),
    ("job", StringType()),
    ("decided_at", TimestampType()),
    # What divides and orders the table.
    ("day", DateType()),
    ("origin", StringType()),
)

ARCHIVE_SCHEMA: Final = StructType([StructField(name, kind) for name, kind in _COLUMNS])
"""The schema of version :data:`SCHEMA_VERSION`."""

_CAUSE: Final = "reason string, exception string, message string, frames array<string>"
_MESSAGE_ID: Final = r"\A(.+)-(\d{1,10})@(\d{1,19})\z"
_TOPIC: Final = r"\A[A-Za-z0-9._-]{1,249}\z"

_ERROR_LIMIT: Final = 300
"""The maximum number of characters of a decoding error."""

_FIELDS: Final = ("key_json", "value_json", "decode_error", "normal_message", "fingerprint")
_DECODED: Final = StructType([StructField(name, StringType()) for name in _FIELDS])


@dataclass(frozen=True, slots=True)
class SourceCodecs:
    """The codecs of each source, in a small form that is sent with every task."""

    sections: Mapping[str, str]
    """The codec sections as JSON, by source topic."""

    base: str
    """The folder that schema paths are relative to."""

    schemas: SchemaFiles = field(default_factory=SchemaFiles)
    """The schemas, for executors that do not have the folder."""

    details: FailureDetails = FailureDetails.FULL
    """Whether rows have keys and texts of exceptions."""

    @classmethod
    def of(cls, settings: Settings, base: Path) -> SourceCodecs:
        """Return the codecs of a configuration.

        Raises:
            SerdeError: a schema cannot be read, or settings contradict each other.
        """
        sections = {
            source.topic: CodecSection(key=source.key, value=source.value).model_dump_json()
            for source in settings.sources
        }
        schemas = SchemaFiles.of(settings, base)
        for section in sections.values():
            codecs_here(section, str(base), schemas)
        return cls(sections, str(base), schemas, settings.failure_details)


def dead_letters(records: DataFrame, codecs: SourceCodecs, marks: Mapping[str, str], group: str) -> DataFrame:
    """Convert records of dead-letter topics to rows of the archive, one row per record.

    Args:
        records: rows of Spark's Kafka source, with headers. A header that cannot be parsed becomes null.
        codecs: codecs of the sources, which decode keys and values.
        marks: the mark of each dead-letter topic, as far as it is known.
        group: the group whose jobs say what became of its letters. Those of others have no state.
    """
    letters = records.withColumns(
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
    if codecs.details.class_only:  # no keys and texts of exceptions, also of dead letters that were written with them
        letters = letters.withColumns(
            {
                "key": F.lit(None).cast("binary"),
                "cause": F.col("cause").withField("message", F.lit("")),
                "headers": F.filter("headers", lambda each: each["key"] != FAILURE_CAUSE),
            }
        )
    decode = _decoded(codecs)
    letters = letters.withColumn(
        "decoded",
        decode(
            "origin_address",
            "key",
            "value",
            "cause.exception",
            "cause.message",
            _place(),
            header(KEY_HEADER, 1),
            header(VALUE_HEADER, 1),
        ),
    )
    made: dict[str, Column] = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "topic_mark": _mark(marks),
        "dead_lettered_at": F.col("timestamp"),
        "origin_partition": _of_message_id(2).try_cast("int"),
        "origin_offset": _of_message_id(3).try_cast("bigint"),
        "day": utc_day("timestamp"),
        "origin": F.when(F.col("origin_address").rlike(_TOPIC), F.col("origin_address")).otherwise(UNKNOWN_ORIGIN),
        "place": F.nullif(_place(), F.lit("")),
        "state": F.when(F.col("origin_group") == group, LetterState.WAITING.value),
        "job": F.lit(None),
        "decided_at": F.lit(None),
        **{name: F.col(f"cause.{name}") for name in ("reason", "exception", "message")},
        **{name: F.col(f"decoded.{name}") for name in _FIELDS},
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


def _place() -> Column:
    """The place in the code; empty if there is none, and null if the cause is of an earlier version."""
    frames = F.col("cause.frames")
    innermost = F.substring_index(F.try_element_at(frames, F.lit(-1)), ":", 1)
    return F.when(frames.isNotNull(), F.coalesce(innermost, F.lit("")))


def _of_message_id(group: int) -> Column:
    return F.regexp_extract("origin_message_id", _MESSAGE_ID, group)


def _decoded(source_codecs: SourceCodecs) -> Callable[..., Column]:
    """Return a Spark function that returns a struct of :data:`_FIELDS`.

    It takes origin address, key, value, exception, message, place, and the headers of the schema ids of key and value.
    A field is null if the origin has no codec, or its codec is ``raw``.
    """

    def decode(*columns: pa.Array) -> pa.Array:
        rows = [_row(source_codecs, *row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
        fields = zip(*rows, strict=True) if rows else [()] * len(_FIELDS)
        return pa.StructArray.from_arrays([pa.array(field, pa.string()) for field in fields], list(_FIELDS))

    return arrow_function(decode, _DECODED)


def _row(
    source_codecs: SourceCodecs,
    origin: str | None,
    key: bytes | None,
    value: bytes | None,
    exception: str | None,
    message: str | None,
    place: str | None,
    *headers: bytes | None,
) -> tuple[str | None, ...]:
    normal, digest = (
        (None, None) if exception is None and message is None else _kind_of(exception or "", message or "", place)
    )
    section = source_codecs.sections.get(origin or "")
    if section is None:
        return None, None, None, normal, digest
    errors: list[str] = []
    key_codec, value_codec = codecs_here(section, source_codecs.base, source_codecs.schemas)
    sides = zip((key_codec, value_codec), (key, value), headers, ("key", "value"), strict=True)
    key_json, value_json = (_text(*side, errors, source_codecs.details) for side in sides)
    return key_json, value_json, "; ".join(errors) or None, normal, digest


_kind_of = lru_cache(maxsize=4096)(kind_of)


def _text(
    codec: Codec, data: bytes | None, header: bytes | None, what: str, errors: list[str], details: FailureDetails
) -> str | None:
    if data is None or isinstance(codec, RawCodec):
        return None
    try:
        return as_json(decoded(codec, data, header))
    except SerdeError as error:
        # Do not wait for a registry that is down: the bytes are archived and can be decoded later.
        problem = type(error).__name__ if details.class_only else str(error)
        errors.append(f"{what}: {problem}"[:_ERROR_LIMIT].encode(errors="replace").decode())
        return None
