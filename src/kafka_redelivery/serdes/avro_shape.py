"""A check of the shape of Avro bytes before fastavro decodes them.

fastavro trusts its input:

* a value nested some thousand levels deep overflows the C stack and kills the process;
* an array of nulls can declare 2**62 items;
* skipping a field accepts truncated bytes;
* a negative union branch is read as the last branch;
* a decimal of one megabyte takes minutes.

None of this can be caught afterwards. A scan of the bytes finds all of it first, in time and memory bounded by their
length, so fastavro only gets bytes of the right shape.

A scanner gets the position at which a value starts and returns the position after it. It may run past the end of the
bytes, which ``Shape.check`` recognises by an ``IndexError`` or by the position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafka_redelivery.serdes.errors import DecodeCode

MAX_DEPTH: Final = 100
"""How deep a value may nest recursive types; fastavro needs about 2 KiB of C stack per level."""

MAX_EMPTY_ITEMS: Final = 65_536
"""How many array items without bytes (null, an empty record) a value may contain."""

MAX_PRECISION: Final = 4_096
"""The largest precision, in digits, that a decimal may declare."""


class ShapeError(ValueError):
    """Bytes, JSON or a value do not have the shape of the schema. The codec raises its own error from this one."""

    def __init__(self, reason: str, code: DecodeCode = DecodeCode.AVRO_MISMATCH) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code


@dataclass(slots=True)
class _Budget:
    """The nesting and the empty items that one value may still use."""

    depth: int = MAX_DEPTH
    empty_items: int = MAX_EMPTY_ITEMS


_Scanner: TypeAlias = Callable[[bytes, int, _Budget], int]


class Shape:
    """The shape of the bytes of one schema. Immutable and thread-safe."""

    __slots__ = ("_named", "_scan", "recursive")

    def __init__(self, parsed: Any) -> None:  # noqa: ANN401 - a schema is a dict, a list or a str
        """Compile the schema as ``fastavro.parse_schema`` returns it.

        Raises:
            ValueError: a size or a decimal precision that no Avro schema may have.
        """
        self.recursive = False
        """Whether a value can contain its own type, to any depth."""

        self._named: dict[str, _Scanner] = {}
        self._scan = self._scanner_of(parsed)

    def check(self, data: bytes, start: int) -> None:
        """Check that ``data`` contains exactly one value from ``start`` to its end.

        Raises:
            ShapeError: it does not, or the value exceeds a limit.
        """
        try:
            end = self._scan(data, start, _Budget())
        except IndexError:
            end = len(data) + 1
        except RecursionError as error:
            raise ShapeError("nested too deep for the rest of the stack", DecodeCode.TOO_DEEP) from error
        if end > len(data):
            raise ShapeError(f"the value does not end within the {len(data)} bytes", DecodeCode.TRUNCATED)
        if end < len(data):
            raise ShapeError(f"{len(data) - end} bytes after the value's end at byte {end}", DecodeCode.TRAILING_BYTES)

    def _scanner_of(self, schema: Any) -> _Scanner:  # noqa: ANN401 - as __init__
        if isinstance(schema, list):
            return _choice("branch", [self._scanner_of(branch) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._named.get(schema) or self._inside(schema)
        decimal = schema.get("logicalType") == "decimal"
        match schema["type"]:
            case "array":
                return _blocks(self._scanner_of(schema["items"]))
            case "map":
                return _blocks(_sequence([_sized, self._scanner_of(schema["values"])]))
            case "record" | "error":
                scan = _sequence([self._scanner_of(field["type"]) for field in schema["fields"]])
            case "enum":
                scan = _choice("symbol", [_fixed(0)] * len(schema["symbols"]))
            case "fixed":
                size = schema["size"]
                if not isinstance(size, int) or size < 0:
                    raise ValueError(f"the size of {schema['name']} must be a number of bytes, not {size!r}")
                scan = _decimal(schema, size) if decimal else _fixed(size)
            case kind:
                return _decimal(schema) if decimal and kind == "bytes" else _PRIMITIVES[kind]
        self._named[schema["name"]] = scan
        return scan

    def _inside(self, name: str) -> _Scanner:
        """Return the scanner of a type within itself, which counts its depth."""
        self.recursive = True

        def scan(data: bytes, at: int, budget: _Budget) -> int:
            if budget.depth == 0:
                raise ShapeError(f"{name} is nested more than {MAX_DEPTH} levels at byte {at}", DecodeCode.TOO_DEEP)
            budget.depth -= 1
            at = self._named[name](data, at, budget)
            budget.depth += 1
            return at

        return scan


def _boolean(data: bytes, at: int, _budget: _Budget) -> int:
    if data[at] > 1:
        raise ShapeError(f"byte {at} is {data[at]}, but a boolean is 0 or 1")
    return at + 1


def _fixed(size: int) -> _Scanner:
    return lambda _data, at, _budget: at + size


def _varint(bits: int) -> _Scanner:
    """Scan a number of variable length that has at most ``bits`` bits."""
    most, highest = bits // 7, (1 << bits % 7) - 1

    def scan(data: bytes, at: int, _budget: _Budget) -> int:
        end = at
        while data[end] & 0x80:
            end += 1
        if end - at >= most and (end - at > most or data[end] > highest):
            raise ShapeError(f"the number at byte {at} has more than {bits} bits")
        return end + 1

    return scan


_long = _varint(64)


def _number(data: bytes, at: int, budget: _Budget) -> tuple[int, int]:
    """Return the ``long`` at a position, and the position after it."""
    end = _long(data, at, budget)
    zigzag = 0
    for byte in reversed(data[at:end]):
        zigzag = zigzag << 7 | byte & 0x7F
    return (zigzag >> 1) ^ -(zigzag & 1), end


def _length(data: bytes, at: int, budget: _Budget) -> tuple[int, int]:
    """Return the length at a position, and the position of the bytes that it counts."""
    size, begin = _number(data, at, budget)
    if size < 0:
        raise ShapeError(f"the length at byte {at} is {size}")
    return size, begin


def _sized(data: bytes, at: int, budget: _Budget) -> int:
    """Scan a length, and the bytes that it counts."""
    byte = data[at]
    if not byte & 0x81:  # a length below 64 in one byte, by far the most frequent
        return at + 1 + (byte >> 1)
    size, begin = _length(data, at, budget)
    return begin + size


_PRIMITIVES: Final[dict[str, _Scanner]] = {
    "null": _fixed(0),
    "boolean": _boolean,
    "int": _varint(32),
    "long": _long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _sized,
    "string": _sized,
}


def _decimal(schema: dict[str, Any], fixed: int | None = None) -> _Scanner:
    """Scan a decimal and refuse more digits than declared, which fastavro would round off in quadratic time."""
    precision = schema.get("precision")
    if not isinstance(precision, int) or not 0 < precision <= MAX_PRECISION:
        raise ValueError(f"the precision of a decimal must be 1 to {MAX_PRECISION} digits, not {precision!r}")
    limit: int = 10**precision

    def scan(data: bytes, at: int, budget: _Budget) -> int:
        size, begin = _length(data, at, budget) if fixed is None else (fixed, at)
        end = begin + size
        if end <= len(data) and not -limit < int.from_bytes(data[begin:end], "big", signed=True) < limit:
            raise ShapeError(f"the decimal at byte {at} has more than {precision} digits")
        return end

    return scan


def _choice(what: str, scanners: list[_Scanner]) -> _Scanner:
    """Scan the index of a branch or symbol, and its value."""

    def scan(data: bytes, at: int, budget: _Budget) -> int:
        byte = data[at]
        index, at = (byte >> 1, at + 1) if not byte & 0x81 else _number(data, at, budget)
        if not 0 <= index < len(scanners):
            raise ShapeError(f"{what} {index} of {len(scanners)} before byte {at}")
        return scanners[index](data, at, budget)

    return scan


def _sequence(scanners: list[_Scanner]) -> _Scanner:
    """Scan one value after the other: the fields of a record, or the key and value of a map's entry."""

    def scan(data: bytes, at: int, budget: _Budget) -> int:
        for each in scanners:
            at = each(data, at, budget)
        return at

    return scan


def _blocks(item: _Scanner) -> _Scanner:
    def scan(data: bytes, at: int, budget: _Budget) -> int:
        while True:
            count, at = _number(data, at, budget)
            if count == 0:
                return at
            declared = None
            if count < 0:
                size, at = _length(data, at, budget)
                count, declared = -count, at + size
            begin, at = at, item(data, at, budget)
            if at == begin:  # it takes no bytes, and so do all others of its type
                budget.empty_items -= count
                if budget.empty_items < 0:
                    reason = f"{count} items without bytes before byte {at}: over {MAX_EMPTY_ITEMS}"
                    raise ShapeError(reason, DecodeCode.TOO_MANY_ITEMS)
            elif count - 1 > len(data) - at:
                raise ShapeError(f"{count} items at byte {begin} need more bytes than there are", DecodeCode.TRUNCATED)
            else:
                for _ in range(count - 1):
                    at = item(data, at, budget)
            if declared is not None and declared != at:  # a reader that skips the block relies on it
                raise ShapeError(f"a block declares its end at byte {declared}, not {at}")

    return scan
