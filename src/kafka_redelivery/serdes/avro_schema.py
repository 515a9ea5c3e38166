"""Avro schemas: parsed once, self-contained, with the shape of their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastavro.schema import parse_schema, to_parsing_canonical_form

from kafka_redelivery.serdes.avro_shape import Shape
from kafka_redelivery.serdes.errors import SchemaError

JsonSchema: TypeAlias = dict[str, Any] | list[Any] | str
"""A schema in JSON: an object, a union or the name of a type."""

Definitions: TypeAlias = Callable[[str], JsonSchema | None]
"""Returns the schema whose outermost type has the full name; None if there is none."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = ("record", "error", "enum", "fixed")


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """A usable schema, created by :func:`schema_of`. Do not modify its contents."""

    name: str
    """The full name of the outermost type, or its kind (``union``, ``array``, ``string``) if it has no name."""

    definition: JsonSchema
    """The schema as JSON, with every named type defined where it is first used."""

    canonical: str
    """Avro's parsing canonical form; two schemas with the same form write the same bytes."""

    shape: Shape
    """The check of bytes that were written with this schema."""


def read_json(text: str | bytes, location: str) -> JsonSchema:
    """Parse the JSON of a schema.

    Args:
        text: the content of a file, or the answer of a registry.
        location: the file or the id, for the error.

    Raises:
        SchemaError: the text is not JSON.
    """
    try:
        schema: JsonSchema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(location, f"is not JSON: {error}") from error
    return schema


def no_definitions(_name: str) -> None:
    """Return None: for a schema that must define every type that it names."""


def schema_of(json_schema: JsonSchema, location: str, definitions: Definitions = no_definitions) -> AvroSchema:
    """Parse a schema, together with the named types that are defined elsewhere.

    Args:
        json_schema: the schema; it is not modified.
        location: the file or the id, for the error.
        definitions: returns the types that the schema names but does not define.

    Raises:
        SchemaError: it is not a usable Avro schema, or names a type that no schema defines.
    """
    try:
        definition = _Inliner(definitions).inline(json_schema, "")
        parsed = parse_schema(deepcopy(definition))
        return AvroSchema(full_name(definition), definition, to_parsing_canonical_form(parsed), Shape(parsed))
    except SchemaError:
        raise
    except _UndefinedTypeError as error:
        raise SchemaError(location, f"names the type {error}, which no schema defines") from error
    except RecursionError as error:
        raise SchemaError(location, "is nested too deep") from error
    except Exception as error:  # the parser raises any error for a malformed schema
        raise SchemaError(location, f"is not a usable Avro schema: {type(error).__name__}: {error}") from error


def full_name(json_schema: JsonSchema, namespace: str = "") -> str:
    """Return the full name of a schema's outermost type, or its kind if it has none.

    A name with a dot is a full name. Any other name is completed by its own namespace, or else by the enclosing one.

    Source: the section on names of the Avro specification.
    """
    if not isinstance(json_schema, dict):
        return "union" if isinstance(json_schema, list) else str(json_schema)
    kind = json_schema.get("type")
    if kind not in _NAMED:
        return str(kind)
    name = str(json_schema.get("name", kind))
    namespace = str(json_schema.get("namespace", namespace))
    return name if "." in name or namespace == "" else f"{namespace}.{name}"


class _UndefinedTypeError(Exception):
    """A schema names a type that is defined nowhere."""


class _Inliner:
    """Replaces the first use of each named type by its definition.

    fastavro has a loader for this. But a definition with another namespace than the requested one makes it recurse
    endlessly on the C stack, which no ``except`` can catch.
    """

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._known: set[str] = set()

    def inline(self, schema: JsonSchema, namespace: str) -> JsonSchema:
        if isinstance(schema, list):
            return [self.inline(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self._reference(schema, namespace)
        match schema["type"]:
            case "array":
                return {**schema, "items": self.inline(schema["items"], namespace)}
            case "map":
                return {**schema, "values": self.inline(schema["values"], namespace)}
            case "record" | "error" | "enum" | "fixed":
                return self._named(schema, namespace)
        return schema

    def _named(self, schema: dict[str, Any], namespace: str) -> JsonSchema:
        full = full_name(schema, namespace)
        self._known.add(full)
        if "fields" not in schema:
            return schema
        inner = full.rpartition(".")[0]
        return {
            **schema,
            "fields": [{**field, "type": self.inline(field["type"], inner)} for field in schema["fields"]],
        }

    def _reference(self, name: str, namespace: str) -> JsonSchema:
        full = name if "." in name or namespace == "" else f"{namespace}.{name}"
        if full in self._known:
            return full
        definition = self._definitions(full)
        if definition is None or full_name(definition) != full:
            raise _UndefinedTypeError(full)
        return self.inline(definition, "")
