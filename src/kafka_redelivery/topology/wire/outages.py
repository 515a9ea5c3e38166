"""Outages of what handlers depend on: records of the control topic.

An outage is each worker's own: a worker opens and closes it for itself, since it may be cut off alone. What it writes
here tells a worker that joins to begin with one record, and the others that a try is worth it.

============================  ==================================  ======================================
key                           fields of the value                 written by
============================  ==================================  ======================================
``outage/{dependency}``       ``opening``: the id of the opening  a worker that opens or closes it, once a
                              that this begins or ends;           minute while it is open
                              ``state``: ``open`` or ``closed``;
                              ``by``: the worker, or who ran the
                              command;
                              ``sinceMs``: when it opened;
                              ``untilMs``: how long that holds
                              (epoch ms), or null: until it is
                              closed
``outage/{dependency}/``      the same                            ``redelivery outage``, the console
``operator``
``probe/{dependency}``        ``holder``: the worker that asks    that worker, before each call of the
                              whether it is back;                 probe
                              ``untilMs``: how long no other
                              worker does
============================  ==================================  ======================================
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.control import ControlRecord, control_record, fields_of, whole

_DAMAGED: Final = (ValueError, TypeError, LookupError, RecursionError)
"""What is raised by the value of a record that this project has not written."""


class OutageState(StrEnum):
    """Whether a record of an outage begins or ends it."""

    OPEN = "open"
    CLOSED = "closed"


class OutageNote(NamedTuple):
    """The newest opening or closing of a dependency's outage in the control topic."""

    opening: str
    """The id of the opening that this begins or ends."""

    state: OutageState
    by: str
    """The instance name of the worker, or the operator."""

    since_ms: int
    """When that opening was (epoch ms)."""

    until_ms: int | None
    """How long it holds unless it is written again (epoch ms); ``None`` = until it is closed."""

    operator: bool = False
    """Whether an operator has decided it. Then its record has another key, so that no worker replaces it."""

    offset: int = -1
    """Of the record in the control topic; -1 before it is written."""

    def is_open(self, now_ms: int, decided: OutageNote | None = None) -> bool:
        """Whether the outage is open.

        Args:
            now_ms: epoch ms. An opening that no worker has written again holds no longer: its worker is gone.
            decided: what an operator has decided last; a closing ends the openings before it.
        """
        closed = decided is not None and decided.state is OutageState.CLOSED and decided.offset > self.offset
        return self.state is OutageState.OPEN and not closed and (self.until_ms is None or now_ms < self.until_ms)


class ProbeLease(NamedTuple):
    """Who may call the probe of a dependency."""

    holder: str
    until_ms: int
    """How long no other worker calls it (epoch ms)."""


def outage_record(dependency: str, note: OutageNote, now_ms: int) -> ControlRecord:
    """Return the record of an opening or a closing."""
    return control_record(
        f"outage/{dependency}{'/operator' if note.operator else ''}",
        now_ms,
        opening=note.opening,
        state=note.state,
        by=note.by,
        sinceMs=note.since_ms,
        untilMs=note.until_ms,
    )


def probe_record(dependency: str, lease: ProbeLease, now_ms: int) -> ControlRecord:
    """Return the record of a lease."""
    return control_record(f"probe/{dependency}", now_ms, holder=lease.holder, untilMs=lease.until_ms)


def read_outage(value: bytes | None, offset: int, *, operator: bool = False) -> OutageNote | None:
    """Read the value of an outage's record; ``None`` if it is withdrawn, or damaged: each worker decides for itself."""
    if value is None:
        return None
    try:
        fields = fields_of(value)
        until = fields["untilMs"]
        return OutageNote(
            str(fields["opening"]),
            OutageState(fields["state"]),
            str(fields["by"]),
            whole(fields["sinceMs"], most=LATEST_MS),
            None if until is None else whole(until, most=LATEST_MS),
            operator,
            offset,
        )
    except _DAMAGED:
        return None


def read_lease(value: bytes | None) -> ProbeLease | None:
    """Read the value of a lease's record; ``None`` if it is withdrawn, or damaged: anybody may call the probe."""
    if value is None:
        return None
    try:
        fields = fields_of(value)
        return ProbeLease(str(fields["holder"]), whole(fields["untilMs"], most=LATEST_MS))
    except _DAMAGED:
        return None
