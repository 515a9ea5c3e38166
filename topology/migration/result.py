"""What an import came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from topology.errors import TopologyError

_MOST_TOLD = 500
"""Characters of a message; what a hostile file repeats in it may have millions."""


class MigrationError(TopologyError):
    """The broker's configuration cannot be imported: it is no such file, or the broker itself refuses it.

    Raised by the importers; ``place`` tells where (``file:line``), ``problem`` what.
    """

    def __init__(self, place: str, problem: str) -> None:
        self.place = shortened(place)
        self.problem = shortened(problem)
        super().__init__(f"{self.place}: {self.problem}")


def shortened(text: str) -> str:
    """A text on one line of bounded length, whatever the source holds."""
    line = " ".join(text[: 2 * _MOST_TOLD].split())
    return line if len(line) <= _MOST_TOLD else f"{line[:_MOST_TOLD]}..."


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the importer did not carry over, or that the broker would not have done so."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(slots=True)
class Imported:
    """Our configuration as plain data, and what else is to be said.

    ``dialect`` is ``activemq`` or ``artemis``; ``section`` is what stands below that name, ``handler`` what stands
    below ``handler``: all but the function itself, which no broker knows. ``whole`` holds settings that stand beside
    these, at the top of the file.
    ``destinations`` are those the file itself names, as people write them.
    """

    name: str
    dialect: str
    section: dict[str, Any] = field(default_factory=dict)
    handler: dict[str, Any] = field(default_factory=dict)
    whole: dict[str, Any] = field(default_factory=dict)
    destinations: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def note(self, line: int | None, text: str) -> None:
        """Add a note about a line of the source."""
        self.notes.append(Note(place(self.name, line), shortened(text)))

    def names(self, destinations: Iterable[str]) -> None:
        """Add destinations, each once."""
        for destination in destinations:
            if destination not in self._known:
                self._known.add(destination)
                self.destinations.append(destination)


def place(name: str, line: int | None) -> str:
    """Where something stands."""
    return name if line is None else f"{name}:{line}"
