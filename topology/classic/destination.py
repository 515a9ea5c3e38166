"""Names of ActiveMQ Classic's destinations, and how they are taken apart.

Written ``queue:NAME``, ``topic:NAME``, ``temp-queue:NAME`` or ``temp-topic:NAME``; a name without a
kind is a queue's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from topology.errors import DestinationError
from topology.percent import decoded_query

SEPARATOR = "."
COMPOSITE = ","
ANY_CHILD = "*"
ANY_DESCENDANT = ">"

_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` takes away."""


class Kind(StrEnum):
    """What a destination is for the broker. On Kafka everything is a topic."""

    QUEUE = "queue"
    TOPIC = "topic"
    TEMP_QUEUE = "temp-queue"
    TEMP_TOPIC = "temp-topic"

    @property
    def is_queue(self) -> bool:
        """Whether it behaves as a queue."""
        return self in {Kind.QUEUE, Kind.TEMP_QUEUE}

    @property
    def is_temporary(self) -> bool:
        """Whether it lives only as long as its connection."""
        return self in {Kind.TEMP_QUEUE, Kind.TEMP_TOPIC}


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination or a pattern of destinations.

    ``name`` is the physical name, without options. ``parts`` are those of a composite (``A,B``), sorted
    and without repetition; empty for a single one, and for one of commas alone. ``options`` is what stood behind ``?``.
    """

    kind: Kind
    name: str
    parts: tuple[Destination, ...] = ()
    options: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    @property
    def composite(self) -> bool:
        """Whether it stands for several, or with nothing but commas for none."""
        return COMPOSITE in self.name

    @property
    def paths(self) -> list[str]:
        """The name's words."""
        return self.name.split(SEPARATOR)

    @property
    def pattern(self) -> bool:
        """Whether the broker takes it for a pattern: a wildcard character anywhere, but no composite."""
        return not self.composite and (ANY_CHILD in self.name or ANY_DESCENDANT in self.name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_destination(text: str) -> Destination:
    """A destination as people write it, with or without its kind in front.

    Raises:
        DestinationError: the name is empty.
    """
    for kind in Kind:
        if text.startswith(f"{kind}:"):
            return named(kind, text[len(kind) + 1 :])
    return named(Kind.QUEUE, text)


def without_kind(text: str) -> str:
    """A destination as people write it, without its kind."""
    return with_kind(text).partition(":")[2]


def with_kind(text: str) -> str:
    """A destination as people write it, with its kind."""
    return text if any(text.startswith(f"{kind}:") for kind in Kind) else f"{Kind.QUEUE}:{text}"


def named(kind: Kind, text: str) -> Destination:
    """A destination of a kind from its name, which may be composite and have options.

    Raises:
        DestinationError: the name is empty, or an option is broken.

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
        raise DestinationError(text, "has an option with % before what are no two hexadecimal digits")
    return Destination(kind, name, parts, decoded_query(options) if question else {})


def _part(default: Kind, text: str) -> Destination:
    """One part of a composite; ``topic://X`` in it chooses another kind."""
    for kind in Kind:
        if text.startswith(f"{kind}://"):
            return named(kind, text[len(kind) + 3 :])
    return named(default, text)
