"""The steps over Avro bytes: how far each type reaches, and whether its bytes may be what they are.

Each step takes the position where a value starts and returns the one after it. Running off the end is found by whoever
started the walk, as an ``IndexError`` or as a position after the end; only what repeats looks before it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from serdes.errors import DecodeCode

MAX_DEPTH = 100
"""How often one value may nest a recursive type; fastavro takes about 2 KiB of C stack for each."""

MAX_EMPTY_ITEMS = 65_536
"""How many array items without bytes (null, an empty record) one value may hold."""

MAX_PRECISION = 4_096
"""How many digits a decimal may declare."""


class ShapeError(ValueError):
    """The bytes do not have the shape of the schema. Internal: the codec raises its own error from it."""

    def __init__(self, code: DecodeCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Room:
    """What one value may still use up."""

    __slots__ = ("depth", "empty_items")

    def __init__(self) -> None:
        self.depth = MAX_DEPTH
        self.empty_items = MAX_EMPTY_ITEMS


Walk: TypeAlias = Callable[[bytes, int, Room], int]
Extent: TypeAlias = Callable[[bytes, int, Room], tuple[int, int]]


def _null(_data: bytes, at: int, _room: Room) -> int:
    return at


def _boolean(data: bytes, at: int, _room: Room) -> int:
    if data[at] > 1:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"byte {at} is {data[at]}, but a boolean is 0 or 1")
    return at + 1


def varint(bits: int) -> Walk:
    """A number of variable length, of at most so many bits."""
    most = (bits - 1) // 7
    last = (1 << (bits - 7 * most)) - 1

    def walk(data: bytes, at: int, _room: Room) -> int:
        end = at
        while data[end] & 0x80:
            end += 1
        if end - at >= most and (end - at > most or data[end] > last):
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the number at byte {at} has more than {bits} bits")
        return end + 1

    return walk


def fixed(size: int) -> Walk:
    """So many bytes, whatever they are."""

    def walk(_data: bytes, at: int, _room: Room) -> int:
        return at + size

    return walk


_int, _long = varint(32), varint(64)


def _number(data: bytes, at: int, room: Room) -> tuple[int, int]:
    """Return the long at a position, and the position after it."""
    end = _long(data, at, room)
    zigzag = 0
    for byte in reversed(data[at:end]):
        zigzag = zigzag << 7 | byte & 0x7F
    return (zigzag >> 1) ^ -(zigzag & 1), end


def length(data: bytes, at: int, room: Room) -> tuple[int, int]:
    """Return the length at a position, and where the bytes it counts begin."""
    size, begin = _number(data, at, room)
    if size < 0:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the length at byte {at} is {size}")
    return size, begin


def sized(data: bytes, at: int, room: Room) -> int:
    """A length and so many bytes."""
    byte = data[at]
    if not byte & 0x81:  # a length below 64 in one byte, by far the most frequent
        return at + 1 + (byte >> 1)
    size, begin = length(data, at, room)
    return begin + size


PRIMITIVES: dict[str, Walk] = {
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
    """As :func:`length` for bytes whose number the schema tells."""
    return lambda _data, at, _room: (size, at)


def decimal(extent: Extent, schema: dict[str, Any]) -> Walk:
    """Refuse more digits than declared: fastavro would round them off, after a time quadratic in their number."""
    precision = schema.get("precision")
    if not isinstance(precision, int) or not 0 < precision <= MAX_PRECISION:
        raise ValueError(f"the precision of a decimal must be 1 to {MAX_PRECISION} digits, not {precision!r}")
    limit: int = 10**precision

    def walk(data: bytes, at: int, room: Room) -> int:
        size, begin = extent(data, at, room)
        end = begin + size
        if end <= len(data) and not -limit < int.from_bytes(data[begin:end], "big", signed=True) < limit:
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"the decimal at byte {at} has more than {precision} digits")
        return end

    return walk


def enum(symbols: int) -> Walk:
    """An index into so many symbols."""

    def walk(data: bytes, at: int, room: Room) -> int:
        index, at = _number(data, at, room)
        if not 0 <= index < symbols:
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"symbol {index} of {symbols} before byte {at}")
        return at

    return walk


def union(branches: tuple[Walk, ...]) -> Walk:
    """A branch's index, and its value."""

    def walk(data: bytes, at: int, room: Room) -> int:
        byte = data[at]
        if not byte & 0x81:  # one byte and not negative
            index, at = byte >> 1, at + 1
        else:
            index, at = _number(data, at, room)
        if not 0 <= index < len(branches):
            raise ShapeError(DecodeCode.AVRO_MISMATCH, f"branch {index} of {len(branches)} before byte {at}")
        return branches[index](data, at, room)

    return walk


def record(fields: tuple[Walk, ...]) -> Walk:
    """One value after the other."""

    def walk(data: bytes, at: int, room: Room) -> int:
        for field in fields:
            at = field(data, at, room)
        return at

    return walk


def entry(value: Walk) -> Walk:
    """The key and the value of one entry of a map."""

    def walk(data: bytes, at: int, room: Room) -> int:
        return value(data, sized(data, at, room), room)

    return walk


def _block(data: bytes, at: int, room: Room) -> tuple[int, int | None, int]:
    """Return the number of items in a block, where it says it ends (or None), and the position of its first item."""
    count, at = _number(data, at, room)
    if count >= 0:
        return count, None, at
    size, at = length(data, at, room)
    return -count, at + size, at


def array(item: Walk) -> Walk:
    """Blocks of items that take at least one byte each."""

    def walk(data: bytes, at: int, room: Room) -> int:
        while True:
            count, end, at = _block(data, at, room)
            if count == 0:
                return at
            if count > len(data) - at:
                raise ShapeError(DecodeCode.TRUNCATED, f"{count} items before byte {at} need more than all the bytes")
            for _ in range(count):
                at = item(data, at, room)
            _check_end(end, at)

    return walk


def empty_array(item: Walk) -> Walk:
    """Blocks of items that take no bytes: nothing but a limit bounds their number."""

    def walk(data: bytes, at: int, room: Room) -> int:
        while True:
            count, end, at = _block(data, at, room)
            if count == 0:
                return at
            room.empty_items -= count
            if room.empty_items < 0:
                raise ShapeError(
                    DecodeCode.TOO_MANY_ITEMS,
                    f"{count} items without bytes before byte {at}: over {MAX_EMPTY_ITEMS}",
                )
            # One stands for all; it is walked because its type may nest itself without end.
            at = item(data, at, room)
            _check_end(end, at)

    return walk


def _check_end(said: int | None, found: int) -> None:
    # Whoever skips the block relies on the size it states.
    if said is not None and said != found:
        raise ShapeError(DecodeCode.AVRO_MISMATCH, f"a block says it ends at byte {said}, but it ends at byte {found}")
