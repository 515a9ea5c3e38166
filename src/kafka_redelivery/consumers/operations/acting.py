"""`redelivery waiting`: lists records that wait in tiers, and asks the owners of the tiers to act on them.

What is asked for is written to the control topic, one request for each partition of a tier. The scheduler that owns the
partition carries it out (:mod:`kafka_redelivery.consumers.scheduler.requests`) and says so there.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations.pausing import control_tail, end_of_pause
from kafka_redelivery.consumers.operations.waiting import (
    Positions,
    Report,
    due_ms,
    known_lineage,
    last_failure,
    led_and_leaderless,
    read_unfinished,
)
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import FailureCause, Headers
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.topology.wire.waiting import (
    ACTION_LEVEL,
    MOST_OFFSETS,
    RequestKey,
    WaitingAction,
    WaitingDone,
    WaitingRequest,
    request_record,
    withdrawn_requests,
)
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.control_topic import ControlTail, append_control
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import no_leader, topic_marks
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.protocols import Message, Partition

_POLL_S: Final = 0.1
_DAY_MS: Final = 24 * 3_600_000
"""How long a request may wait for its owner, or for space. Later it would come as a surprise."""

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that waits in a tier."""

    partition: Partition
    """Of the tier."""

    offset: int
    lineage: Lineage
    key: bytes | None
    due_ms: int
    cause: FailureCause
    """Why it failed the last time; without its text under ``failureDetails: class-only``."""


@dataclass(frozen=True, slots=True)
class WaitingSelection:
    """Which waiting records are meant. Of each field that is not empty, one value has to fit."""

    tiers: tuple[str, ...] = ()
    """Topics."""

    sources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of source records: ``topic-partition@offset``."""

    headers: tuple[tuple[str, str], ...] = ()
    exceptions: tuple[str, ...] = ()
    """Classes."""

    @property
    def whole(self) -> bool:
        """Whether all records of the tiers are meant."""
        return not (self.sources or self.keys or self.ids or self.headers or self.exceptions)

    def matches(self, record: Waiting, headers: Headers) -> bool:
        """Whether a record is meant."""
        return (
            (not self.sources or record.lineage.address in self.sources)
            and (not self.ids or record.lineage.message_id in self.ids)
            and (not self.keys or (record.key is not None and record.key in {each.encode() for each in self.keys}))
            and (not self.headers or any((name, value.encode()) in headers for name, value in self.headers))
            and (not self.exceptions or record.cause.exception in self.exceptions)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of a selection."""

    selection: WaitingSelection
    records: tuple[Waiting, ...]
    """By due time; none if the selection is of whole tiers and they were not read."""

    ranges: Mapping[Partition, tuple[int, int]]
    """The first unfinished offset and the end of each partition that has such."""

    marks: Mapping[str, str]
    """The marks of the tiers' topics."""

    unread: str = ""
    """Which waiting records were not read, so that some that are meant may be missing; empty if none is."""

    def __str__(self) -> str:
        if self.selection.whole:
            most = sum(end - first for first, end in self.ranges.values())
            return f"all records of {', '.join(self.selection.tiers)} (at most {most:,})"
        ids = [each.lineage.message_id for each in self.records]
        more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
        return f"{len(ids):,} {'record' if len(ids) == 1 else 'records'} ({', '.join(ids[:_NAMED])}{more})"


def look(settings: Settings, selection: WaitingSelection, limit: int, report: Report, *, records: bool = True) -> Found:
    """Find waiting records; change nothing.

    Args:
        settings: the configuration.
        selection: which ones.
        limit: how many records to read at most.
        report: gets the progress of reading.
        records: whether to read records at all.

    Raises:
        TransportError: Kafka does not answer, or the user lacks a right of the role ``operator``.
    """
    naming, offsets = settings.naming(), PartitionOffsets(settings.kafka)

    def chosen(counts: Mapping[str, int]) -> list[str]:
        every = [topic for topic in (*naming.tiers_among(counts), naming.mixed_topic()) if topic in counts]
        return [topic for topic in every if not selection.tiers or topic in selection.tiers]

    listed = ClusterAdmin(settings.kafka).led_topics(chosen)
    topics = chosen(listed.partition_counts)
    marks = topic_marks(offsets.calls, topics)
    partitions, leaderless = led_and_leaderless(topics, listed)
    positions = Positions.of(offsets, scheduler_group(settings.group), partitions, marks)
    ranges = positions.ranges()
    number = sum(end - first for first, end in ranges.values())
    unread = no_leader(leaderless, "what waits there is left out")
    if not records:
        return Found(selection, (), ranges, marks, unread)
    found = []
    for message in read_unfinished(settings, positions, limit, report):
        record = _waiting(message, class_only=settings.failure_details.class_only)
        if selection.matches(record, readable_headers(message)):
            found.append(record)
    if number > limit:
        cut = f"only {limit:,} of about {number:,} waiting records were read; raise --limit"
        unread = "; ".join(filter(None, (unread, cut)))
    if selection.ids and {each.lineage.message_id for each in found}.issuperset(selection.ids):
        unread = ""  # no other record has one of these ids
    return Found(selection, tuple(sorted(found, key=lambda each: each.due_ms)), ranges, marks, unread)


def _waiting(message: Message, *, class_only: bool) -> Waiting:
    partition, offset = Partition(message.topic(), message.partition()), message.offset()
    cause = last_failure(message)
    cause = cause._replace(message="") if class_only else cause
    return Waiting(partition, offset, known_lineage(message), message.key(), due_ms(message), cause)


def due_time(text: str, now_ms: int) -> int:
    """Return a due time (epoch ms) that a person wrote: ``2h`` from now, or a time.

    Raises:
        OptionError: it is neither, or is past.
    """
    try:
        return end_of_pause(text, now_ms)
    except OptionError as error:
        raise OptionError("due", str(error)) from None


def requests_for(
    found: Found, action: WaitingAction, new_due_ms: int | None, by: str, note: str, now_ms: int
) -> list[WaitingRequest]:
    """Return the requests for what was found, which have one id.

    Args:
        found: what :func:`look` has found.
        action: what to do.
        new_due_ms: the due time of a delay (epoch ms).
        by: who wants it.
        note: why.
        now_ms: epoch ms.

    Raises:
        OptionError: too many records of one partition are selected.
    """
    offsets: dict[Partition, list[int]] = defaultdict(list)
    for each in found.records:
        offsets[each.partition].append(each.offset)
    for partition, chosen in offsets.items():
        if len(chosen) > MOST_OFFSETS:
            problem = f"{len(chosen):,} records of {partition} are selected, and {MOST_OFFSETS:,} are possible at once"
            raise OptionError("tier", f"{problem}: name whole tiers, or select fewer")
    name, whole = secrets.token_hex(4), found.selection.whole
    return [
        WaitingRequest(
            key=RequestKey(name, *partition),
            action=action,
            offsets=() if whole else tuple(sorted(offsets[partition])),
            below=found.ranges[partition][1] if whole else None,
            due_ms=new_due_ms,
            until_ms=now_ms + _DAY_MS,
            by=by,
            note=note,
            mark=found.marks.get(partition.topic, ""),
            at_ms=now_ms,
        )
        for partition in sorted(found.ranges if whole else offsets)
    ]


@dataclass(frozen=True, slots=True)
class RequestState:
    """A request, and how far it is."""

    request: WaitingRequest
    done: WaitingDone = field(default_factory=WaitingDone)
    cancelled: bool = False

    @property
    def gone(self) -> int | None:
        """How many of its records had left before, when they were due; ``None`` = unknown."""
        if self.request.below is not None or not self.done.ended:
            return None
        return len(self.request.offsets) - self.done.done - sum(self.done.refused.values())

    @property
    def whole(self) -> bool:
        """Whether it has ended, and nothing was refused."""
        return self.done.ended and not self.done.refused

    def __str__(self) -> str:
        request, done = self.request, self.done
        about = f"{request.action} {request.key.id} by {request.by}, {request.key.topic}-{request.key.number}"
        parts = [f"{done.done:,} done"]
        parts += [f"{number:,} refused: {reason}" for reason, number in done.refused.items()]
        if self.gone:
            parts.append(f"{self.gone:,} had left before")
        if self.cancelled:
            parts.append("the rest is cancelled")
        elif not done.ended:
            left = done.left or len(request.offsets)
            most = "at most " if request.below is not None else ""
            wait = f"wait {done.why}".rstrip() if done.at_ms else "wait for the scheduler that owns them"
            parts.append(f"{most}{left:,} {wait}" if left else wait)
        return f"{about}: {', '.join(parts)}"

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        request, done = self.request, self.done
        return {
            "id": request.key.id,
            "topic": request.key.topic,
            "partition": request.key.number,
            "action": str(request.action),
            "by": request.by,
            "note": request.note,
            "atMs": request.at_ms,
            "records": len(request.offsets) if request.below is None else None,
            "below": request.below,
            "dueMs": request.due_ms,
            "done": done.done,
            "refused": dict(done.refused),
            "left": done.left,
            "why": done.why,
            "ended": done.ended,
            "cancelled": self.cancelled,
        }


def request_states(known: Pauses, *, ended: bool = False) -> tuple[RequestState, ...]:
    """Return what operators have asked for; ``ended``: also what has ended."""
    found = (RequestState(each, known.done.get(key, WaitingDone())) for key, each in known.requests.items())
    kept = (each for each in found if ended or not each.done.ended)
    return tuple(sorted(kept, key=lambda each: each.request.place))


def look_at_requests(settings: Settings) -> tuple[RequestState, ...]:
    """Return the requests of the last hour, and those that have not ended.

    Raises:
        TransportError: Kafka does not answer, or refuses.
    """
    with closing(control_tail(settings)) as tail:
        return request_states(tail.read_to_end(), ended=True)


def refuse_older(settings: Settings) -> None:
    """Refuse to act where a member of the group may be too old for it.

    Raises:
        ConsumersError: there is no control topic, or the feature level of the group is too low.
        TransportError: Kafka does not answer, or refuses.
    """
    with closing(control_tail(settings, keep_records=True)) as tail:
        _read(settings, tail)
        level = tail.state().level
    if level < ACTION_LEVEL:
        raise ConsumersError(
            f"group {settings.group} has feature level {level}, and schedulers act on waiting records from level "
            f"{ACTION_LEVEL} on: when all its processes have this version, run `redelivery topology apply "
            "--raise-feature-level`"
        )


def act(
    settings: Settings, requests: Sequence[WaitingRequest], wait_s: float, report: Callable[[int, int], None]
) -> list[RequestState]:
    """Ask the owners of the partitions to carry out requests, and wait until they have.

    What has ended is removed from the control topic. The rest stays, and is carried out when it can be.

    Args:
        settings: the configuration.
        requests: what to do.
        wait_s: how long to wait at most.
        report: gets the number of records that are dealt with, and of all.

    Raises:
        ConsumersError: there is no control topic.
        TransportError: Kafka does not answer, or refuses.
    """
    topic, found = settings.naming().control_topic(), {each.key: RequestState(each) for each in requests}
    with closing(control_tail(settings)) as tail:
        _read(settings, tail)
        append_control(settings.kafka, topic, [request_record(each, each.at_ms) for each in requests])
        deadline_s = monotonic_s() + wait_s
        while True:
            known = tail.poll(_POLL_S)
            for key in found.keys() & known.requests.keys():
                found[key] = RequestState(known.requests[key], known.done.get(key, WaitingDone()))
            for key in found.keys() - known.requests.keys():
                if found[key].request.place >= 0:  # it was there
                    found[key] = replace(found[key], cancelled=True)
            states = list(found.values())
            dealt = sum(each.done.done + sum(each.done.refused.values()) for each in states)
            report(dealt, max(dealt, sum(map(_size, states))))
            if all(each.done.ended or each.cancelled for each in states) or monotonic_s() > deadline_s:
                break
    append_control(settings.kafka, topic, withdrawn_requests(each.request.key for each in states if each.done.ended))
    return states


def _size(state: RequestState) -> int:
    return len(state.request.offsets) or state.done.done + state.done.left


def open_requests(settings: Settings, names: Iterable[str]) -> list[RequestState]:
    """Return the requests with these ids that have not ended, and how far they are.

    Raises:
        OptionError: there is none of one of these ids.
        TransportError: Kafka does not answer, or refuses.
    """
    names = set(names)
    found = [each for each in look_at_requests(settings) if each.request.key.id in names and not each.done.ended]
    if missing := names - {each.request.key.id for each in found}:
        raise OptionError("id", f"there is no request {', '.join(sorted(missing))} that has not ended")
    return found


def withdraw(settings: Settings, states: Iterable[RequestState]) -> None:
    """Withdraw requests; what was done about them stays done.

    Raises:
        TransportError: Kafka does not answer, or refuses.
    """
    keys = [each.request.key for each in states]
    append_control(settings.kafka, settings.naming().control_topic(), withdrawn_requests(keys))


def _read(settings: Settings, tail: ControlTail) -> Pauses:
    if not tail.exists():
        topic = settings.naming().control_topic()
        raise ConsumersError(
            f"there is no topic {topic}, in which requests are kept, or it may not be described; run: redelivery "
            "topology apply"
        )
    return tail.read_to_end()
