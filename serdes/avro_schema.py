"""An Avro schema made ready once: parsed, self-contained, with the shape of its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastavro.schema import parse_schema, to_parsing_canonical_form

from serdes.avro_shape import Shape
from serdes.errors import SchemaError

JsonSchema: TypeAlias = dict[str, Any] | list[Any] | str
"""A schema as JSON has it: an object, a union or the name of a type."""

Definitions: TypeAlias = Callable[[str], JsonSchema | None]
"""Finds the schema whose outermost type has the full name, or None if there is none."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = ("record", "error", "enum", "fixed")


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """A schema that was found usable. Made by :func:`schema_of`; nothing in it may be changed."""

    name: str
    """Full name of the outermost type; its kind (``union``, ``array``, ``string``) where it has none."""

    definition: JsonSchema
    """The schema as JSON, every named type written out where it is first used."""

    canonical: str
    """Avro's parsing canonical form: what two schemas share if they write the same bytes."""

    shape: Shape
    """Checks bytes written with this schema."""


def read_json(text: str | bytes, place: str) -> JsonSchema:
    """Return the JSON of a schema.

    Args:
        text: the schema as a file or a registry holds it.
        place: the file or the id, for the error.

    Raises:
        SchemaError: it is not JSON.
    """
    try:
        schema: JsonSchema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(place, f"is not JSON: {error}") from error
    return schema


def no_definitions(_name: str) -> None:
    """Find nothing: for a schema that must define every type it names."""


def schema_of(json_schema: JsonSchema, place: str, definitions: Definitions = no_definitions) -> AvroSchema:
    """Make a schema ready, together with the named types that are defined elsewhere.

    Args:
        json_schema: the schema; it is not changed.
        place: the file or the id, for the error.
        definitions: finds the types that the schema names but does not define.

    Raises:
        SchemaError: it is not a usable Avro schema, or names a type that nobody defines.
    """
    try:
        definition = _Inliner(definitions).inline(json_schema, "")
        parsed = parse_schema(deepcopy(definition))
        return AvroSchema(full_name(definition), definition, to_parsing_canonical_form(parsed), Shape(parsed))
    except SchemaError:
        raise
    except _UndefinedTypeError as error:
        raise SchemaError(place, f"names the type {error}, which no schema defines") from error
    except RecursionError as error:
        raise SchemaError(place, "is nested too deep") from error
    except Exception as error:  # a malformed schema makes the parser raise nearly anything: it expects a sound one
        raise SchemaError(place, f"is not a usable Avro schema: {type(error).__name__}: {error}") from error


def full_name(json_schema: JsonSchema, namespace: str = "") -> str:
    """Return the full name of a schema's outermost type, or its kind if it has none.

    Source: the names of the Avro specification: a name with a dot is full, any other is completed by its own
    namespace or else by the enclosing one.
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
    """A type is named and nowhere defined."""


class _Inliner:
    """Writes each type that is only named into the place of its first use.

    fastavro has a loader for this, but a definition whose namespace is not the one it is asked for sends it into an
    endless recursion on the C stack, which no ``except`` can catch.
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
