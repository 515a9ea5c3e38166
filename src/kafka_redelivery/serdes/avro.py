"""Avro in the wire format of schema registries: a zero byte, four bytes of schema id, and the binary value."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

from kafka_redelivery.serdes.avro_branches import Branches, with_names
from kafka_redelivery.serdes.avro_json import AvroJson
from kafka_redelivery.serdes.avro_schema import AvroSchema, JsonSchema
from kafka_redelivery.serdes.avro_shape import ShapeError
from kafka_redelivery.serdes.avro_types import Parsed
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError
from kafka_redelivery.serdes.framing import SchemaId, id_and_start, short
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.serdes.schemas import AvroSource, LocalSchema, LocalSchemas, WithSchemas, written_id


class AvroCodec(WithSchemas[AvroSchema]):
    """Codec for Avro records, each with the id of the schema that it was written with.

    Values are those of fastavro: a dict for a record, ``datetime`` and ``Decimal`` for logical types. A moment that
    Python cannot represent is its number, and a ``uuid`` that is none its text. A value to encode must have exactly the
    fields of the write schema; fields with a default may be missing. A ``datetime`` without a zone is no timestamp.

    Dataclasses, pydantic models and msgspec structs are encoded as records, members of enums as their values.

    A decoded value that is encoded with the schema that it was decoded with becomes an equal value of the same classes,
    or is refused. In a union the branch is the one that decodes to the value's class. A record of a union in which
    another one has the same fields is decoded to a dict that knows its name (``AvroRecord``); a plain dict needs it
    there: ``(name, value)``.
    """

    name = "avro"
    _source: AvroSource

    def __init__(
        self,
        source: AvroSource,
        *,
        reader: AvroSchema | None = None,
        write_id: int | None = None,
        subject: str | None = None,
        in_header: bool = False,
    ) -> None:
        """Create the codec. Schemas are looked up when a record needs them.

        Args:
            source: provides the schema of each id.
            reader: the application's own schema, into which decoded values are resolved; None leaves them as written.
                A field that only this schema has gets its default, of the same class as a decoded value.
            write_id: encode with the schema of this id.
            subject: without ``write_id``, encode with ``reader`` and the id that it has in this subject, or without a
                reader with the latest schema of the subject. With neither, the codec only decodes.
            in_header: encode the schema id into a header and not before the value.
        """
        super().__init__(source, write_id, subject, in_header=in_header)
        self._reader = reader
        self._reading: dict[SchemaId, _Reading] = {}
        self._writing: _Writing | None = None

    @classmethod
    def of(
        cls, schemas: Mapping[int, LocalSchema], *, reader: LocalSchema | None = None, write_id: int | None = None
    ) -> Self:
        """Create a codec from schemas, without a registry.

        Args:
            schemas: the schema of each id, as the path of its ``.avsc`` file or as the JSON itself.
            reader: the schema into which decoded values are resolved; ``None`` leaves them as written.
            write_id: encode with the schema of this id; by default with the only one.

        Raises:
            SchemaError: a schema cannot be read or used, or ``write_id`` is not among the ids.
        """
        source, own = LocalSchemas(schemas), None if reader is None else LocalSchemas({0: reader}).by_id(0)
        return cls(source, reader=own, write_id=written_id(schemas, write_id))

    def decode(self, data: bytes | None, header: bytes | None = None, /) -> Any:  # noqa: ANN401 - the type depends on the schema
        """Decode the value, and resolve it into the reader schema if there is one.

        Raises:
            DecodeError: the bytes are not in the wire format or not a value of their schema, or the schema of their id
                is missing or unusable.
            SchemaSourceUnavailable: the schema cannot be looked up at present.
        """
        if data is None:
            return None
        schema_id, start = id_and_start(self.name, data, header)
        reading = self._reading.get(schema_id)
        if reading is None:
            reading = self._reading[schema_id] = self._prepare_reading(schema_id)
        try:
            reading.writer.shape.check(data, start)
            return reading.value_in(data, start)
        except ShapeError as error:
            raise DecodeError(self.name, error.code, error.reason, schema_id) from error
        except UnicodeDecodeError as error:
            raise DecodeError(self.name, DecodeCode.NOT_UTF8, short(error), schema_id) from error
        except MemoryError:
            # The shape limits the memory that the bytes can need, so the shortage has another cause.
            raise
        except Exception as error:  # logical types and the resolution into the reader raise any error
            raise DecodeError(self.name, DecodeCode.AVRO_MISMATCH, short(error), schema_id) from error

    def encode(self, value: object) -> bytes | None:
        """Encode the value.

        Raises:
            EncodeError: the value does not fit the write schema, or there is no usable write schema.
            SchemaSourceUnavailable: the write schema or its id cannot be looked up at present.
        """
        if value is None:
            return None
        writing = self._writing
        if writing is None:
            writing = self._writing = self._to_write(self._prepare_writing)
        try:
            return _record_of(value, writing)
        except MemoryError:
            raise
        except ShapeError as error:
            raise EncodeError(self.name, EncodeCode.AVRO_MISMATCH, error.reason, writing.schema_id) from error
        except Exception as error:  # fastavro raises many errors, and the value's own class any other
            raise EncodeError(self.name, EncodeCode.AVRO_MISMATCH, short(error), writing.schema_id) from error

    def written(self, data: bytes, header: bytes | None = None) -> WrittenAvro:
        """Return the schema that a record was written with, to read it as JSON.

        Raises:
            DecodeError, SchemaSourceUnavailable: as :meth:`decode`.
        """
        schema_id, start = id_and_start(self.name, data, header)
        return WrittenAvro(schema_id, self._read_schema(schema_id), data[:start])

    def _prepare_reading(self, schema_id: SchemaId) -> _Reading:
        writer = self._read_schema(schema_id)
        if self._reader is None or self._reader.definition == writer.definition:
            return _Reading(writer, None, shares_defaults=False, names_records=Branches(writer.parsed.type).named)
        shares_defaults = _has_container_default(self._reader.definition)
        # fastavro fails for names with a reader in which a record is defined elsewhere than in the writer.
        return _Reading(writer, self._reader.parsed, shares_defaults, names_records=False)

    def _prepare_writing(self) -> _Writing:
        if self._write_id is None and self._subject is not None and self._reader is not None:
            schema_id, schema = self._source.id_for(self._subject, self._reader), self._reader
        else:
            schema_id, schema = self._write_schema()
        return _Writing(schema_id, self._prefix(schema_id), schema, Branches(schema.parsed.type))


class WrittenAvro:
    """The records of one schema id as JSON, see :mod:`serdes.avro_json`."""

    def __init__(self, schema_id: SchemaId, schema: AvroSchema, prefix: bytes) -> None:
        self._prefix = prefix
        self.schema_id = schema_id
        self._shape = schema.shape
        self._json = AvroJson(schema.parsed.type)

    def as_json(self, data: bytes) -> Any:  # noqa: ANN401 - any JSON
        """Return the value of a record.

        Raises:
            DecodeError: the bytes are not a value of the schema.
        """
        try:
            self._shape.check(data, len(self._prefix))
            return self._json.read(_from(data, len(self._prefix)))
        except ShapeError as error:
            raise DecodeError(AvroCodec.name, error.code, error.reason, self.schema_id) from error
        except UnicodeDecodeError as error:
            raise DecodeError(AvroCodec.name, DecodeCode.NOT_UTF8, short(error), self.schema_id) from error

    def from_json(self, value: Any) -> bytes:  # noqa: ANN401 - any JSON
        """Return the bytes of a value, with the header.

        Raises:
            EncodeError: it is not a value of the schema; the error names the place.
        """
        stream = BytesIO()
        stream.write(self._prefix)
        try:
            self._json.write(value, stream)
            self._shape.check(stream.getvalue(), len(self._prefix))
        except ShapeError as error:
            raise EncodeError(AvroCodec.name, EncodeCode.AVRO_MISMATCH, error.reason, self.schema_id) from error
        except RecursionError as error:
            raise EncodeError(AvroCodec.name, EncodeCode.AVRO_MISMATCH, "nested too deep", self.schema_id) from error
        return stream.getvalue()


@dataclass(frozen=True, slots=True)
class _Reading:
    writer: AvroSchema
    reader: Parsed | None
    """The parsed schema of the reader; None = that of the writer."""

    shares_defaults: bool
    """Whether defaults must be copied: fastavro returns the mutable object of the schema itself."""

    names_records: bool
    """Whether the fields of a record in a union may not tell its branch."""

    def value_in(self, data: bytes, start: int) -> Any:  # noqa: ANN401 - the type depends on the schema
        stream = _from(data, start)
        if self.names_records:
            return with_names(self.writer.parsed.read(stream, names=True))
        value = self.writer.parsed.read(stream, self.reader)
        return deepcopy(value) if self.shares_defaults else value


@dataclass(frozen=True, slots=True)
class _Writing:
    schema_id: int
    header: bytes
    schema: AvroSchema
    branches: Branches

    def record_of(self, value: object) -> bytes:
        if self.schema.shape.recursive:
            _check_nesting(value)
        stream = BytesIO()
        stream.write(self.header)
        self.schema.parsed.write(self.branches.resolved(value), stream)
        data = stream.getvalue()
        # fastavro writes an int of 40 bits without an error; this makes sure that the record can be read.
        self.schema.shape.check(data, len(self.header))
        return data


def _record_of(value: object, writing: _Writing) -> bytes:
    """Encode a value; it is searched for objects of users' classes only if it does not fit as it is."""
    try:
        return writing.record_of(value)
    except MemoryError:
        raise
    except Exception:
        found = plain(value)
        if found is value:
            raise
    return writing.record_of(found)


def _from(data: bytes, start: int) -> BytesIO:
    stream = BytesIO(data)  # shares the bytes; a slice would copy them
    stream.seek(start)
    return stream


def _has_container_default(schema: JsonSchema | None) -> bool:
    if isinstance(schema, list):
        return any(_has_container_default(branch) for branch in schema)
    if not isinstance(schema, dict):
        return False
    return (
        any(
            isinstance(field.get("default"), list | dict) or _has_container_default(field["type"])
            for field in schema.get("fields", ())
        )
        or _has_container_default(schema.get("items"))
        or _has_container_default(schema.get("values"))
    )


def _check_nesting(value: object) -> None:
    """Raise ``RecursionError`` for an endlessly nested value, before fastavro overflows the C stack."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _check_nesting(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_nesting(inner)
