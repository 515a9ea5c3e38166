"""JSON documents with a JSON Schema, in the wire format of schema registries: a schema id, and the document.

Only this module needs the ``jsonschema`` extra.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from jsonschema.exceptions import SchemaError as NoSchema
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
    UnknownSchemaError,
)
from kafka_redelivery.serdes.framing import HEADER, MAGIC, SchemaId, cut, header_for, id_and_start, short
from kafka_redelivery.serdes.registry import SchemaKind
from kafka_redelivery.serdes.schemas import KnownSchemas, SchemaSource

JsonDocument: TypeAlias = dict[str, Any] | bool
"""A schema as JSON."""

_JSON: Final = JsonCodec()


def _read(text: str, references: Mapping[str, str], location: str) -> Validator:
    return validator_of(
        _parsed(text, location),
        {name: _parsed(each, f"{name} for {location}") for name, each in references.items()},
        location,
    )


def _parsed(text: str | bytes, location: str) -> JsonDocument:
    try:
        found: JsonDocument = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(location, f"is not JSON: {short(error)}") from error
    return found


def validator_of(schema: JsonDocument, references: Mapping[str, JsonDocument], location: str) -> Validator:
    """Return what checks documents of a schema.

    Args:
        schema: the schema; without ``$schema`` it is one of draft 7, as for other clients of registries.
        references: the schemas that it refers to, by name. They are also found by their ``$id``. No other is looked up,
            and nothing is fetched from their addresses.
        location: the file or the id, for errors.

    Raises:
        SchemaError: it is no JSON Schema.
    """
    known: Registry[Any] = Registry()
    for name, each in references.items():
        resource = Resource.from_contents(each, default_specification=DRAFT7)
        known = known.with_resource(name, resource)
        if resource.id() is not None:
            known = known.with_resource(resource.id() or "", resource)
    kind: type[Validator] = validator_for(schema, default=Draft7Validator)
    try:
        kind.check_schema(schema)  # type: ignore[arg-type] # true and false are schemas, too
    except NoSchema as error:
        raise SchemaError(location, f"is not a usable JSON Schema: {error.json_path}: {error.message}") from error
    except RecursionError as error:
        raise SchemaError(location, "is not a usable JSON Schema: nested too deep") from error
    return kind(schema, registry=known)


JSON_SCHEMA: Final = SchemaKind("JSON", _read)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchemaError(str(path), f"cannot be read: {error.strerror}") from error


class JsonSchemaCodec:
    """Codec for JSON documents, each with the id of the JSON Schema that it was written with, and valid in it.

    Values are those of :class:`JsonCodec`.
    """

    name = "jsonschema"

    def __init__(
        self,
        source: SchemaSource[Validator],
        *,
        write_id: int | None = None,
        subject: str | None = None,
        in_header: bool = False,
    ) -> None:
        """Create the codec. Schemas are looked up when a record needs them.

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
        """See :class:`Codec`."""

        self._validators: dict[SchemaId, Validator] = {}
        self._writing: tuple[int, Validator] | None = None

    @classmethod
    def of(
        cls, schemas: Mapping[int, Path | JsonDocument], *, write_id: int | None = None, in_header: bool = False
    ) -> Self:
        """Create a codec from schemas, without a registry.

        Args:
            schemas: the schema of each id, as the path of its file or as the JSON itself. They may refer to each other
                by ``$id``, and to a file by its name.
            write_id: encode with the schema of this id; by default with the only one.
            in_header: encode the schema id into a header and not before the value.

        Raises:
            SchemaError: a schema cannot be read or used, or ``write_id`` is not among the ids.
        """
        if write_id is None and len(schemas) == 1:
            write_id = next(iter(schemas))
        if write_id is not None and write_id not in schemas:
            raise SchemaError(f"id {write_id}", "is not among the schemas; write_id is one of their ids")
        read = {
            number: _parsed(_content(each), str(each)) if isinstance(each, Path) else each
            for number, each in schemas.items()
        }
        named = {
            each.name if isinstance(each, Path) else f"id {number}": read[number] for number, each in schemas.items()
        }
        known = {number: validator_of(each, named, f"id {number}") for number, each in read.items()}
        return cls(KnownSchemas(known), write_id=write_id, in_header=in_header)

    def decode(self, data: bytes | None, header: bytes | None = None, /) -> Any:  # noqa: ANN401 - JSON holds any of six types
        """Decode the document, and check it with its schema.

        Raises:
            DecodeError: the bytes are not in the wire format, no JSON or not valid in their schema, or the schema of
                their id is missing or unusable.
            SchemaSourceUnavailable: the schema cannot be looked up at present.
        """
        if data is None:
            return None
        schema_id, start = id_and_start(self.name, data, header)
        validator = self._validators.get(schema_id)
        if validator is None:
            validator = self._validators[schema_id] = self._validator(schema_id)
        try:
            value = _JSON.decode(data[start:])
        except DecodeError as error:
            raise DecodeError(self.name, error.code, error.reason, schema_id) from error
        try:
            problem = _problem(validator, value)
        except RecursionError as error:
            raise DecodeError(self.name, DecodeCode.TOO_DEEP, "nested too deep to check", schema_id) from error
        except Unresolvable as error:
            raise DecodeError(self.name, DecodeCode.BAD_SCHEMA, short(error), schema_id) from error
        if problem:
            raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, problem, schema_id)
        return value

    def encode(self, value: object) -> bytes | None:
        """Encode the value.

        Raises:
            EncodeError: JSON cannot represent the value, it is not valid in the write schema, or there is no usable
                write schema.
            SchemaSourceUnavailable: the write schema cannot be looked up at present.
        """
        if value is None:
            return None
        if self._writing is None:
            self._writing = self._prepare_writing()
        schema_id, validator = self._writing
        try:
            document = _JSON.encode(value)
            # Objects of users' classes are checked as they are written.
            problem = _problem(validator, _JSON.decode(document))
        except EncodeError as error:
            raise EncodeError(self.name, error.code, error.reason, schema_id) from error
        except RecursionError as error:
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, "nested too deep", schema_id) from error
        except Unresolvable as error:
            raise EncodeError(self.name, EncodeCode.BAD_SCHEMA, short(error), schema_id) from error
        if problem:
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, problem, schema_id)
        return document if self._in_header else HEADER.pack(MAGIC, schema_id) + (document or b"")

    def _validator(self, schema_id: SchemaId) -> Validator:
        try:
            return self._source.by_id(schema_id)
        except UnknownSchemaError as error:
            raise DecodeError(self.name, DecodeCode.UNKNOWN_SCHEMA, str(error), schema_id) from error
        except SchemaError as error:
            raise DecodeError(self.name, DecodeCode.BAD_SCHEMA, short(error), schema_id) from error

    def _prepare_writing(self) -> tuple[int, Validator]:
        write_id = self._write_id
        try:
            if write_id is None:
                if self._subject is None:
                    raise EncodeError(self.name, EncodeCode.NO_WRITE_SCHEMA, "no write_id and no subject")
                write_id = self._source.latest_in(self._subject)
            found = write_id, self._source.by_id(write_id)
            if self._in_header:
                self.written_header = header_for(write_id, self._source.guid_of(write_id))
        except UnknownSchemaError as error:
            raise EncodeError(self.name, EncodeCode.UNKNOWN_SCHEMA, str(error), write_id) from error
        except SchemaError as error:
            raise EncodeError(self.name, EncodeCode.BAD_SCHEMA, short(error), write_id) from error
        return found


def _problem(validator: Validator, value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return why a value is not valid; empty if it is."""
    error: ValidationError | None = next(iter(validator.iter_errors(value)), None)
    if error is None:
        return ""
    return cut(f"{error.json_path}: {error.message}")
