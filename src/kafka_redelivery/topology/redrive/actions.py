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
record. Nothing signs these records. So an outcome counts only for a letter that was sent, and what was sent only if the
records of the slice account for each of its letters. A record of a slice that cannot be read leaves all its letters in
doubt: they may have been sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.java.numbers import INT_MAX
from kafka_redelivery.topology.policy.decision import DeadLetter, Decision, Discard, Reason
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord, fields_of, reading, stored_record
from kafka_redelivery.topology.wire.control import whole
from kafka_redelivery.topology.wire.headers import RedriveMark

_REASON_BYTES: Final = 1_500
"""Size of a reason in a record: a chunk of refused letters fits into a record of 1 MB, the default limit of Kafka."""


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
class ChunkProgress:
    """What one transaction of a slice says about its letters."""

    through: int
    sent: int = 0
    gone: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    set_aside: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    end: End | None = None


class Ended(NamedTuple):
    """What became of the record of a letter that was sent."""

    offset: int
    outcome: Outcome


class Doubt(NamedTuple):
    """A record that cannot be read, and may have said that letters were sent."""


class Action(NamedTuple):
    """A record of a slice of a job; ``None`` of a type that this version does not know."""

    job: str
    slice: int
    what: ChunkProgress | Ended | Doubt | None
    at_ms: int = 0
    """When it was written (epoch ms); 0 = not known."""


@dataclass(slots=True)
class SliceProgress:
    """How far a slice has come."""

    through: int = -1
    sent: int = 0
    chunks: dict[int, int] = field(default_factory=dict)
    """How many letters each chunk has sent, by its ``through``, so that one that is read twice counts once."""

    gone: set[int] = field(default_factory=set)
    parked: set[int] = field(default_factory=set)
    set_aside: set[int] = field(default_factory=set)
    """By a job that discards; the outcome ``discarded`` is that of a record that was sent."""

    refused: dict[int, str] = field(default_factory=dict)
    end: End | None = None
    in_doubt: bool = False
    """Whether there is a record of the slice that cannot be read."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    """What is said to have become of letters, by offset; :meth:`known` says for which of them it counts."""

    @property
    def dealt(self) -> int:
        """Number of letters that were sent, or dealt with otherwise."""
        return self.sent + len(self.gone) + len(self.parked) + len(self.set_aside) + len(self.refused)

    @property
    def unsent(self) -> set[int]:
        """The letters that were dealt with and not sent."""
        return set().union(self.gone, self.parked, self.set_aside, self.refused)

    def known(self, owned: OffsetSet) -> dict[int, Outcome]:
        """Return what became of the letters that were sent; nothing if the records do not add up."""
        if not self.outcomes or not self.adds_up(owned):
            return {}
        unsent = self.unsent
        return {
            offset: outcome
            for offset, outcome in self.outcomes.items()
            if offset <= self.through and offset in owned and offset not in unsent
        }

    def adds_up(self, owned: OffsetSet) -> bool:
        """Whether the records account for each letter that they deal with: it was sent, or they name it.

        Otherwise another program or person has written some of them, or one cannot be read.
        """
        if self.in_doubt:
            return False
        unsent = sum(each <= self.through and each in owned for each in self.unsent)
        return self.sent + unsent == owned.count_up_to(self.through)

    def contradictory(self, owned: OffsetSet) -> int:
        """Return how many letters may have been sent or not."""
        if self.adds_up(owned):
            return 0
        return len(owned) if self.in_doubt else owned.count_up_to(self.through)


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


def progress_record(job: str, number: int, chunk: ChunkProgress, at_ms: int) -> StoredRecord:
    """Return the record of a chunk of slice ``number``."""
    return stored_record(
        f"{job}/{number}",
        "progress",
        through=chunk.through,
        sent=chunk.sent,
        gone=list(chunk.gone),
        parked=list(chunk.parked),
        discarded=list(chunk.set_aside),
        refused=[[offset, _cut(reason)] for offset, reason in chunk.refused.items()],
        end=chunk.end,
        atMs=at_ms,
    )


def outcome_record(mark: RedriveMark, outcome: Outcome, at_ms: int) -> StoredRecord:
    """Return the record of what became of a record with this mark."""
    key = f"{mark.job}/{mark.slice}"
    return stored_record(key, "outcome", offset=mark.offset, number=mark.number, outcome=outcome, atMs=at_ms)


def read_action(key: bytes | None, value: bytes | None) -> Action | None:
    """Read a record; ``None`` if another program wrote it.

    Raises:
        RedriveRecordError: it has another version, or cannot be read.
    """
    record = fields_of(value)
    if record is None:
        return None
    with reading(key, record) as name:
        job, _, number = name.partition("/")
        match record["type"]:
            case "progress":
                return Action(job, _slice(number), _chunk(record), _time(record))
            case "outcome":
                ended = Ended(whole(record["offset"]), Outcome(record["outcome"]))
                return Action(job, _slice(number), ended, _time(record))
            case _:
                return Action(job, -1, None)


def doubt_of(key: bytes | None, value: bytes | None) -> Action | None:
    """Return what a record that cannot be read leaves in doubt: the slice that its key names.

    ``None`` if it names none, or the record is an outcome: without it the outcome of one letter is not known.
    """
    job, _, digits = (key or b"").decode(errors="replace").partition("/")
    if (fields_of(value) or {}).get("type") == "outcome":
        return None
    try:
        return Action(job, _slice(digits), Doubt())
    except ValueError:
        return None


class ActionLog:
    """The progress of all slices. Records of different partitions may be added in any order."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, int], SliceProgress] = {}

    def slice(self, job: str, number: int) -> SliceProgress:
        """Return the progress of a slice, also of one that has not begun."""
        return self._slices.setdefault((job, number), SliceProgress())

    def add(self, key: bytes | None, value: bytes | None) -> bool:
        """Add the next record of a partition.

        Returns:
            whether it is a record of this project. Others are left out.

        Raises:
            RedriveRecordError: it has another version, or cannot be read. Other records may still be added.
        """
        try:
            action = read_action(key, value)
        except RedriveRecordError:
            doubt = doubt_of(key, value)
            if doubt is not None:
                self.slice(doubt.job, doubt.slice).in_doubt = True
            raise
        if action is None:
            return False
        match action.what:
            case ChunkProgress():
                self._add_chunk(self.slice(action.job, action.slice), action.what)
            case Ended(offset, outcome):
                self.slice(action.job, action.slice).outcomes[offset] = outcome
            case _:
                pass
        return True

    @staticmethod
    def _add_chunk(found: SliceProgress, chunk: ChunkProgress) -> None:
        found.through = max(found.through, chunk.through)
        before = found.chunks.get(chunk.through, 0)
        found.chunks[chunk.through] = max(before, chunk.sent)
        found.sent += max(0, chunk.sent - before)
        found.gone.update(chunk.gone)
        found.parked.update(chunk.parked)
        found.set_aside.update(chunk.set_aside)
        found.refused.update(chunk.refused)
        found.end = chunk.end or found.end


def _cut(reason: str) -> str:
    """Return a reason that fits: a letter can have a header of a megabyte, and a character takes up to twelve bytes."""
    reason = reason[:_REASON_BYTES]
    while (excess := len(json.dumps(reason)) - _REASON_BYTES) > 0:
        reason = reason[: -((excess + 11) // 12)]
    return reason


def _slice(digits: str) -> int:
    return whole(int(digits), most=INT_MAX)


def _time(record: Mapping[str, Any]) -> int:
    """Return the time of a record. One that is wrong takes nothing from what the record says."""
    try:
        return whole(record.get("atMs", 0), most=LATEST_MS)
    except ValueError:
        return 0


def _chunk(record: Mapping[str, Any]) -> ChunkProgress:
    return ChunkProgress(
        through=whole(record["through"], least=-1),
        sent=whole(record["sent"]),
        gone=tuple(map(whole, record["gone"])),
        parked=tuple(map(whole, record["parked"])),
        set_aside=tuple(map(whole, record.get("discarded", ()))),
        refused={whole(offset): str(reason) for offset, reason in record["refused"]},
        end=None if record["end"] is None else End(record["end"]),
    )
