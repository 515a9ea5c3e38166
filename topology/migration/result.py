"""What an import came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from topology.errors import TopologyError


class MigrationError(TopologyError):
    """The broker's configuration cannot be imported: it is no such file, or the broker itself refuses it.

    Raised by the importers; ``place`` tells where (``file:line``), ``problem`` what.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


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

    ``dialect`` is ``activemq`` or ``artemis``; ``section`` is what stands below that name.
    ``destinations`` are those the file itself names, as people write them.
    """

    name: str
    dialect: str
    section: dict[str, Any] = field(default_factory=dict)
    destinations: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, line: int | None, text: str) -> None:
        """Add a note about a line of the source."""
        self.notes.append(Note(place(self.name, line), text))

    def names(self, destinations: Iterable[str]) -> None:
        """Add destinations, each once."""
        for destination in destinations:
            if destination not in self.destinations:
                self.destinations.append(destination)


def place(name: str, line: int | None) -> str:
    """Where something stands."""
    return name if line is None else f"{name}:{line}"
