"""What operators want done with records that wait in tiers: records of the control topic.

A copy that another process made would be a second delivery, so the scheduler that owns the partition of the tier does
it: the copy, the finished offset and the record that says so are one transaction.

=================================  ====================================  ===================================
key                                fields of the value                   written by
=================================  ====================================  ===================================
``waiting/{id}/{topic}/{n}``       ``action``; ``offsets``: the first    ``redelivery waiting``, the console;
                                   one, then each as its distance from   a tombstone by who sees that it has
                                   the one before; or ``below``: all     ended, by ``redelivery waiting
                                   records below this offset; ``dueMs``  cancel``, and by any process an hour
                                   of a delay; ``untilMs``: when it      after its end
                                   ends undone; ``by``; ``note``;
                                   ``topicMark``
``waiting/{id}/{topic}/{n}/done``  ``done``: how many records this step  the owner of the partition, in the
                                   has dealt with; ``refused``: how      transaction of the step; a tombstone
                                   many of the request can not be dealt  with that of the request
                                   with, by reason; ``left``, ``why``:
                                   how many wait for what; ``ended``
=================================  ====================================  ===================================

From feature level :data:`ACTION_LEVEL` of the group on: an older scheduler would not do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.printable import LATEST_MS
from kafka_redelivery.topology.wire.control import ControlRecord, control_record, fields_of, whole

ACTION_LEVEL: Final = 4
"""The feature level from which on schedulers act on waiting records."""

MOST_OFFSETS: Final = 10_000
"""Offsets of one partition in a request at most: far more than the metadata of a commit has space for at once."""

_TEXT: Final = 500


class WaitingAction(StrEnum):
    """What to do with records that wait."""

    DELIVER_NOW = "deliver-now"
    """Let them go to their ready topic, although they are not due."""

    DEAD_LETTER = "dead-letter"
    DELAY = "delay"
    """Give them another due time, earlier or later. The number of their deliveries stays."""


class RequestKey(NamedTuple):
    """One request about one partition of a tier."""

    id: str
    topic: str
    number: int

    def __str__(self) -> str:
        return f"waiting/{self.id}/{self.topic}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """What an operator wants done with records of one partition of a tier."""

    key: RequestKey
    action: WaitingAction
    offsets: tuple[int, ...] = ()
    """Of the records, ascending."""

    below: int | None = None
    """All records below this offset, instead."""

    due_ms: int | None = None
    """The new due time of a delay (epoch ms)."""

    until_ms: int
    """From when on it is not carried out any more (epoch ms)."""

    by: str
    note: str = ""
    mark: str = ""
    """Of the tier's topic; empty if it is not known."""

    at_ms: int = 0
    """When it was written (epoch ms)."""

    place: int = -1
    """Its offset in the control topic; -1 = it is not written yet. Requests are carried out in this order."""


@dataclass(frozen=True, slots=True)
class WaitingDone:
    """How far a request is, as the owners of the partition have said."""

    done: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    why: str = ""
    """What the records that are left wait for."""

    ended: bool = False
    at_ms: int = 0
    """When the last step was written (epoch ms)."""

    def after(self, step: WaitingDone) -> WaitingDone:
        """Return the sum with the next step. Only the numbers of records that are dealt with add up."""
        return WaitingDone(self.done + step.done, step.refused, step.left, step.why, step.ended, step.at_ms)


def request_record(request: WaitingRequest, now_ms: int) -> ControlRecord:
    """Return the record of a request."""
    fields: dict[str, object] = {
        "action": request.action,
        "by": request.by[:_TEXT],
        "note": request.note[:_TEXT],
        "untilMs": request.until_ms,
    }
    if request.below is not None:
        fields["below"] = request.below
    else:
        fields["offsets"] = [*request.offsets[:1], *(later - before for before, later in pairwise(request.offsets))]
    if request.due_ms is not None:
        fields["dueMs"] = request.due_ms
    if request.mark:
        fields["topicMark"] = request.mark
    return control_record(str(request.key), now_ms, **fields)


def done_record(key: RequestKey, step: WaitingDone, now_ms: int) -> ControlRecord:
    """Return the record of a step."""
    refused = {reason[:_TEXT]: number for reason, number in step.refused.items()}
    return control_record(
        f"{key}/done", now_ms, done=step.done, refused=refused, left=step.left, why=step.why, ended=step.ended
    )


def withdrawn_requests(keys: Iterable[RequestKey]) -> list[ControlRecord]:
    """Return the tombstones of requests and of what was done about them."""
    return [ControlRecord(f"{key}{of}".encode(), None) for key in keys for of in ("", "/done")]


def read_request(key: RequestKey, value: bytes | None, place: int) -> WaitingRequest | None:
    """Read the value of a request; ``None`` if it is withdrawn.

    Raises:
        ValueError, TypeError, LookupError: this project has not written it.
    """
    if value is None:
        return None
    fields = fields_of(value)
    until_ms = whole(fields["untilMs"], most=LATEST_MS)
    below, due, gaps = fields.get("below"), fields.get("dueMs"), fields.get("offsets", ())
    if len(gaps) > MOST_OFFSETS:
        raise ValueError(f"{len(gaps)} offsets, and this project writes {MOST_OFFSETS} at most")
    offsets = tuple(accumulate(whole(gap, least=min(at, 1)) for at, gap in enumerate(gaps)))
    request = WaitingRequest(
        key=key,
        action=WaitingAction(fields["action"]),
        offsets=tuple(map(whole, offsets)),
        below=None if below is None else whole(below, most=LONG_MAX),
        due_ms=None if due is None else whole(due, most=LATEST_MS),
        until_ms=until_ms,
        by=str(fields["by"])[:_TEXT],
        note=str(fields["note"])[:_TEXT],
        mark=str(fields.get("topicMark", "")),
        at_ms=whole(fields["firstSeenMs"], most=LATEST_MS),
        place=place,
    )
    if (request.due_ms is None) == (request.action is WaitingAction.DELAY):
        raise ValueError("a delay has a due time, and nothing else has one")
    return request


def read_done(value: bytes | None) -> WaitingDone | None:
    """Read the value of a step; ``None`` if it is withdrawn; raises as :func:`read_request`."""
    if value is None:
        return None
    fields = fields_of(value)
    return WaitingDone(
        whole(fields["done"]),
        {str(reason)[:_TEXT]: whole(number) for reason, number in dict(fields["refused"]).items()},
        whole(fields["left"]),
        str(fields["why"])[:_TEXT],
        bool(fields["ended"]),
        whole(fields["firstSeenMs"], most=LATEST_MS),
    )
