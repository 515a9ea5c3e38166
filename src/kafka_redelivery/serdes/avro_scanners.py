"""Scanners of Avro bytes: one per type, which find the end of a value and check that its bytes are valid.

A scanner gets the position at which a value starts and returns the position after it. It may run past the end of the
bytes: the caller recognises that by an ``IndexError`` or by a position after the end. Only scanners of repeated items
check the end before they repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kafka_redelivery.serdes.errors import DecodeCode

MAX_DEPTH = 100
"""How deep a value may nest recursive types; fastavro needs about 2 KiB of C stack per level."""

MAX_EMPTY_ITEMS = 65_536
"""How many array items without bytes (null, an empty record) a value may contain."""

MAX_PRECISION = 4_096
"""The largest precision, in digits, that a decimal may declare."""


class ShapeError(ValueError):
    """The bytes do not have the shape of the schema. Internal: the codec raises its own error from this one."""

    def __init__(self, code: DecodeCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Budget:
    """The nesting and the empty items that one value may still use."""

    __slots__ = ("depth", "empty_items")

    def __init__(self) -> None:
        self.depth = MAX_DEPTH
        self.empty_items = MAX_EMPTY_ITEMS


Scanner: TypeAlias = Callable[[bytes, int, Budget], int]
Extent: TypeAlias = Callable[[bytes, int, Budget], tuple[int, int]]


def _null(_data: bytes, at: int, _budget: Budget) -> int:
    return at


def _boolean(data: bytes, at: int, _budget: Budget) -> int:
    if data[at] > 1:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"byte {at} is {data[at]}, but a boolean is 0 or 1")
    return at + 1


def varint(bits: int) -> Scanner:
    """Scan a number of variable length that has at most ``bits`` bits."""
    max_length = (bits - 1) // 7
    max_last = (1 << (bits - 7 * max_length)) - 1

    def scan(data: bytes, at: int, _budget: Budget) -> int:
        end = at
        while data[end] & 0x80:
            end += 1
        if end - at >= max_length and (end - at > max_length or data[end] > max_last):
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the number at byte {at} has more than {bits} bits")
        return end + 1

    return scan


def fixed(size: int) -> Scanner:
    """Scan ``size`` bytes of any value."""

    def scan(_data: bytes, at: int, _budget: Budget) -> int:
        return at + size

    return scan


_int, _long = varint(32), varint(64)


def _number(data: bytes, at: int, budget: Budget) -> tuple[int, int]:
    """Return the ``long`` at a position, and the position after it."""
    end = _long(data, at, budget)
    zigzag = 0
    for byte in reversed(data[at:end]):
        zigzag = zigzag << 7 | byte & 0x7F
    return (zigzag >> 1) ^ -(zigzag & 1), end


def length(data: bytes, at: int, budget: Budget) -> tuple[int, int]:
    """Return the length at a position, and the position of the bytes that it counts."""
    size, begin = _number(data, at, budget)
    if size < 0:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the length at byte {at} is {size}")
    return size, begin


def sized(data: bytes, at: int, budget: Budget) -> int:
    """Scan a length, and the bytes that it counts."""
    byte = data[at]
    if not byte & 0x81:  # a length below 64 in one byte, by far the most frequent
        return at + 1 + (byte >> 1)
    size, begin = length(data, at, budget)
    return begin + size


PRIMITIVES: dict[str, Scanner] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": fixed(4),
    "double": fixed(8),
    "bytes": sized,
    "string": sized,
}


def constant(size: int) -> Extent:
    """Like :func:`length`, for bytes whose number is in the schema."""
    return lambda _data, at, _budget: (size, at)


def decimal(extent: Extent, schema: dict[str, Any]) -> Scanner:
    """Scan a decimal and refuse more digits than declared, which fastavro would round off in quadratic time."""
    precision = schema.get("precision")
    if not isinstance(precision, int) or not 0 < precision <= MAX_PRECISION:
        raise ValueError(f"the precision of a decimal must be 1 to {MAX_PRECISION} digits, not {precision!r}")
    limit: int = 10**precision

    def scan(data: bytes, at: int, budget: Budget) -> int:
        size, begin = extent(data, at, budget)
        end = begin + size
        if end <= len(data) and not -limit < int.from_bytes(data[begin:end], "big", signed=True) < limit:
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the decimal at byte {at} has more than {precision} digits")
        return end

    return scan


def enum(symbols: int) -> Scanner:
    """Scan the index of one of ``symbols`` symbols."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        index, at = _number(data, at, budget)
        if not 0 <= index < symbols:
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"symbol {index} of {symbols} before byte {at}")
        return at

    return scan


def union(branches: tuple[Scanner, ...]) -> Scanner:
    """Scan the index of a branch, and its value."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        byte = data[at]
        if not byte & 0x81:  # one byte and not negative
            index, at = byte >> 1, at + 1
        else:
            index, at = _number(data, at, budget)
        if not 0 <= index < len(branches):
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"branch {index} of {len(branches)} before byte {at}")
        return branches[index](data, at, budget)

    return scan


def record(fields: tuple[Scanner, ...]) -> Scanner:
    """Scan the values of all fields."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        for field in fields:
            at = field(data, at, budget)
        return at

    return scan


def entry(value: Scanner) -> Scanner:
    """Scan the key and the value of a map entry."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        return value(data, sized(data, at, budget), budget)

    return scan


def _block(data: bytes, at: int, budget: Budget) -> tuple[int, int | None, int]:
    """Return the number of items of a block, its declared end (or None), and the position of its first item."""
    count, at = _number(data, at, budget)
    if count >= 0:
        return count, None, at
    size, at = length(data, at, budget)
    return -count, at + size, at


def array(item: Scanner) -> Scanner:
    """Scan blocks of items that take at least one byte each."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        while True:
            count, end, at = _block(data, at, budget)
            if count == 0:
                return at
            if count > len(data) - at:
                raise ShapeError(DecodeCode.TRUNCATED, f"{count} items before byte {at} need more bytes than there are")
            for _ in range(count):
                at = item(data, at, budget)
            _check_end(end, at)

    return scan


def empty_array(item: Scanner) -> Scanner:
    """Scan blocks of items that take no bytes; only :data:`MAX_EMPTY_ITEMS` limits their number."""

    def scan(data: bytes, at: int, budget: Budget) -> int:
        while True:
            count, end, at = _block(data, at, budget)
            if count == 0:
                return at
            budget.empty_items -= count
            if budget.empty_items < 0:
                raise ShapeError(
                    DecodeCode.TOO_MANY_ITEMS,
                    f"{count} items without bytes before byte {at}: over {MAX_EMPTY_ITEMS}",
                )
            # One item stands for all. It is scanned because its type may nest itself without end.
            at = item(data, at, budget)
            _check_end(end, at)

    return scan


def _check_end(declared: int | None, actual: int) -> None:
    # A reader that skips the block relies on its declared size.
    if declared is not None and declared != actual:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"a block declares its end at byte {declared}, not {actual}")
