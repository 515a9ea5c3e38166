"""Codecs for rows of a DataFrame: keys and values that Spark itself cannot decode or encode, as in workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from kafka_redelivery.pipeline.frames import header
from kafka_redelivery.pipeline.spark.codecs import SchemaFiles, arrow_function, codecs_here
from kafka_redelivery.serdes.errors import DecodeError, EncodeError
from kafka_redelivery.serdes.framing import KEY_HEADER, VALUE_HEADER, decoded
from kafka_redelivery.serdes.plain import as_json
from kafka_redelivery.topology.config.settings import WITH_SCHEMA, CodecSection, Settings

if TYPE_CHECKING:
    from pyspark.sql import Column

_READ: Final = "struct<json: string, error: string>"
_WRITTEN: Final = "struct<data: binary, exception: string, message: string>"
_BY_SPARK: Final = ("raw", "string")


@dataclass(frozen=True, slots=True)
class RowCodecs:
    """The codecs of the sources and of the output, in a small form that is sent with every task."""

    decoding: Mapping[str, str] = field(default_factory=dict)
    """The :class:`CodecSection` of each source and ready topic as JSON; empty if Spark itself can decode."""

    encoding: str | None = None
    """That of the output; ``None`` if rows are sent as JSON."""

    base: str = ""
    """The folder that schema paths are relative to."""

    schemas: SchemaFiles = field(default_factory=SchemaFiles)

    @classmethod
    def of(cls, settings: Settings, base: Path, output: str | None) -> Self:
        """Return the codecs of a configuration.

        Raises:
            SerdeError: a schema cannot be read, or settings contradict each other.
        """
        found: dict[str, str] = {}
        naming = settings.naming()
        formats = {(each.key.format, each.value.format) for each in settings.sources}
        if len(formats) > 1 or not formats <= {(key, value) for key in _BY_SPARK for value in (*_BY_SPARK, "json")}:
            for each in settings.sources:
                section = _json(each)
                found |= {each.topic: section, naming.ready_topic(each.topic): section}
        encoding = next((_json(each) for each in settings.outputs if each.topic == output and _encodes(each)), None)
        codecs = cls(found, encoding, str(base), SchemaFiles.of(settings, base))
        for section in {*found.values(), *filter(None, [encoding])}:
            codecs_here(section, codecs.base, codecs.schemas)
        return codecs

    def decoded(self) -> Column:
        """Return the value of a record as JSON, and why it cannot be decoded; both are null for a tombstone.

        A registry that is away fails the task, and the micro-batch is tried again.
        """

        def decode(*columns: pa.Array) -> pa.Array:
            rows = [self.read(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
            return _struct(rows, [("json", pa.string()), ("error", pa.string())])

        return arrow_function(decode, _READ)("topic", "key", "value", header(KEY_HEADER, 1), header(VALUE_HEADER, 1))

    def encoded(self, row: Column) -> Column:
        """Return the bytes of a row, or the exception that it has raised; both are null if the row is."""

        def encode(rows: pa.Array) -> pa.Array:
            columns = [("data", pa.binary()), ("exception", pa.string()), ("message", pa.string())]
            return _struct([self.written(each) for each in rows.to_pylist()], columns)

        return arrow_function(encode, _WRITTEN)(row)

    def read(
        self, topic: str, key: bytes | None, value: bytes | None, key_header: bytes | None, value_header: bytes | None
    ) -> tuple[str | None, str | None]:
        """Return the value of a record as JSON, and why it cannot be decoded.

        Raises:
            SchemaSourceUnavailable: a schema cannot be looked up at present.
        """
        key_codec, value_codec = codecs_here(self.decoding[topic], self.base, self.schemas)
        try:
            decoded(key_codec, key, key_header)
            found = decoded(value_codec, value, value_header)
        except DecodeError as error:
            return None, str(error)
        return (None if value is None else as_json(found)), None

    def written(self, row: Mapping[str, Any] | None) -> tuple[bytes | None, str | None, str | None]:
        """Return the bytes of a row, or class and text of the exception that it has raised.

        Raises:
            SchemaSourceUnavailable: the schema cannot be looked up at present.
        """
        if row is None:
            return None, None, None
        assert self.encoding is not None  # noqa: S101 - it is asked before
        try:
            return codecs_here(self.encoding, self.base, self.schemas)[1].encode(row), None, None
        except EncodeError as error:
            return None, type(error).__name__, str(error)


def _json(section: CodecSection) -> str:
    return CodecSection(key=section.key, value=section.value).model_dump_json()


def _encodes(section: CodecSection) -> bool:
    return section.value.format in WITH_SCHEMA


def _struct(rows: list[tuple[Any, ...]], columns: list[tuple[str, pa.DataType]]) -> pa.Array:
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [pa.array(each, kind) for each, (_, kind) in zip(values, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, [name for name, _ in columns])
