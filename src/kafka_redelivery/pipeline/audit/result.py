"""The result of an audit as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kafka_redelivery.pipeline.audit.snapshot import RemovedRange, Snapshot, TopicKind
from kafka_redelivery.transport.protocols import Partition

REASONS: Final[Mapping[str, str]] = {
    "no_outcome": "it was read, but the journal has no outcome for it and it has no copy",
    "left_its_tier": "it was read from its tier, but is neither in a ready topic nor a dead letter",
    "letter_gone": "the journal says dead-lettered, but its dead letter was removed before it could expire",
    "ended_twice": "the journal has more than one final outcome for it",
    "two_letters": "it has more than one dead letter",
    "two_copies": "more than one of its copies had the same number of deliveries",
    "two_places": "it has more than one of the states unread, waiting, dead letter and done",
    "no_source": "it has copies, but the source has no such record",
}
"""The meaning of each value of ``why`` in a finding."""


@dataclass(frozen=True, slots=True)
class RecordCopy:
    """One copy of a source record: a retry record, a record in a ready topic, or a dead letter."""

    topic: str
    partition: int
    offset: int
    kind: str
    """``tier``, ``ready`` or ``letter``."""

    deliveries: int
    """The number of deliveries; -1 = the header cannot be parsed."""

    read: bool
    """Whether its reader has finished it; no reader consumes dead letters."""

    def __str__(self) -> str:
        """Return the location, kind and state."""
        state = "" if self.kind == "letter" else ", read" if self.read else ", waits"
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
    """The number of journal entries by outcome."""

    copies: tuple[RecordCopy, ...]
    """Its copies, read or waiting; at most the twenty newest."""

    @property
    def message_id(self) -> str:
        """``topic-partition@offset``."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"state": self.state, "record": self.message_id, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """Numbers of records of one source partition by state."""

    topic: str
    partition: int
    first: int
    end: int
    """Exclusive."""

    states: Mapping[str, int]
    waiting: Mapping[str, int]
    """Numbers of pending records by the kind of place where they wait."""

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
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
    """The result of an audit."""

    snapshot: Snapshot
    partitions: tuple[PartitionCounts, ...]
    findings: tuple[Finding, ...]
    """The first findings, at most as many as were requested."""

    created_again: tuple[str, ...]
    """Topics that were deleted and created again, as the journal or a commit of an older topic shows."""

    unattributed: Mapping[str, int]
    """Numbers of records whose origin is not a record of the sources, by topic."""

    notes: tuple[str, ...]
    """Limits of the result, one sentence each."""

    def count(self, state: str) -> int:
        """Return the number of source records in a state."""
        return sum(part.states.get(state, 0) for part in self.partitions)

    @property
    def lost_unread(self) -> tuple[RemovedRange, ...]:
        """The removed ranges for which no other evidence shows whether records are missing."""
        sources = {part.topic for part in self.partitions}
        removed = self.snapshot.removed
        return tuple(each for each in removed if not self.snapshot.journal or each.partition.topic in sources)

    @property
    def conserved(self) -> bool:
        """Whether no record is known to be missing or doubled, and no topic to have gone with its records."""
        return not (self.count("missing") or self.count("doubled") or self.lost_unread or self.created_again)

    def document(self, output: str | None = None) -> dict[str, Any]:
        """Return the JSON document. ``output``: the file with all findings."""
        states = {name for part in self.partitions for name in part.states}
        return {
            "ok": self.conserved,
            "group": self.snapshot.group,
            "taken_at": datetime.fromtimestamp(self.snapshot.taken_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "journal": self.snapshot.journal,
            "records": sum(sum(part.states.values()) for part in self.partitions),
            "states": {name: self.count(name) for name in sorted(states)},
            "partitions": [part.document() for part in self.partitions],
            "findings": [finding.document() for finding in self.findings],
            "output": output,
            "removed_unread": [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.number,
                    "from": each.first,
                    "to": each.end,
                    "group": each.reader,
                }
                for each in self.snapshot.removed
            ],
            "created_again": list(self.created_again),
            "unattributed": dict(self.unattributed),
            "notes": list(self.notes),
        }


def notes(
    snapshot: Snapshot,
    partitions: Sequence[PartitionCounts],
    begins: Mapping[Partition, int],
    unattributed: Mapping[str, int],
) -> Iterator[str]:
    """Return the limits of a result, one sentence each.

    Args:
        snapshot: the positions.
        partitions: the counts.
        begins: the first offset of each source partition that the journal covers; partitions without entries are
            missing.
        unattributed: number of records without an origin, by topic.
    """
    yield from _journal_notes(snapshot, partitions, begins)
    for source in snapshot.sources:
        if source.partition not in snapshot.progress:
            yield f"The group has committed nothing in {source.partition}: none of it has been read yet."
    for partition in snapshot.damaged:
        yield f"The commit in {partition} has metadata that cannot be decoded: only its offset counts."
    if snapshot.removed:
        yield (
            "Offsets that were removed before they were read may include transaction markers: the number is an upper "
            "bound of the missing records."
        )
    if unattributed:
        yield "Some records in the group's topics have no readable origin: their source records are unknown."


def _journal_notes(
    snapshot: Snapshot, partitions: Sequence[PartitionCounts], begins: Mapping[Partition, int]
) -> Iterator[str]:
    if snapshot.journal:
        for counts in partitions:
            partition, number = Partition(counts.topic, counts.partition), counts.states["untraced"]
            if number:
                covered = f"starts at offset {begins[partition]}" if partition in begins else "has no entry"
                yield (
                    f"The journal {covered} of {partition}: {number} records without a trace were handled "
                    "before it was on, or dropped by a scheduler, or are lost."
                )
        return
    yield (
        "The journal is not used: if a record was read and left no copy, the audit cannot tell whether it was acked or "
        "lost."
    )
    letters = [str(span.partition) for span in snapshot.spans[TopicKind.LETTER] if span.start > 0]
    if letters:
        yield f"Dead letters have been removed from {', '.join(letters)}: their records have left no trace either."
    if snapshot.discarding:
        dropping = ", ".join(sorted(snapshot.discarding))
        yield f"The policy of {dropping} discards dead letters: their records have left no trace either."
