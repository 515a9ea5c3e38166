"""What the headers of another system's dead letter say, and the parts of which a reader of them is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka_redelivery.topology.java.numbers import LONG_MAX

Values = Mapping[str, bytes | None]
"""The headers of a record; of a name that is given twice, the last."""

UNDECODABLE: Final = "undecodable"
FAILED: Final = "failed"
"""Reasons that are derived: of these systems only Kafka Connect and a mapping give one."""

_MAX_PARTITION: Final = 2**31 - 1
_LONGEST: Final = 8


class Failure(NamedTuple):
    """Where a record came from and why it died. What the headers do not say is empty, or ``None``."""

    topic: str = ""
    """The topic that the system had read it from. It is sent there again."""

    partition: int | None = None
    offset: int | None = None
    group: str = ""
    attempts: int | None = None
    reason: str = ""
    exception: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """How a system marks its dead letters."""

    name: str
    recognises: Callable[[Values], bool]
    """Whether a record with these headers is a dead letter of this system."""

    read: Callable[[Values], Failure]
    removed: tuple[str, ...]
    """What is removed from a letter that is sent again: names of headers; one that ends with ``*`` is a prefix."""

    keeps_content: bool = False
    """Whether its letters have key and value of the record, so that a key without a value was a tombstone."""

    binary: frozenset[str] = frozenset()
    """Headers that are big-endian numbers."""

    def removes(self, header: str) -> bool:
        """Whether a letter that is sent again loses this header, so that the system handles it like a new record."""
        return any(
            header.startswith(name.removesuffix("*")) if name.endswith("*") else header == name for name in self.removed
        )


def having(*headers: str) -> Callable[[Values], bool]:
    """Return what recognises letters that have all of these headers."""
    return lambda values: all(header in values for header in headers)


def text(value: bytes | None) -> str:
    """Return a header as text; empty if it is missing."""
    return (value or b"").decode(errors="replace")


def number(value: bytes | None) -> int | None:
    """Return a header that is a decimal number; ``None`` if it is missing, or none that Kafka allows."""
    digits = value or b""
    if not (digits.isdigit() and len(digits) <= len(str(LONG_MAX))):
        return None
    found = int(digits)
    return found if found <= LONG_MAX else None


def binary_number(value: bytes | None) -> int | None:
    """Return a header that is a big-endian number of up to 8 bytes; ``None`` if it is missing, other or negative."""
    if not value or len(value) > _LONGEST:
        return None
    found = int.from_bytes(value, "big", signed=True)
    return found if found >= 0 else None


def partition_of(found: int | None) -> int | None:
    """Return the number of a partition; ``None`` if Kafka has none with this number."""
    return None if found is None or found > _MAX_PARTITION else found
