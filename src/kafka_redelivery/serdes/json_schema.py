"""JSON documents with a JSON Schema, in the wire format of schema registries: a schema id, and the document.

Only this module needs the ``jsonschema`` extra.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urljoin

import regex
from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError as NoSchema
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
)
from kafka_redelivery.serdes.framing import SchemaId, cut, id_and_start, short
from kafka_redelivery.serdes.registry import SchemaKind
from kafka_redelivery.serdes.schemas import KnownSchemas, SchemaSource, WithSchemas, content_of, written_id

JsonDocument: TypeAlias = dict[str, Any] | bool
"""A schema as JSON."""

_Validator: TypeAlias = Any
"""An object or a class of jsonschema, whose protocol leaves out parts that keywords need."""

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
            and nothing is fetched from their addresses. A name is also one relative to each ``$id``, as for Java's
            clients.
        location: the file or the id, for errors.

    Raises:
        SchemaError: it is no JSON Schema.
    """
    kind = _exact(validator_for(schema, default=Draft7Validator))
    try:
        kind.check_schema(schema, format_checker=_FORMATS)
        found: Validator = kind(schema, registry=_known(schema, references))
    except NoSchema as error:
        raise SchemaError(location, f"is not a usable JSON Schema: {error.json_path}: {error.message}") from error
    except RecursionError as error:
        raise SchemaError(location, "is not a usable JSON Schema: nested too deep") from error
    except (TypeError, ValueError, AttributeError) as error:  # an $id that is no address
        raise SchemaError(location, f"is not a usable JSON Schema: {short(error)}") from error
    return found


def _known(schema: JsonDocument, references: Mapping[str, JsonDocument]) -> Registry[Any]:
    named = {name: Resource.from_contents(each, default_specification=DRAFT7) for name, each in references.items()}
    own = Resource.from_contents(schema, default_specification=DRAFT7).id()
    ids = {found: each for each in named.values() if (found := each.id()) is not None}
    relative = {urljoin(base, name): each for base in (*ids, own) if base for name, each in named.items()}
    return Registry().with_resources({**relative, **ids, **named}.items())


@lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str] | regex.Pattern[str]:
    try:
        return re.compile(text)
    except re.error:
        return regex.compile(text)  # it has more of ECMA-262: classes such as \p{L}, and (?<name>...)


_FORMATS: Final = FormatChecker(formats=())
_FORMATS.checks("regex", raises=(re.error, regex.error, OverflowError))(
    lambda text: not isinstance(text, str) or _pattern(text) is not None
)


def _matches(_validator: Validator, text: str, value: object, _schema: JsonDocument) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _pattern(text).search(value):
        yield ValidationError(f"{value!r} does not match {text!r}")


def _properties(
    validator: _Validator, patterns: Mapping[str, JsonDocument], value: object, _schema: JsonDocument
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for text, inner in patterns.items():
        for name, each in value.items():
            if _pattern(text).search(name):
                yield from validator.descend(each, inner, path=name, schema_path=text)


def _additional(
    validator: _Validator, allowed: JsonDocument, value: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    patterns = [_pattern(text) for text in schema.get("patternProperties", ())]
    if patterns and isinstance(value, dict):
        value = {name: each for name, each in value.items() if not any(found.search(name) for found in patterns)}
        schema = {"properties": schema.get("properties", {})}
    yield from Draft7Validator.VALIDATORS["additionalProperties"](validator, allowed, value, schema)


def _multiple(validator: _Validator, step: float, value: float, _schema: JsonDocument) -> Iterator[ValidationError]:
    """Check numbers as they are written: 19.99 is a multiple of 0.01, though no float is."""
    if not validator.is_type(value, "number"):
        return
    is_finite = isinstance(value, int) or isfinite(value)
    if not is_finite or (_written(value) / _written(step)).denominator != 1:
        yield ValidationError(f"{value!r} is not a multiple of {step!r}")


def _written(number: float) -> Fraction:
    return Fraction(number if isinstance(number, int) else repr(number))


_KEYWORDS: Final[dict[str, Any]] = {
    "pattern": _matches,
    "patternProperties": _properties,
    "additionalProperties": _additional,
    "multipleOf": _multiple,
    "divisibleBy": _multiple,
}


@cache
def _exact(draft: _Validator) -> _Validator:
    """Return the validator of a draft, with decimals and regular expressions as JSON Schema has them."""
    kind: _Validator = extend(  # type: ignore[no-untyped-call]
        draft, {name: each for name, each in _KEYWORDS.items() if name in draft.VALIDATORS}
    )
    stock = kind.evolve

    def evolve(self: _Validator, **changes: Any) -> _Validator:  # noqa: ANN401 - fields of any type
        schema = changes.get("schema")
        if not isinstance(schema, dict) or "$schema" not in schema:
            return stock(self, **changes)
        # jsonschema would go on with its own class for the draft that the schema names.
        named = _exact(validator_for(schema, default=draft))
        return named(**{"registry": self._registry, "_resolver": self._resolver, **changes})

    kind.evolve = evolve
    return kind


JSON_SCHEMA: Final = SchemaKind("JSON", _read)


class JsonSchemaCodec(WithSchemas[Validator]):
    """Codec for JSON documents, each with the id of the JSON Schema that it was written with, and valid in it.

    Values are those of :class:`JsonCodec`. Regular expressions are those of Python's ``re``, or of ``regex`` if ``re``
    cannot read them.
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
        """Create the codec. Schemas are looked up when a record needs them. The arguments are those of the base."""
        super().__init__(source, write_id, subject, in_header=in_header)
        self._validators: dict[SchemaId, Validator] = {}
        self._writing: tuple[int, bytes, Validator] | None = None

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
        write_id = written_id(schemas, write_id)
        read = {
            number: _parsed(content_of(each), str(each)) if isinstance(each, Path) else each
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
            validator = self._validators[schema_id] = self._read_schema(schema_id)
        try:
            value = _JSON.decode(data[start:])
        except DecodeError as error:
            raise DecodeError(self.name, error.code, error.reason, schema_id) from error
        try:
            problem = _problem(validator, value)
        except RecursionError as error:
            raise DecodeError(self.name, DecodeCode.TOO_DEEP, "nested too deep to check", schema_id) from error
        except SchemaError as error:
            raise DecodeError(self.name, DecodeCode.BAD_SCHEMA, error.reason, schema_id) from error
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
            self._writing = self._to_write(self._prepare_writing)
        schema_id, prefix, validator = self._writing
        try:
            document = _JSON.encode(value)
            # Objects of users' classes are checked as they are written.
            problem = _problem(validator, _JSON.decode(document))
        except EncodeError as error:
            raise EncodeError(self.name, error.code, error.reason, schema_id) from error
        except RecursionError as error:
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, "nested too deep", schema_id) from error
        except SchemaError as error:
            raise EncodeError(self.name, EncodeCode.BAD_SCHEMA, error.reason, schema_id) from error
        if problem:
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, problem, schema_id)
        return prefix + (document or b"")

    def _prepare_writing(self) -> tuple[int, bytes, Validator]:
        schema_id, validator = self._write_schema()
        return schema_id, self._prefix(schema_id), validator


def _problem(validator: Validator, value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return why a value is not valid; empty if it is.

    Raises:
        SchemaError: a schema that it refers to is missing or faulty.
        RecursionError: the value is nested too deep.
    """
    try:
        error: ValidationError | None = next(iter(validator.iter_errors(value)), None)
    except (RecursionError, MemoryError):
        raise
    except Exception as fault:  # only the schema itself was checked before, not those that it refers to
        raise SchemaError("of the value", short(fault)) from fault
    if error is None:
        return ""
    return cut(f"{error.json_path}: {error.message}")
