"""Avro schemas: parsed once, self-contained, with the shape of their bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastavro.schema import to_parsing_canonical_form

from kafka_redelivery.serdes.avro_defaults import DEFAULT, set_defaults
from kafka_redelivery.serdes.avro_shape import Shape
from kafka_redelivery.serdes.avro_types import NAMED, PRIMITIVES, Parsed, parsed, with_logical_type
from kafka_redelivery.serdes.errors import SchemaError

JsonSchema: TypeAlias = dict[str, Any] | list[Any] | str
"""A schema in JSON: an object, a union or the name of a type."""

Definitions: TypeAlias = Callable[[str], JsonSchema | None]
"""Returns the schema whose outermost type has the full name; None if there is none."""

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
"""A comment; a text is matched first, because it may contain what looks like one."""

_BEFORE, _AFTER = '{"name":"","type":"record","fields":[{"name":"","type":', "}]}"


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """A usable schema, created by :func:`schema_of`. Do not modify its contents."""

    name: str
    """The full name of the outermost type, or its kind (``union``, ``array``, ``string``) if it has no name."""

    definition: JsonSchema
    """The schema as JSON, with every named type defined where it is first used."""

    canonical: str
    """Avro's parsing canonical form; two schemas with the same form write the same bytes."""

    parsed: Parsed
    """The schema for fastavro."""

    shape: Shape
    """The check of bytes that were written with this schema."""


def read_json(text: str | bytes, location: str) -> JsonSchema:
    """Parse the JSON of a schema. It may have comments, ``//`` and ``/* */``, as for Java.

    Args:
        text: the content of a file, or the answer of a registry.
        location: the file or the id, for the error.

    Raises:
        SchemaError: the text is not JSON.
    """
    try:
        text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
        schema: JsonSchema = json.loads(_COMMENT.sub(lambda found: found[1] or " ", text))
    except (ValueError, RecursionError) as error:
        raise SchemaError(location, f"is not JSON: {error}") from error
    return schema


def no_definitions(_name: str) -> None:
    """Return None: for a schema that must define every type that it names."""


def schema_of(
    json_schema: JsonSchema, location: str, definitions: Definitions = no_definitions, *, is_registered: bool = False
) -> AvroSchema:
    """Parse a schema, together with the named types that are defined elsewhere.

    Args:
        json_schema: the schema; it is not modified.
        location: the file or the id, for the error.
        definitions: returns the types that the schema names but does not define.
        is_registered: whether it is of a registry, which may have taken it without a look at its defaults.

    Raises:
        SchemaError: it is not a usable Avro schema, or names a type that no schema defines.
    """
    try:
        definition = _Inliner(location, definitions).whole(json_schema)
        found = parsed(_for_fastavro(definition, ""))
        shape = Shape(found.type)
        set_defaults(found.named, is_registered=is_registered)
        return AvroSchema(full_name(definition), definition, _canonical(found), found, shape)
    except SchemaError:
        raise
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
    if kind not in NAMED:
        return str(kind)
    name = str(json_schema.get("name", kind))
    own = json_schema.get("namespace")
    namespace = namespace if own is None else str(own)
    return name.removeprefix(".") if "." in name or namespace == "" else f"{namespace}.{name}"


def _canonical(found: Parsed) -> str:
    return to_parsing_canonical_form(found.field).removeprefix(_BEFORE).removesuffix(_AFTER)


class _Inliner:
    """Replaces the first use of each named type by its definition.

    fastavro has a loader for this. But a definition with another namespace than the requested one makes it recurse
    endlessly on the C stack, which no ``except`` can catch.
    """

    def __init__(self, location: str, definitions: Definitions) -> None:
        self._location = location
        self._definitions = definitions
        self._found: dict[str, JsonSchema] = {}
        """The definitions of this schema, by full name."""

        self._known: set[str] = set()
        """The full names of those that are in the result already."""

    def whole(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema with a definition of every type that it names."""
        for name, definition in _definitions_in(schema, ""):
            self._found.setdefault(name, definition)
        return self._inlined(schema, "")

    def _inlined(self, schema: JsonSchema, namespace: str) -> JsonSchema:
        if isinstance(schema, list):
            return [self._inlined(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self._reference(schema, namespace)
        match schema["type"]:
            case "array":
                return {**schema, "items": self._inlined(schema["items"], namespace)}
            case "map":
                return {**schema, "values": self._inlined(schema["values"], namespace)}
            case "record" | "error" | "enum" | "fixed":
                return self._named(schema, namespace)
            case str(name) if name not in PRIMITIVES:
                return self._reference(name, namespace)
        return schema

    def _named(self, schema: dict[str, Any], namespace: str) -> JsonSchema:
        name = full_name(schema, namespace)
        if name in self._known and self._found.get(name) == _alone(schema, name):
            return name
        self._known.add(name)
        if "fields" not in schema:
            return schema
        inner = name.rpartition(".")[0]
        fields = [{**field, "type": self._inlined(field["type"], inner)} for field in schema["fields"]]
        return {**schema, "fields": fields}

    def _reference(self, name: str, namespace: str) -> JsonSchema:
        """Return the name, or the definition, of the type of the own namespace, or else of the null namespace.

        Source: ``ParseContext.find`` of Java's Avro 1.12: a type that is defined before its name is used goes first.
        """
        names = [name] if "." in name or namespace == "" else [f"{namespace}.{name}", name]
        for each in names:
            if each in self._known:
                return each
        for each in names:
            definition = self._found.get(each) or self._definitions(each)
            if definition is not None and full_name(definition) == each:
                return self.whole(_alone(definition, each))
        raise SchemaError(self._location, f"names the type {names[0]}, which no schema defines")


def _definitions_in(schema: JsonSchema, namespace: str) -> Iterator[tuple[str, JsonSchema]]:
    """Yield the full name of each named type that a schema defines, and its definition."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _definitions_in(branch, namespace)
    if not isinstance(schema, dict):
        return
    if schema["type"] in NAMED:
        name = full_name(schema, namespace)
        yield name, _alone(schema, name)
        namespace = name.rpartition(".")[0]
    match schema["type"]:
        case "array":
            yield from _definitions_in(schema["items"], namespace)
        case "map":
            yield from _definitions_in(schema["values"], namespace)
        case "record" | "error":
            for field in schema.get("fields", ()):
                yield from _definitions_in(field["type"], namespace)


def _alone(schema: JsonSchema, name: str) -> JsonSchema:
    """Return a definition that means the same wherever it stands."""
    return {**schema, "name": name, "namespace": name.rpartition(".")[0]} if isinstance(schema, dict) else schema


def _for_fastavro(schema: JsonSchema, namespace: str) -> JsonSchema:
    """Return a definition with full names, valid logical types, and the defaults out of the way."""
    if isinstance(schema, list):
        return [_for_fastavro(branch, namespace) for branch in schema]
    if isinstance(schema, str):
        return schema
    found = with_logical_type(schema)
    match schema["type"]:
        case "array":
            found["items"] = _for_fastavro(schema["items"], namespace)
        case "map":
            found["values"] = _for_fastavro(schema["values"], namespace)
        case "record" | "error" | "enum" | "fixed" as kind:
            if "name" not in schema:
                raise ValueError(f"a type {kind} has no name")
            found["name"] = full_name(schema, namespace)
            found.pop("namespace", None)
            if "fields" in schema:
                found["fields"] = [_field(field, found["name"].rpartition(".")[0]) for field in schema["fields"]]
    return found


def _field(field: dict[str, Any], namespace: str) -> dict[str, Any]:
    found = {name: each for name, each in field.items() if name != "default"}
    if "default" in field:
        found[DEFAULT] = field["default"]
    return {**found, "type": _for_fastavro(field["type"], namespace)}
