"""The records of ``{group}.dlq.actions``: how far a slice has come, and what became of the records that it sent.

A slice writes to the partition of its number, modulo the partitions of the topic, and so do those who end a record that
it sent. The key is ``job/slice``; a value is JSON with ``version`` and ``type``.

============  ==============================================================================
type          fields
============  ==============================================================================
``progress``  ``through``: all letters of the slice up to this offset are dealt with;
              ``sent``: how many of this chunk were sent; ``gone``, ``parked`` and
              ``discarded`` (by a person): offsets;
              ``refused``: offsets, each with a reason; ``end``: ``done`` or ``cancelled``,
              or ``null`` while letters are left; ``atMs``
``outcome``   ``offset``, ``number``: of the mark of the record; ``outcome``; ``atMs``
============  ==============================================================================

``progress`` is written in the transaction that sends the letters of a chunk, ``outcome`` in the one that commits the
record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_redelivery.topology.policy.decision import DeadLetter, Decision, Discard, Reason
from kafka_redelivery.topology.redrive.job import VERSION, StoredRecord, fields_of, reading
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark


class Outcome(StrEnum):
    """What became of a record that was sent again."""

    RECOVERED = "recovered"
    DEAD_AGAIN = "dead_again"
    DISCARDED = "discarded"
    EXPIRED = "expired"


class End(StrEnum):
    """How a slice has ended."""

    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one transaction of a slice says about its letters."""

    through: int
    sent: int = 0
    gone: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    discarded: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    end: End | None = None


@dataclass(slots=True)
class SliceProgress:
    """How far a slice has come."""

    through: int = -1
    sent: int = 0
    gone: set[int] = field(default_factory=set)
    parked: set[int] = field(default_factory=set)
    discarded: set[int] = field(default_factory=set)
    """Set aside by a job that discards."""

    refused: dict[int, str] = field(default_factory=dict)
    end: End | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    """What became of the sent letters, by offset, as far as it is known."""

    @property
    def unsent(self) -> int:
        """Number of letters that were dealt with and not sent."""
        return len(self.gone) + len(self.parked) + len(self.discarded) + len(self.refused)


def outcome_of(decision: Decision | None) -> Outcome | None:
    """Return what a decision makes of a record; ``None`` while it is not ended. No decision: it succeeded."""
    match decision:
        case None:
            return Outcome.RECOVERED
        case DeadLetter(reason=reason) | Discard(reason=reason) if reason is Reason.EXPIRED:
            return Outcome.EXPIRED
        case DeadLetter():
            return Outcome.DEAD_AGAIN
        case Discard():
            return Outcome.DISCARDED
        case _:
            return None


def progress_record(job: str, number: int, chunk: Chunk, at_ms: int) -> StoredRecord:
    """Return the record of a chunk of slice ``number``."""
    return _record(
        job,
        number,
        "progress",
        through=chunk.through,
        sent=chunk.sent,
        gone=list(chunk.gone),
        parked=list(chunk.parked),
        discarded=list(chunk.discarded),
        refused=[[offset, reason] for offset, reason in chunk.refused.items()],
        end=chunk.end,
        atMs=at_ms,
    )


def outcome_record(mark: RedriveMark, outcome: Outcome, at_ms: int) -> StoredRecord:
    """Return the record of what became of a record with this mark."""
    return _record(mark.job, mark.slice, "outcome", offset=mark.offset, number=mark.number, outcome=outcome, atMs=at_ms)


class ActionLog:
    """The progress of all slices. Records of different partitions may be added in any order."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, int], SliceProgress] = {}

    def slice(self, job: str, number: int) -> SliceProgress:
        """Return the progress of a slice, also of one that has not begun."""
        return self._slices.setdefault((job, number), SliceProgress())

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add the next record of a partition.

        Raises:
            RedriveRecordError: another program, or a newer version, has written it.
        """
        with reading(key):
            job, _, number = (key or b"").decode().partition("/")
            record = fields_of(value)
            found = self.slice(job, int(number))
            if record["type"] == "progress":
                through = int(record["through"])
                if through > found.through:  # a record that is read twice counts once
                    found.through = through
                    found.sent += int(record["sent"])
                found.gone.update(record["gone"])
                found.parked.update(record["parked"])
                found.discarded.update(record.get("discarded", ()))
                found.refused.update({int(offset): str(reason) for offset, reason in record["refused"]})
                found.end = found.end if record["end"] is None else End(record["end"])
            elif record["type"] == "outcome":
                found.outcomes[int(record["offset"])] = Outcome(record["outcome"])


def _record(job: str, slice_number: int, kind: str, **values: object) -> StoredRecord:
    value = {"version": VERSION, "type": kind, **values}
    return StoredRecord(f"{job}/{slice_number}".encode(), json.dumps(value, separators=(",", ":")).encode())
