"""Avro's logical types as text that a person can edit, without loss.

A value that the text cannot represent exactly, such as a timestamp after the year 9999, has no text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local timestamp has no zone
_MIDNIGHT = datetime(1, 1, 1)  # noqa: DTZ001 - as above


@dataclass(frozen=True, slots=True)
class Numbers:
    """A logical type of ``int`` or ``long``."""

    text: Callable[[int], str]
    """Returns the text of a number; raises ``OverflowError`` or ``ValueError`` if it has none."""

    number: Callable[[str], int]
    """Returns the number of a text; raises ``ValueError``."""


def _micros(step: int, difference: timedelta) -> int:
    number, rest = divmod(difference, timedelta(microseconds=step))
    if rest:
        raise ValueError(f"is finer than {'a millisecond' if step > 1 else 'a microsecond'}")
    return number


def _timestamps(step: int, *, utc: bool) -> Numbers:
    precision = "milliseconds" if step > 1 else "microseconds"

    def text(number: int) -> str:
        found = _EPOCH + timedelta(microseconds=number * step)
        return found.isoformat(timespec=precision) + ("Z" if utc else "")

    def number(written: str) -> int:
        found = datetime.fromisoformat(written)
        if utc:
            if found.tzinfo is None:
                raise ValueError("has no zone; end it with Z")
            found = found.astimezone(UTC).replace(tzinfo=None)
        elif found.tzinfo is not None:
            raise ValueError("is a local time, so it has no zone")
        return _micros(step, found - _EPOCH)

    return Numbers(text, number)


def _times(step: int) -> Numbers:
    precision = "milliseconds" if step > 1 else "microseconds"

    def text(number: int) -> str:
        found = _MIDNIGHT + timedelta(microseconds=number * step)
        if found.date() != _MIDNIGHT.date():
            raise ValueError("is longer than a day")
        return found.time().isoformat(timespec=precision)

    def number(written: str) -> int:
        found = time.fromisoformat(written)
        if found.tzinfo is not None:
            raise ValueError("is a time of a day, so it has no zone")
        return _micros(step, datetime.combine(_MIDNIGHT, found) - _MIDNIGHT)

    return Numbers(text, number)


NUMBERS = {
    "int-date": Numbers(
        lambda days: (_EPOCH.date() + timedelta(days=days)).isoformat(),
        lambda written: (date.fromisoformat(written) - _EPOCH.date()).days,
    ),
    "int-time-millis": _times(1000),
    "long-time-micros": _times(1),
    "long-timestamp-millis": _timestamps(1000, utc=True),
    "long-timestamp-micros": _timestamps(1, utc=True),
    "long-local-timestamp-millis": _timestamps(1000, utc=False),
    "long-local-timestamp-micros": _timestamps(1, utc=False),
}
"""The logical types of numbers, by type and logical type."""


@dataclass(frozen=True, slots=True)
class Decimals:
    """The logical type ``decimal``: an unscaled number in big-endian bytes."""

    precision: int
    scale: int
    size: int | None
    """Number of bytes of a ``fixed``, which suffice for the precision; ``None`` = as few as possible, as in Java."""

    @classmethod
    def of(cls, schema: dict[str, Any]) -> Decimals:
        """Return the decimals of a schema."""
        return cls(schema["precision"], schema.get("scale", 0), schema.get("size"))

    def text(self, data: bytes) -> str:
        """Return the decimal as text, such as ``12.30``."""
        unscaled = int.from_bytes(data, "big", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        return format(Decimal((int(unscaled < 0), digits, -self.scale)), "f")

    def data(self, written: str) -> bytes:
        """Return the bytes of a text.

        Raises:
            ValueError: it is no decimal, or has more digits than the schema allows.
        """
        try:
            sign, digits, exponent = Decimal(written).as_tuple()
        except InvalidOperation:
            raise ValueError("is not a decimal number") from None
        if not isinstance(exponent, int):
            raise ValueError("is not a finite number")  # noqa: TRY004 - NaN and infinity
        shift = exponent + self.scale
        if shift < 0:
            digits, rest = digits[:shift], digits[shift:]
            if any(rest):
                raise ValueError(f"has more than {self.scale} digits after the point")
            shift = 0
        unscaled = int("".join(map(str, digits)) or "0")
        if unscaled and len(str(unscaled)) + shift > self.precision:
            raise ValueError(f"has more than {self.precision} digits")
        unscaled *= 10**shift if unscaled else 1
        unscaled = -unscaled if sign else unscaled
        needed = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
        return unscaled.to_bytes(self.size or needed, "big", signed=True)
