"""A check of the shape of Avro bytes before fastavro decodes them.

fastavro trusts its input:

* a value nested some thousand levels deep overflows the C stack and kills the process;
* an array of nulls can declare 2**62 items;
* skipping a field accepts truncated bytes;
* a negative union branch is read as the last branch;
* a decimal of one megabyte takes minutes.

None of this can be caught afterwards. A scan of the bytes finds all of it first, in time and memory bounded by their
length, so fastavro only gets bytes of the right shape.
"""

from __future__ import annotations

from typing import Any

from kafka_redelivery.serdes import avro_scanners as scanners
from kafka_redelivery.serdes.avro_scanners import MAX_DEPTH, Budget, Scanner, ShapeError
from kafka_redelivery.serdes.errors import DecodeCode


class Shape:
    """The shape of the bytes of one schema. Immutable and thread-safe."""

    __slots__ = ("_scan", "recursive")

    def __init__(self, parsed: Any) -> None:  # noqa: ANN401 - a schema is a dict, a list or a str
        """Compile the schema as ``fastavro.parse_schema`` returns it.

        Raises:
            ValueError: a size or a decimal precision that no Avro schema may have.
        """
        compiler = _Compiler()
        self._scan = compiler.scanner_of(parsed)
        self.recursive = compiler.recursive
        """Whether a value can contain its own type, to any depth."""

    def check(self, data: bytes, start: int) -> None:
        """Check that ``data`` contains exactly one value from ``start`` to its end.

        Raises:
            ShapeError: it does not, or the value exceeds a limit.
        """
        try:
            end = self._scan(data, start, Budget())
        except IndexError:
            end = len(data) + 1
        except RecursionError as error:
            raise ShapeError(DecodeCode.TOO_DEEP, "nested too deep for the rest of the stack") from error
        if end > len(data):
            raise ShapeError(DecodeCode.TRUNCATED, f"the value does not end within the {len(data)} bytes")
        if end < len(data):
            raise ShapeError(DecodeCode.TRAILING_BYTES, f"{len(data) - end} bytes after the value's end at byte {end}")


class _Compiler:
    """Builds the scanner of a schema: one closure per type."""

    def __init__(self) -> None:
        self._scanners: dict[str, Scanner] = {}
        self._definitions: dict[str, Any] = {}
        self.recursive = False

    def scanner_of(self, schema: Any) -> Scanner:  # noqa: ANN401 - as Shape
        if isinstance(schema, list):
            return scanners.union(tuple(self.scanner_of(branch) for branch in schema))
        if isinstance(schema, str):
            return scanners.PRIMITIVES.get(schema) or self._reference(schema)
        match schema["type"]:
            case "array":
                item = self.scanner_of(schema["items"])  # first, so that all types that it names are known
                return (scanners.empty_array if self._is_empty(schema["items"], frozenset()) else scanners.array)(item)
            case "map":
                return scanners.array(scanners.entry(self.scanner_of(schema["values"])))
            case "record" | "error" | "enum" | "fixed":
                return self._named(schema)
            case "bytes" if schema.get("logicalType") == "decimal":
                return scanners.decimal(scanners.length, schema)
            case primitive:
                return scanners.PRIMITIVES[primitive]

    def _named(self, schema: dict[str, Any]) -> Scanner:
        name: str = schema["name"]
        self._definitions[name] = schema
        match schema["type"]:
            case "enum":
                scan = scanners.enum(len(schema["symbols"]))
            case "fixed" if schema.get("logicalType") == "decimal":
                scan = scanners.decimal(scanners.constant(_size(schema)), schema)
            case "fixed":
                scan = scanners.fixed(_size(schema))
            case _:
                scan = scanners.record(tuple(self.scanner_of(field["type"]) for field in schema["fields"]))
        self._scanners[name] = scan
        return scan

    def _reference(self, name: str) -> Scanner:
        """Return the scanner of a named type. A type that is still incomplete is recursive: its depth is counted."""
        if name in self._scanners:
            return self._scanners[name]
        self.recursive = True

        def again(data: bytes, at: int, budget: Budget) -> int:
            if budget.depth == 0:
                raise ShapeError(DecodeCode.TOO_DEEP, f"{name} is nested more than {MAX_DEPTH} levels at byte {at}")
            budget.depth -= 1
            at = self._scanners[name](data, at, budget)
            budget.depth += 1
            return at

        return again

    def _is_empty(self, schema: Any, inside: frozenset[str]) -> bool:  # noqa: ANN401 - as Shape
        """Whether values of the schema take no bytes."""
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
