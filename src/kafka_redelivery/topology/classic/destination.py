"""Names of ActiveMQ Classic's destinations, and their parser.

A destination is written ``queue:NAME``, ``topic:NAME``, ``temp-queue:NAME`` or ``temp-topic:NAME``. A name without a
kind is the name of a queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_redelivery.topology.errors import DestinationError
from kafka_redelivery.topology.java.numbers import decoded_query

SEPARATOR = "."
COMPOSITE = ","
ANY_CHILD = "*"
ANY_DESCENDANT = ">"

_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's ``trim`` removes."""


class DestinationKind(StrEnum):
    """The kind of a destination on the broker. On Kafka, all of them are topics."""

    QUEUE = "queue"
    TOPIC = "topic"
    TEMP_QUEUE = "temp-queue"
    TEMP_TOPIC = "temp-topic"

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue, temporary or not."""
        return self in {DestinationKind.QUEUE, DestinationKind.TEMP_QUEUE}

    @property
    def is_temporary(self) -> bool:
        """Whether it exists only as long as its connection."""
        return self in {DestinationKind.TEMP_QUEUE, DestinationKind.TEMP_TOPIC}


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination or a pattern of destinations.

    ``name`` is the physical name, without options. ``parts`` are the destinations of a composite (``A,B``), sorted and
    without duplicates; empty for a single destination, and for a name of commas only. ``options`` are those after
    ``?``.
    """

    kind: DestinationKind
    name: str
    parts: tuple[Destination, ...] = ()
    options: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    @property
    def composite(self) -> bool:
        """Whether it stands for several destinations, or, with a name of commas only, for none."""
        return COMPOSITE in self.name

    @property
    def paths(self) -> list[str]:
        """The words of the name."""
        return self.name.split(SEPARATOR)

    @property
    def pattern(self) -> bool:
        """Whether the broker treats it as a pattern: it has a wildcard character and is not a composite."""
        return not self.composite and (ANY_CHILD in self.name or ANY_DESCENDANT in self.name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_destination(text: str) -> Destination:
    """Parse a destination, written with or without its kind.

    Raises:
        DestinationError: the name is empty.
    """
    for kind in DestinationKind:
        if text.startswith(f"{kind}:"):
            return named(kind, text[len(kind) + 1 :])
    return named(DestinationKind.QUEUE, text)


def without_kind(text: str) -> str:
    """Return a written destination without its kind."""
    return with_kind(text).partition(":")[2]


def with_kind(text: str) -> str:
    """Return a written destination with its kind."""
    return text if any(text.startswith(f"{kind}:") for kind in DestinationKind) else f"{DestinationKind.QUEUE}:{text}"


def named(kind: DestinationKind, text: str) -> Destination:
    """Parse the name of a destination, which may be a composite and have options.

    Raises:
        DestinationError: the name is empty, or an option is malformed.

    Source: ``ActiveMQDestination.setPhysicalName``.
    """
    name, question, options = text.strip(_BLANKS).partition("?")
    if not name and not question:
        raise DestinationError(text, "needs a name that is not empty")
    parts: tuple[Destination, ...] = ()
    if COMPOSITE in name:
        found = {_part(kind, part.strip(_BLANKS)) for part in name.split(COMPOSITE) if part.strip(_BLANKS)}
        parts = tuple(sorted(found, key=str))
    if any("=" in option and _BROKEN_ESCAPE.search(option) for option in options.split("&")):
        raise DestinationError(text, "has an option in which % is not followed by two hexadecimal digits")
    return Destination(kind, name, parts, decoded_query(options) if question else {})


def _part(default: DestinationKind, text: str) -> Destination:
    """Parse one part of a composite; ``topic://X`` selects another kind."""
    for kind in DestinationKind:
        if text.startswith(f"{kind}://"):
            return named(kind, text[len(kind) + 3 :])
    return named(default, text)
