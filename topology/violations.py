"""A broken rule, by the path of what breaks it."""

from __future__ import annotations

from dataclasses import dataclass

from topology.faults import Path


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault that needs more than one field, or knowledge of Kafka, to be found.

    ``involves`` are the other values the rule looked at: where one of them is a stand-in for a value
    that could not be read, the violation says nothing.
    """

    path: Path
    problem: str
    mend: str
    involves: tuple[Path, ...] = ()
    key: bool = False
    """Whether the name at the path is at fault, and not its value."""
