"""What an audit has found, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.audit_snapshot import Removed

REASONS: Final[Mapping[str, str]] = {
    "no_outcome": "it was read, but the journal tells no outcome of it, and it is nowhere",
    "left_its_tier": "it was read from its tier, but is neither ready nor a dead letter",
    "letter_gone": "the journal says dead-lettered, but its dead letter is gone before its time",
    "ended_twice": "the journal tells more than one end of it",
    "two_letters": "it has more than one dead letter",
    "two_copies": "more than one copy of it was on its way with the same number of deliveries",
    "two_places": "it is in more than one place: unread, waiting, a dead letter, done",
    "no_source": "there are copies of it, but no such record in the source",
}
"""What the ``why`` of a finding means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One copy of a record in our topics."""

    topic: str
    partition: int
    offset: int
    kind: str
    """``tier``, ``ready`` or ``letter``."""

    deliveries: int
    """-1 = its header cannot be read."""

    finished: bool
    """Whether its reader is done with it; a dead letter has none."""

    def __str__(self) -> str:
        """As a person reads it."""
        state = "" if self.kind == "letter" else ", read" if self.finished else ", waits"
        return f"{self.topic}-{self.partition}@{self.offset} ({self.kind}{state})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One source record that is missing or doubled."""

    state: str
    topic: str
    partition: int
    offset: int
    why: str
    """A key of :data:`REASONS`."""

    journal: Mapping[str, int]
    """Outcome -> how often the journal tells it."""

    traces: tuple[Trace, ...]
    """Where its copies are, or were: at most the newest twenty."""

    @property
    def message_id(self) -> str:
        """``topic-partition@offset``."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "state": self.state,
            "record": self.message_id,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "why": self.why,
            "journal": dict(self.journal),
            "copies": [
                {
                    "topic": trace.topic,
                    "partition": trace.partition,
                    "offset": trace.offset,
                    "kind": trace.kind,
                    "deliveries": trace.deliveries,
                    "read": trace.finished,
                }
                for trace in self.traces
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The records of one source partition, counted."""

    topic: str
    partition: int
    first: int
    end: int
    """Exclusive."""

    states: Mapping[str, int]
    waiting: Mapping[str, int]
    """Of the pending ones: where they are."""

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.first,
            "to": self.end,
            **self.states,
            "pending_in": dict(self.waiting),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """One audit."""

    group: str
    taken_ms: int
    journal: bool
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...]
    """The first of them, as many as were asked for."""

    removed: tuple[Removed, ...]
    """What is gone although nobody had read it."""

    unattributed: Mapping[str, int]
    """Topic of ours -> how many records in it name no record of a source of ours."""

    notes: tuple[str, ...]
    """What could not be told, in sentences."""

    def count(self, state: str) -> int:
        """How many source records are in a state."""
        return sum(part.states.get(state, 0) for part in self.parts)

    @property
    def lost_unread(self) -> tuple[Removed, ...]:
        """Of what is gone unread, that of which nothing else can tell whether records are missing."""
        sources = {part.topic for part in self.parts}
        return tuple(each for each in self.removed if not self.journal or each.place.topic in sources)

    @property
    def conserved(self) -> bool:
        """Whether nothing is known to be missing or doubled."""
        return not (self.count("missing") or self.count("doubled") or self.lost_unread)

    def document(self, output: str | None = None) -> dict[str, Any]:
        """As plain data.

        Args:
            output: the file with all findings.
        """
        states = {name for part in self.parts for name in part.states}
        return {
            "ok": self.conserved,
            "group": self.group,
            "taken_at": datetime.fromtimestamp(self.taken_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "journal": self.journal,
            "records": sum(sum(part.states.values()) for part in self.parts),
            "states": {name: self.count(name) for name in sorted(states)},
            "partitions": [part.document() for part in self.parts],
            "findings": [finding.document() for finding in self.findings],
            "output": output,
            "removed_unread": [
                {
                    "topic": each.place.topic,
                    "partition": each.place.number,
                    "from": each.first,
                    "to": each.end,
                    "group": each.reader,
                }
                for each in self.removed
            ],
            "unattributed": dict(self.unattributed),
            "notes": list(self.notes),
        }
