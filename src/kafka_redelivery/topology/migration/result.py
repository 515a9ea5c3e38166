"""The result of an import: our configuration as plain data, with notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import TopologyError

_MAX_CHARACTERS = 1500
"""The length of the longest message; text that an untrusted file repeats in it may have millions of characters."""


class MigrationError(TopologyError):
    """A broker's configuration cannot be imported.

    Raised by the importers if the source is not a broker's configuration, or if the broker itself refuses it.
    ``location`` is ``file`` or ``file:line``.
    """

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, name: str, problem: str, line: int | None = None) -> None:
        self.location = shortened(_location(name, line))
        self.problem = shortened(problem)
        super().__init__(f"{self.location}: {self.problem}")

    def adding(self, text: str) -> MigrationError:
        """Return the same error with more text."""
        name, _, line = self.location.rpartition(":")
        known = bool(name) and line.isdigit()
        return MigrationError(name if known else self.location, self.problem + text, int(line) if known else None)


def shortened(text: str) -> str:
    """Return the text on one line, cut after a number of characters."""
    line = " ".join(text[: 2 * _MAX_CHARACTERS].split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}..."


@dataclass(frozen=True, slots=True)
class Note:
    """A note about something that is not carried over, or that the broker would not accept or do."""

    location: str
    text: str

    def __str__(self) -> str:
        return f"{self.location}: {self.text}"


@dataclass(slots=True)
class Imported:
    """Our configuration as plain data, and notes about what differs.

    Attributes:
        name: the name of the source, for messages.
        dialect: ``activemq`` or ``artemis``.
        section: the settings of the section with the dialect's name.
        handler: the settings of ``handler``; ``callable`` is missing, because no broker knows the function.
        top_level: other settings, by their names at the top level of the file.
        destinations: the destinations that the source itself lists.
        stomp: URLs of the source's connectors that speak STOMP, with ``HOST`` for the broker's host, and ``PORT`` for a
            port that is not known.
        notes: what the user should know, in the order of the source.
    """

    name: str
    dialect: str
    section: dict[str, Any] = field(default_factory=dict)
    handler: dict[str, Any] = field(default_factory=dict)
    top_level: dict[str, Any] = field(default_factory=dict)
    destinations: list[str] = field(default_factory=list)
    stomp: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def note(self, line: int | None, text: str) -> None:
        """Add a note about a line of the source."""
        self.notes.append(Note(_location(self.name, line), shortened(text)))

    def add_stomp(self, port: str | None, *, tls: bool) -> None:
        """Add a connector that speaks STOMP; its port is empty or ``None`` if a placeholder has no value."""
        self.stomp.append(f"stomp{'+ssl' if tls else ''}://HOST:{port or 'PORT'}")

    def add_destinations(self, destinations: Iterable[str]) -> None:
        """Add destinations, each of them once."""
        for destination in destinations:
            if destination not in self._known:
                self._known.add(destination)
                self.destinations.append(destination)


def _location(name: str, line: int | None) -> str:
    return name if line is None else f"{name}:{line}"
