"""The outcomes of records, decided once, and their numbers. An aborted write does not lose them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple, assert_never

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import size_of
from kafka_redelivery.consumers.flow.session import DeliveredRecord
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.telemetry.observers import Committed, OutcomeLabel
from kafka_redelivery.topology.policy.decision import (
    NEVER_DEAD,
    Ack,
    AckType,
    DeadLetter,
    Decision,
    Discard,
    Failure,
    Halt,
    Reason,
    Retry,
)
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import Outcome, outcome_of
from kafka_redelivery.topology.wire.headers import Headers, RedriveMark, parse_mark, read_due
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, ProducerRecord


class Decided(NamedTuple):
    """A record that failed, and what was decided about it."""

    message: Message
    headers: Headers
    lineage: Lineage
    """Includes the failed delivery if that counts."""

    decision: Decision
    now_ms: int
    """When it was decided (epoch ms)."""

    failure: Failure
    """Why it failed, as far as it may be written down."""

    stays: bool = False
    """Whether the record is not finished."""

    audited: bool = False
    """Whether the decision has added a dead letter to the audit."""


class Unwritten(NamedTuple):
    """A record that was produced for the record at ``offset``, and that the broker has not confirmed."""

    offset: int
    role: str
    record: ProducerRecord


@dataclass(slots=True, eq=False, kw_only=True)
class Outcomes:
    """Records of one partition with their outcomes: successes, unless they are decided or unacknowledged.

    Only the polling thread uses it.
    """

    assigned: AssignedPartition
    messages: Sequence[Message]
    size: int
    """Bytes of the records."""

    redelivered: bool
    """Whether the records come from a ready topic, or the only record waited in place or was isolated."""

    lineages: Sequence[Lineage] = ()
    """One for each record if they are redelivered. Otherwise at most that of the only record."""

    outputs: Sequence[tuple[int, list[ProducerRecord]]] = ()
    """Index and emitted records of each record whose handler emitted any."""

    lateness: Sequence[tuple[int, int]] = ()
    delayed_ms: int | None = None
    """As that of :class:`WorkItem`."""

    seconds: Sequence[float] = ()
    decided: dict[int, Decided] = field(default_factory=dict)
    """The records that failed, by index."""

    unacknowledged: dict[int, DeliveredRecord] = field(default_factory=dict)
    """The records without an outcome, by index: their handlers have not acknowledged them."""

    refetched: bool = False
    """Whether the failure is that of an earlier write, or of a worker that died."""

    waited: dict[int, WaitingRecord] = field(default_factory=dict)
    """The finished records that waited in place until then, by offset."""

    produced: range = range(0)
    """Indexes of its records in the batch that contains it."""

    unwritten: list[Unwritten] | None = None
    """What is still to be produced, if an aborted write has produced a part; ``None`` = everything."""

    _bytes: int = -1

    @classmethod
    def of(cls, item: WorkItem) -> Outcomes:
        """Return the outcomes of a work item, whose failures are not decided yet."""
        return cls(
            assigned=item.lane.assigned,
            messages=item.messages[: item.position],
            size=item.bytes,
            redelivered=item.redelivered,
            lineages=item.lineages[: item.position],
            outputs=item.outputs,
            lateness=item.lateness,
            delayed_ms=item.delayed_ms,
            seconds=item.seconds,
            unacknowledged=dict(item.unacknowledged),
        )

    @classmethod
    def of_one(
        cls,
        assigned: AssignedPartition,
        message: Message,
        lineage: Lineage,
        *,
        outputs: list[ProducerRecord] | None = None,
        refetched: bool = False,
    ) -> Outcomes:
        """Return the outcome of a record that is in no work item."""
        return cls(
            assigned=assigned,
            messages=[message],
            size=size_of((message,)),
            redelivered=assigned.redelivered or lineage.deliveries > 0,
            lineages=[lineage],
            outputs=[(0, outputs)] if outputs else (),
            refetched=refetched,
        )

    @property
    def bytes(self) -> int:
        """Size of the records and their outputs. Computed once, because the buffer is charged with it at each fetch."""
        if self._bytes < 0:
            self._bytes = self.size + sum(len(each.value or b"") for _, outputs in self.outputs for each in outputs)
        return self._bytes

    @property
    def halts(self) -> bool:
        """Whether a decision halts the worker."""
        return any(isinstance(each.decision, Halt) for each in self.decided.values())

    @property
    def success(self) -> str:
        """The name of the outcome of a success."""
        recovered = self.assigned.redelivered or (self.redelivered and self.lineages[0].deliveries > 0)
        return "recovered" if recovered else "acked"

    def offsets(self) -> list[int]:
        """Return the offsets of all records."""
        return [message.offset() for message in self.messages]

    def emitted(self) -> tuple[list[ProducerRecord], list[int]]:
        """Return the emitted records of successes and, for each, the offset of the record whose handler emitted it."""
        records: list[ProducerRecord] = []
        offsets: list[int] = []
        for index, outputs in self.outputs:
            if index not in self.unacknowledged:
                records += outputs
                offsets += [self.messages[index].offset()] * len(outputs)
        return records, offsets

    def finished(self) -> list[int]:
        """Return the offsets that need no further write."""
        offsets = self.offsets()
        if not (self.decided or self.unacknowledged):
            return offsets
        unfinished = self._unfinished()
        if not unfinished:
            return offsets
        return [offset for index, offset in enumerate(offsets) if index not in unfinished]

    def _unfinished(self) -> AbstractSet[int]:
        return {index for index, each in self.decided.items() if each.stays} | self.unacknowledged.keys()

    def unsuccessful(self) -> AbstractSet[int]:
        """Return the indexes of the records that failed, or have no outcome."""
        return self.decided.keys() | self.unacknowledged.keys()

    def succeeded(self) -> Sequence[Lineage]:
        """Return the lineages of the redelivered records that succeeded."""
        unsuccessful = self.unsuccessful()
        if not unsuccessful:
            return self.lineages
        return [each for index, each in enumerate(self.lineages) if index not in unsuccessful]

    def redriven(self) -> Iterator[tuple[int, RedriveMark, Outcome]]:
        """Yield index, mark and outcome of each record that was sent again from a dead-letter topic and has ended."""
        for index, lineage in enumerate(self.lineages):
            mark = parse_mark(lineage.redrive) if lineage.redrive and index not in self.unacknowledged else None
            decided = self.decided.get(index)
            ended = None if mark is None else outcome_of(None if decided is None else decided.decision)
            if mark is not None and ended is not None:
                yield index, mark, ended

    def arrived_again(self) -> int:
        """Return how many records that were sent again from a dead-letter topic have left the place where they arrived.

        They have ended, or their first retry since is a new record, which has a due time.
        """
        unfinished = self._unfinished()
        return sum(
            index not in unfinished
            and parse_mark(lineage.redrive) is not None
            and read_due(headers_of(message)) is None
            for index, (lineage, message) in enumerate(zip(self.lineages, self.messages, strict=True))
            if lineage.redrive
        )

    def dead_letters(self) -> list[Lineage]:
        """Return the lineages of the dead letters in the audit that no write has produced."""
        unwritten = None if self.unwritten is None else {each.offset for each in self.unwritten}
        return [
            each.lineage
            for each in self.decided.values()
            if each.audited and (unwritten is None or each.message.offset() in unwritten)
        ]

    def split(self, max_records: int, max_bytes: int) -> tuple[Outcomes, Outcomes | None]:
        """Return the outcomes of the first records, at least of one, and those of the rest, if there are any.

        Args:
            max_records: how many records the first part may have.
            max_bytes: size of these records and their outputs.
        """
        count = len(self.messages)
        if count <= max_records and self.bytes <= max_bytes:
            return self, None
        sizes = [size_of((message,)) for message in self.messages]
        for index, outputs in self.outputs:
            sizes[index] += sum(len(output.value or b"") for output in outputs)
        number, total = 1, sizes[0]
        while number < min(count, max_records) and total + sizes[number] <= max_bytes:
            total += sizes[number]
            number += 1
        return (self, None) if number >= count else (self.cut(0, number), self.cut(number, count))

    def cut(self, first: int, end: int) -> Outcomes:
        """Return the outcomes of the records from index ``first`` on, up to ``end``."""
        within, messages = range(first, end), self.messages[first:end]
        offsets = {message.offset() for message in messages}
        return replace(
            self,
            messages=messages,
            size=size_of(messages),
            lineages=self.lineages[first:end],
            outputs=[(index - first, each) for index, each in self.outputs if index in within],
            lateness=[(index - first, each) for index, each in self.lateness if index in within],
            seconds=self.seconds[first:end],
            decided={index - first: each for index, each in self.decided.items() if index in within},
            unacknowledged={index - first: each for index, each in self.unacknowledged.items() if index in within},
            waited={},
            unwritten=None if self.unwritten is None else [each for each in self.unwritten if each.offset in offsets],
            _bytes=-1,
        )


class Tally:
    """The numbers of one write. Owned by the polling thread."""

    def __init__(self, success_ack: AckType) -> None:
        """Start at 0. ``success_ack``: acknowledgement type of a success."""
        self._success_ack = success_ack
        self.dropped: Counter[int] = Counter()
        """Number of records that the discarding strategy dropped, by report interval."""

        self._counts: Counter[OutcomeLabel] = Counter()
        self._redeliveries: Counter[tuple[str, int]] = Counter()
        self._dead_letters: Counter[tuple[str, str]] = Counter()
        self._discarded: Counter[tuple[str, str]] = Counter()
        self._recoveries: Counter[tuple[str, int]] = Counter()
        self._redriven: Counter[tuple[str, str]] = Counter()
        self._redriven_arrived: Counter[str] = Counter()
        self._lateness: list[int] = []
        self._outage_lateness: list[int] = []
        self._seconds: list[float] = []

    def add(self, outcomes: Outcomes) -> None:
        """Count outcomes."""
        source = outcomes.assigned.route.source
        self._count_retries(source, outcomes)
        for each in outcomes.decided.values():
            if not isinstance(each.decision, Retry):
                self._count(outcomes, each)
        self._seconds += outcomes.seconds
        unsuccessful = outcomes.unsuccessful()
        successes = len(outcomes.messages) - len(unsuccessful)
        if successes:
            self._counts[OutcomeLabel(source, outcomes.success, self._success_ack)] += successes
        if outcomes.redelivered:
            self._add_lateness(outcomes)
            if outcomes.success == "recovered":
                for deliveries, number in Counter([each.deliveries for each in outcomes.succeeded()]).items():
                    self._recoveries[source, deliveries + 1] += number
            if any(lineage.redrive for lineage in outcomes.lineages):
                self._redriven.update((source, str(ended)) for _, _, ended in outcomes.redriven())
                self._redriven_arrived[source] += outcomes.arrived_again()

    def report(self, seconds: float) -> Committed:
        """Return the report for the observer."""
        return Committed(
            seconds,
            self._counts,
            self._redeliveries,
            self._dead_letters,
            self._lateness,
            self._seconds,
            self._recoveries,
            self._discarded,
            self._redriven,
            self._redriven_arrived,
            self._outage_lateness,
        )

    def _add_lateness(self, outcomes: Outcomes) -> None:
        """Add the lateness of redeliveries. That of an outage is not our delay."""
        delayed_ms = outcomes.delayed_ms
        for _, late_ms in outcomes.lateness:
            outage = delayed_ms is not None and late_ms >= delayed_ms
            (self._outage_lateness if outage else self._lateness).append(late_ms)

    def _count_retries(self, source: str, outcomes: Outcomes) -> None:
        """Count the retries together: all records of an item may fail."""
        retries = [each.lineage.deliveries for each in outcomes.decided.values() if isinstance(each.decision, Retry)]
        for deliveries, number in Counter(retries).items():
            self._redeliveries[source, deliveries] += number
        if retries:
            self._counts[OutcomeLabel(source, "retried", AckType.REDELIVERED)] += len(retries)

    def _count(self, outcomes: Outcomes, decided: Decided) -> None:
        decision, route = decided.decision, outcomes.assigned.route
        outcome = outcome_name(decision)
        if outcome is None or isinstance(decision, Halt):
            return
        if isinstance(decision, DeadLetter):
            self._dead_letters[route.source, str(decision.reason)] += 1
        elif isinstance(decision, Discard):
            reason = decision.reason
            self._discarded[route.source, str(reason)] += 1
            interval = route.entry.dead_letter_strategy.report_interval(expired=reason is Reason.EXPIRED)
            if interval > 0 and reason not in NEVER_DEAD:
                self.dropped[interval] += 1
        self._counts[OutcomeLabel(route.source, outcome, decision.ack_type)] += 1


def outcome_name(decision: Decision) -> str | None:
    """Return the name of the outcome that a decision leads to; ``None`` if it halts the worker."""
    match decision:
        case Retry():
            return "retried"
        case DeadLetter():
            return "dead_lettered"
        case Ack():  # not reached: `failure` is never None here, and only None is acknowledged
            return "acked"
        case Discard():
            return "discarded"
        case Halt():
            return None
        case _:
            assert_never(decision)
