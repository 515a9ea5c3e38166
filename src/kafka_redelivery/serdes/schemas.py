"""Sources of schemas: the protocol, and schemas in local files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kafka_redelivery.serdes.avro_schema import AvroSchema, Definitions, JsonSchema, full_name, read_json, schema_of
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
    UnknownSchemaError,
)
from kafka_redelivery.serdes.framing import HEADER, MAGIC, SchemaId, header_for, short

MAX_ID = 2**32 - 1
"""The largest id that fits into the four bytes of the wire format."""

LocalSchema: TypeAlias = Path | JsonSchema
"""The ``.avsc`` file of a schema, or the schema itself."""


S = TypeVar("S")
"""A schema that can be used: an :class:`AvroSchema`, a ``ProtobufSchema`` or a validator of JSON documents."""


_S_co = TypeVar("_S_co", covariant=True)
_T = TypeVar("_T")


class SchemaSource(Protocol[_S_co]):
    """Returns the schema of an id, and the id of a schema. Implementations are thread-safe."""

    def by_id(self, schema_id: SchemaId) -> _S_co:
        """Return the schema with the id; the same object on every call.

        Raises:
            UnknownSchemaError: no schema has this id.
            SchemaError: the schema cannot be used.
            SchemaSourceUnavailable: the source is unavailable at present.
        """
        ...

    def guid_of(self, schema_id: int) -> UUID | None:
        """Return the GUID of a schema; ``None`` if the source has none.

        Raises:
            UnknownSchemaError: no schema has this id.
            SchemaSourceUnavailable: the source is unavailable at present.
        """
        ...

    def latest_in(self, subject: str) -> int:
        """Return the id of the latest schema in the subject.

        Raises:
            UnknownSchemaError: there is no such subject.
            SchemaSourceUnavailable: the source is unavailable at present.
        """
        ...


class AvroSource(SchemaSource[AvroSchema], Protocol):
    """Schemas that can be looked up, too."""

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the id of the schema in the subject.

        Raises:
            UnknownSchemaError: the schema is not registered in the subject.
            SchemaSourceUnavailable: the source is unavailable at present.
        """
        ...


class WithSchemas(Generic[S]):
    """What the codecs share whose records name their schema: which one is read and written, and its errors."""

    name: ClassVar[str]

    def __init__(self, source: SchemaSource[S], write_id: int | None, subject: str | None, *, in_header: bool) -> None:
        """Look up nothing yet.

        Args:
            source: provides the schema of each id.
            write_id: encode with the schema of this id.
            subject: without ``write_id``, encode with the latest schema of this subject. With neither, the codec only
                decodes.
            in_header: encode the schema id into a header and not before the value.
        """
        self._source = source
        self._write_id = write_id
        self._subject = subject
        self._in_header = in_header
        self.written_header: bytes | None = None
        """See :class:`~kafka_redelivery.serdes.codec.SchemaCodec`."""

    def _read_schema(self, schema_id: SchemaId) -> S:
        """Return the schema of a record; raises ``DecodeError``, ``SchemaSourceUnavailable``."""
        try:
            return self._source.by_id(schema_id)
        except UnknownSchemaError as error:
            raise DecodeError(self.name, DecodeCode.UNKNOWN_SCHEMA, str(error), schema_id) from error
        except SchemaError as error:
            raise DecodeError(self.name, DecodeCode.BAD_SCHEMA, short(error), schema_id) from error

    def _to_write(self, prepare: Callable[[], _T]) -> _T:
        """Return what ``prepare`` returns; errors of the source become ``EncodeError``."""
        try:
            return prepare()
        except UnknownSchemaError as error:
            raise EncodeError(self.name, EncodeCode.UNKNOWN_SCHEMA, str(error), self._write_id) from error
        except SchemaError as error:
            raise EncodeError(self.name, EncodeCode.BAD_SCHEMA, short(error), self._write_id) from error

    def _write_schema(self) -> tuple[int, S]:
        """Return the schema to write with, and its id; raises errors of the source."""
        found = self._write_id
        if found is None:
            if self._subject is None:
                raise EncodeError(self.name, EncodeCode.NO_WRITE_SCHEMA, "no write_id and no subject")
            found = self._source.latest_in(self._subject)
        return found, self._source.by_id(found)

    def _prefix(self, schema_id: int, more: bytes = b"") -> bytes:
        """Return what stands before each value that is written, and make ``written_header``; raises as before.

        Args:
            schema_id: that of the schema to write with.
            more: what follows the id.
        """
        if not self._in_header:
            return HEADER.pack(MAGIC, schema_id) + more
        self.written_header = header_for(schema_id, self._source.guid_of(schema_id)) + more
        return b""


def written_id(ids: Collection[int], write_id: int | None) -> int | None:
    """Return the id of the schema to write with: the one that is asked for, or the only one; ``None`` = none.

    Raises:
        SchemaError: it is not among the ids.
    """
    if write_id is None:
        return next(iter(ids)) if len(ids) == 1 else None
    if write_id not in ids:
        raise SchemaError(f"id {write_id}", "is not among the schemas; write_id is one of their ids")
    return write_id


class KnownSchemas(Generic[S]):
    """Schemas by the ids in the records, all read before the first record."""

    def __init__(self, schemas: Mapping[int, S]) -> None:
        """Take the schemas.

        Raises:
            SchemaError: an id is out of range.
        """
        for schema_id in schemas:
            check_id(schema_id, f"id {schema_id}")
        self._schemas = schemas

    def by_id(self, schema_id: SchemaId) -> S:
        """Return the schema with the id.

        Raises:
            UnknownSchemaError: no schema has this id.
        """
        schema = self._schemas.get(schema_id) if isinstance(schema_id, int) else None
        if schema is None:
            raise UnknownSchemaError("the local schemas", f"schema with id {schema_id}")
        return schema

    def guid_of(self, _: int) -> None:
        """Return ``None``: files have no GUIDs."""

    def latest_in(self, subject: str) -> int:
        """Raise ``UnknownSchemaError``: files have no subjects."""
        raise UnknownSchemaError("the local schemas", f"subject {subject}")


def check_id(schema_id: int, location: str) -> None:
    """Raise ``SchemaError`` for an id that does not fit into the wire format."""
    if not 0 <= schema_id <= MAX_ID:
        raise SchemaError(location, f"has the id {schema_id}; an id is 0 to {MAX_ID}")


class LocalSchemas(KnownSchemas[AvroSchema]):
    """Avro schemas in local files or in the configuration, by the ids in the records.

    A schema may name types that another schema defines. These are looked up first in ``<full name>.avsc`` in the folder
    of the file, then among the other schemas.
    """

    def __init__(self, schemas: Mapping[int, LocalSchema]) -> None:
        """Read and check all schemas.

        Raises:
            SchemaError: a file cannot be read or is not a usable Avro schema, or an id is out of range.
        """
        found = {schema_id: _Local(schema_id, schema) for schema_id, schema in schemas.items()}
        super().__init__(
            {
                schema_id: schema_of(local.json, local.location, _definitions(local, found))
                for schema_id, local in found.items()
            }
        )

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the smallest id whose schema writes the same bytes; files have no subjects, so ``subject`` is ignored.

        Raises:
            UnknownSchemaError: no schema writes the same bytes.
        """
        ids = [schema_id for schema_id, known in self._schemas.items() if known.canonical == schema.canonical]
        if not ids:
            raise UnknownSchemaError("the local schemas", f"schema {schema.name} (for {subject})")
        return min(ids)


class _Local:
    """A local schema before its names are resolved."""

    def __init__(self, schema_id: int, schema: LocalSchema) -> None:
        self.path = schema if isinstance(schema, Path) else None
        self.location = str(schema) if isinstance(schema, Path) else f"id {schema_id}"
        check_id(schema_id, self.location)
        self.json: JsonSchema = read_file(schema) if isinstance(schema, Path) else schema


def read_file(path: Path) -> JsonSchema:
    """Return the JSON of an ``.avsc`` file.

    Raises:
        SchemaError: the file cannot be read, or is not JSON.
    """
    return read_json(content_of(path), str(path))


def content_of(path: Path) -> bytes:
    """Return the content of a file of schemas.

    Raises:
        SchemaError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchemaError(str(path), f"cannot be read: {error.strerror}") from error


def schema_in_file(path: Path) -> AvroSchema:
    """Return the schema of an ``.avsc`` file. Types that it only names are read from ``<full name>.avsc`` next to it.

    Raises:
        SchemaError: a file cannot be read, or is not a usable Avro schema.
    """
    return schema_of(read_file(path), str(path), lambda name: _sibling(path, name))


def _sibling(path: Path, name: str) -> JsonSchema | None:
    file = path.with_name(f"{name}.avsc")
    return read_file(file) if file.is_file() else None


def _definitions(local: _Local, schemas: Mapping[int, _Local]) -> Definitions:
    def find(name: str) -> JsonSchema | None:
        sibling = _sibling(local.path, name) if local.path is not None else None
        if sibling is not None:
            return sibling
        found = [other for other in schemas.values() if other is not local and full_name(other.json) == name]
        if any(other.json != found[0].json for other in found):
            locations = ", ".join(other.location for other in found)
            problem = f"names {name}, which {locations} define differently"
            raise SchemaError(local.location, f"{problem}; put the right one into {name}.avsc in the same folder")
        return found[0].json if found else None

    return find
