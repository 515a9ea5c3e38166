"""Checks the shape of Avro bytes before fastavro reads them.

fastavro trusts its input: a value nested some thousand levels deep overflows the C stack and kills the process, an
array of nulls may claim 2**62 items, skipping a field accepts a cut-off end, a negative union branch is read as the
last one, and a decimal of a megabyte takes minutes. None of that can be caught afterwards. A walk over the bytes
finds all of it first, in time and memory bounded by their length; fastavro then sees only bytes of the right shape.
"""

from __future__ import annotations

from typing import Any

from serdes import avro_walks as walks
from serdes.avro_walks import MAX_DEPTH, Room, ShapeError, Walk
from serdes.errors import DecodeCode


class Shape:
    """The shape of one schema's bytes. Immutable; may be used from several threads."""

    __slots__ = ("_walk", "recursive")

    def __init__(self, parsed: Any) -> None:  # noqa: ANN401 - a schema is a dict, a list or a str
        """Compile the schema as ``fastavro.parse_schema`` returns it.

        Raises:
            ValueError: a size or a decimal precision that no Avro schema may have.
        """
        compiler = _Compiler()
        self._walk = compiler.walk_of(parsed)
        self.recursive = compiler.recursive
        """Whether a value may nest its own type, so that only its bytes tell how deep."""

    def check(self, data: bytes, start: int) -> None:
        """Return if ``data`` holds exactly one value from ``start`` to its end.

        Raises:
            ShapeError: it does not.
        """
        try:
            end = self._walk(data, start, Room())
        except IndexError:
            end = len(data) + 1
        except RecursionError as error:
            raise ShapeError(DecodeCode.TOO_DEEP, "nested too deep for what is left of the stack") from error
        if end > len(data):
            raise ShapeError(DecodeCode.TRUNCATED, f"the value does not end within the {len(data)} bytes")
        if end < len(data):
            raise ShapeError(DecodeCode.TRAILING_BYTES, f"{len(data) - end} bytes after the value's end at byte {end}")


class _Compiler:
    """Builds the walk of a schema: one closure for each type in it."""

    def __init__(self) -> None:
        self._walks: dict[str, Walk] = {}
        self._definitions: dict[str, Any] = {}
        self.recursive = False

    def walk_of(self, schema: Any) -> Walk:  # noqa: ANN401 - as Shape
        if isinstance(schema, list):
            return walks.union(tuple(self.walk_of(branch) for branch in schema))
        if isinstance(schema, str):
            return walks.PRIMITIVES.get(schema) or self._reference(schema)
        match schema["type"]:
            case "array":
                item = self.walk_of(schema["items"])  # first, so that every type named in it is known
                return (walks.empty_array if self._is_empty(schema["items"], frozenset()) else walks.array)(item)
            case "map":
                return walks.array(walks.entry(self.walk_of(schema["values"])))
            case "record" | "error" | "enum" | "fixed":
                return self._named(schema)
            case "bytes" if schema.get("logicalType") == "decimal":
                return walks.decimal(walks.length, schema)
            case primitive:
                return walks.PRIMITIVES[primitive]

    def _named(self, schema: dict[str, Any]) -> Walk:
        name: str = schema["name"]
        self._definitions[name] = schema
        match schema["type"]:
            case "enum":
                walk = walks.enum(len(schema["symbols"]))
            case "fixed" if schema.get("logicalType") == "decimal":
                walk = walks.decimal(walks.constant(_size(schema)), schema)
            case "fixed":
                walk = walks.fixed(_size(schema))
            case _:
                walk = walks.record(tuple(self.walk_of(field["type"]) for field in schema["fields"]))
        self._walks[name] = walk
        return walk

    def _reference(self, name: str) -> Walk:
        """Return the walk of a named type; one that is still being built is recursive, and counts its depth."""
        if name in self._walks:
            return self._walks[name]
        self.recursive = True

        def again(data: bytes, at: int, room: Room) -> int:
            if room.depth == 0:
                raise ShapeError(DecodeCode.TOO_DEEP, f"{name} is nested more than {MAX_DEPTH} levels at byte {at}")
            room.depth -= 1
            at = self._walks[name](data, at, room)
            room.depth += 1
            return at

        return again

    def _is_empty(self, schema: Any, inside: frozenset[str]) -> bool:  # noqa: ANN401 - as Shape
        """Whether values of the schema take no bytes at all."""
        if isinstance(schema, list):
            return False
        if isinstance(schema, str):
            if schema not in self._definitions:
                return schema == "null"
            return schema in inside or self._is_empty(self._definitions[schema], inside)
        match schema["type"]:
            case "record" | "error":
                inside |= {schema["name"]}
                return all(self._is_empty(field["type"], inside) for field in schema["fields"])
            case "fixed":
                return _size(schema) == 0
            case kind:
                return bool(kind == "null")


def _size(schema: dict[str, Any]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"the size of {schema['name']} must be a number of bytes, not {size!r}")
    return size
