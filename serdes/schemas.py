"""Where schemas come from: the protocol, and schemas in local files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

from serdes.avro_schema import AvroSchema, Definitions, JsonSchema, full_name, read_json, schema_of
from serdes.errors import SchemaError, UnknownSchemaError

MAX_ID = 2**32 - 1
"""The largest id that fits into the four bytes of the wire format."""

LocalSchema: TypeAlias = Path | JsonSchema
"""A schema's ``.avsc`` file, or the schema itself."""


class SchemaSource(Protocol):
    """Answers which schema an id stands for, and which id a schema has. Safe to call from several threads."""

    def by_id(self, schema_id: int) -> AvroSchema:
        """Return the schema that was registered under the id; the same object every time.

        Raises:
            UnknownSchemaError: there is none.
            SchemaError: there is one, but it is not a usable Avro schema.
            SchemaSourceUnavailable: the source cannot answer now.
        """
        ...

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the id under which the schema is registered in the subject.

        Raises:
            UnknownSchemaError: it is not registered there.
            SchemaSourceUnavailable: the source cannot answer now.
        """
        ...


class LocalSchemas:
    """Schemas of this machine, by the ids the records carry.

    A schema may name types that another one defines. They are looked for in ``<full name>.avsc`` beside the file, then
    among the other schemas given.
    """

    def __init__(self, schemas: Mapping[int, LocalSchema]) -> None:
        """Read and check all schemas.

        Raises:
            SchemaError: a file cannot be read, is no JSON or no usable Avro schema; an id is out of range.
        """
        found = {schema_id: _Local(schema_id, schema) for schema_id, schema in schemas.items()}
        self._schemas = {
            schema_id: schema_of(local.json, local.place, _definitions(local, found))
            for schema_id, local in found.items()
        }

    def by_id(self, schema_id: int) -> AvroSchema:
        """Return the schema of the id.

        Raises:
            UnknownSchemaError: none was given for it.
        """
        schema = self._schemas.get(schema_id)
        if schema is None:
            raise UnknownSchemaError("the local schemas", f"schema with id {schema_id}")
        return schema

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the smallest id whose schema writes the same bytes; files have no subjects, so that is not asked.

        Raises:
            UnknownSchemaError: no schema given does.
        """
        ids = [schema_id for schema_id, known in self._schemas.items() if known.canonical == schema.canonical]
        if not ids:
            raise UnknownSchemaError("the local schemas", f"schema {schema.name} (for {subject})")
        return min(ids)


class _Local:
    """One schema before its names are resolved."""

    def __init__(self, schema_id: int, schema: LocalSchema) -> None:
        self.path = schema if isinstance(schema, Path) else None
        self.place = str(schema) if isinstance(schema, Path) else f"id {schema_id}"
        if not 0 <= schema_id <= MAX_ID:
            raise SchemaError(self.place, f"has the id {schema_id}; an id is 0 to {MAX_ID}")
        self.json: JsonSchema = read_file(schema) if isinstance(schema, Path) else schema


def read_file(path: Path) -> JsonSchema:
    """Return the JSON of an ``.avsc`` file.

    Raises:
        SchemaError: it cannot be read, or is not JSON.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SchemaError(str(path), f"cannot be read: {error.strerror}") from error
    return read_json(text, str(path))


def schema_in_file(path: Path) -> AvroSchema:
    """Return the schema of an ``.avsc`` file; types it only names are looked for in ``<full name>.avsc`` beside it.

    Raises:
        SchemaError: a file cannot be read, is no JSON or no usable Avro schema.
    """
    return schema_of(read_file(path), str(path), lambda name: _beside(path, name))


def _beside(path: Path, name: str) -> JsonSchema | None:
    sibling = path.with_name(f"{name}.avsc")
    return read_file(sibling) if sibling.is_file() else None


def _definitions(local: _Local, everyone: Mapping[int, _Local]) -> Definitions:
    def find(name: str) -> JsonSchema | None:
        beside = _beside(local.path, name) if local.path is not None else None
        if beside is not None:
            return beside
        found = [other for other in everyone.values() if other is not local and full_name(other.json) == name]
        if any(other.json != found[0].json for other in found):
            places = ", ".join(other.place for other in found)
            problem = f"names {name}, which {places} define differently"
            raise SchemaError(local.place, f"{problem}; put the one meant into {name}.avsc beside it")
        return found[0].json if found else None

    return find
