"""What one write consists of: the outcomes of units, turned by the decision into copies and offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from consumers.audits import Audits
from consumers.discard_report import DiscardReport
from consumers.failure_log import FailureLog
from consumers.journal import Journal
from consumers.lane import size_of
from consumers.observer import Committed, OutcomeLabel
from consumers.processor import fresh_lineage
from consumers.routes import Waiting
from consumers.unit import Assigned, Unit
from topology.decision import (
    NOT_DELIVERED,
    Ack,
    AckType,
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureKind,
    Halt,
    Reason,
    Retry,
    decide,
    suppressed,
)
from topology.headers import HeaderList, Headers, dead_letter_headers, read_due, retry_headers
from topology.lineage import Lineage
from topology.progress import Checkpoint
from transport.message_headers import headers_of
from transport.protocols import Copy, Message, Partition


class Owner(NamedTuple):
    """Whose copy it is: asked when the broker refuses it."""

    assigned: Assigned
    offset: int
    role: str
    """``output``, ``retry``, ``dead letter`` or ``journal``."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What every batch of a worker needs and none changes."""

    group: str
    waiting: Waiting
    clock: Callable[[], int]
    jitter: Callable[[], Iterator[float]]
    verdicts: dict[tuple[Partition, int], Failure]
    """Records whose copy the broker refused: how to decide about them when they come again."""

    journal: str | None = None
    """The journal's topic, ``None`` if it is off."""

    blocking: bool = False
    """Whether a failed record waits in place, and what follows waits for it."""

    success: AckType = AckType.STANDARD
    """How what succeeds is acknowledged."""

    audits: Audits = field(default_factory=Audits)
    report: DiscardReport = field(default_factory=DiscardReport)
    log: FailureLog = field(default_factory=FailureLog)


class Batch:
    """One write in the making. Used by the polling thread; thrown away if the write is undone."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.copies: list[Copy] = []
        self._owned: list[tuple[Assigned, Sequence[int], str] | None] = []
        """Whose the copies are, in runs; see :attr:`owners`."""

        self.halts: list[tuple[Assigned, int, Failure]] = []
        self.size = 0
        """How many records have their outcome in it."""

        self.bytes = 0
        """Of these records and of their outputs; copies share the bytes of their record."""

        self.pressing = False
        """Whether it holds anything but successes without outputs, which may wait to be acknowledged together."""

        self.judged: list[tuple[Partition, int]] = []
        """Records that were decided about outside any unit: when the write is confirmed, no verdict on them stands."""

        self.in_place: list[tuple[Assigned, Message]] = []
        """What is not finished but waits where it is, to be queued again by whoever empties this."""

        self.dropped: Counter[int] = Counter()
        """What the discarding plugin drops, by its report interval."""

        self._noted: list[Lineage] = []
        """What the audits know because of it."""

        self._touched: dict[Partition, Assigned] = {}
        self._outcomes: Counter[OutcomeLabel] = Counter()
        self._redeliveries: Counter[tuple[str, int]] = Counter()
        self._dead_letters: Counter[tuple[str, str]] = Counter()
        self._discarded: Counter[tuple[str, str]] = Counter()
        self._recoveries: Counter[tuple[str, int]] = Counter()
        self._lateness: list[int] = []
        self._seconds: list[float] = []
        self._journal = None if shared.journal is None else Journal(shared.group, shared.journal, shared.waiting)

    @property
    def owners(self) -> list[Owner | None]:
        """Whose each copy is; ``None`` = the journal. Made when it is asked for, which it hardly ever is."""
        found: list[Owner | None] = []
        for run in self._owned:
            if run is None:
                found.append(None)
            else:
                assigned, offsets, role = run
                found += [Owner(assigned, offset, role) for offset in offsets]
        return found

    def add(self, unit: Unit) -> None:
        """Take over everything a unit has an outcome for."""
        assigned = unit.lane.assigned
        unsuccessful = self._settle_failures(unit)
        self.pressing = self.pressing or bool(unit.failures or unit.outputs)
        left = {index: each for index, each in unit.unacknowledged if index not in unsuccessful}
        for index, copies in unit.outputs if left else ():
            if index in left:
                left[index].copies = copies
        outputs, owners = unit.emitted(left)
        self.copies += outputs
        self._owned.append((assigned, owners, "output"))
        self.bytes += sum(len(output.value or b"") for output in outputs)
        kept = {index for index, decision in unsuccessful.items() if self._keeps(decision)} | left.keys()
        offsets = unit.offsets()
        finished = [offset for index, offset in enumerate(offsets) if index not in kept] if kept else offsets
        if len(left) < unit.position:
            assigned.progress.finish(finished)
            self._touch(assigned)
        self.size += unit.position - len(left)
        self.bytes += unit.bytes - size_of([each.message for each in left.values()])
        self._seconds += unit.seconds
        not_done = unsuccessful.keys() | left.keys()
        successes = unit.position - len(not_done)
        if successes:
            self._outcomes[OutcomeLabel(assigned.route.source, _success(unit), self._shared.success)] += successes
        if unit.counted:
            self._note_redelivered(unit, not_done)
        elif self._journal is not None:
            place = assigned.partition
            acked = [offset for index, offset in enumerate(offsets) if index not in not_done]
            if acked:
                self._journal.note(place.topic, place.number, "acked", acked)

    def acknowledge(self, assigned: Assigned, message: Message, lineage: Lineage, outputs: list[Copy]) -> None:
        """A success that was told after its handler had returned; no journal goes with such modes."""
        self.copies += outputs
        self._owned.append((assigned, [message.offset()] * len(outputs), "output"))
        self.bytes += sum(len(output.value or b"") for output in outputs) + size_of((message,))
        assigned.progress.finish((message.offset(),))
        self._touch(assigned)
        self.size += 1
        outcome = "recovered" if lineage.deliveries > 0 else "acked"
        self._outcomes[OutcomeLabel(assigned.route.source, outcome, self._shared.success)] += 1
        if lineage.deliveries > 0:
            self._recoveries[assigned.route.source, lineage.deliveries + 1] += 1

    def settle(self, assigned: Assigned, message: Message, lineage: Lineage, failure: Failure) -> None:
        """Decide about one record outside any unit."""
        self.pressing = True
        decision = self._decide(assigned, message, headers_of(message), lineage, failure, self._shared.clock())
        if not self._keeps(decision, failure):
            assigned.progress.finish((message.offset(),))
        self.judged.append((assigned.partition, message.offset()))
        self._touch(assigned)
        self.size += 1
        self.bytes += size_of((message,))

    def _keeps(self, decision: Decision, failure: Failure | None = None) -> bool:
        """Whether the record stays where it is. One that its worker died of is not let out of sight."""
        if isinstance(decision, Retry):
            return self._shared.blocking or (failure is not None and failure.kind is FailureKind.CLOSED)
        return isinstance(decision, Halt)

    def touch(self, assigned: Assigned) -> None:
        """Commit this partition's position with the batch, though nothing of it ended."""
        self._touch(assigned)

    def checkpoints(self) -> dict[Partition, Checkpoint]:
        """The offsets that the batch commits. Asked once, when its write begins."""
        points = {}
        for place, assigned in self._touched.items():
            if not assigned.closed:
                points[place] = assigned.progress.checkpoint()
                assigned.dirty = False  # if the write is undone, the partition is opened anew
        return points

    def close(self) -> None:
        """Add what can only be written once everything is in: the journal."""
        if self._journal is not None:
            for copy in self._journal.copies():
                self.copies.append(copy)
                self._owned.append(None)

    def committed(self, seconds: float) -> Committed:
        """The batch as told to the observer."""
        return Committed(
            seconds,
            self._outcomes,
            self._redeliveries,
            self._dead_letters,
            self._lateness,
            self._seconds,
            self._recoveries,
            self._discarded,
        )

    def undo(self) -> None:
        """It will never be written: its dead letters do not exist."""
        self._shared.audits.forget(self._noted)
        self._noted = []

    def _touch(self, assigned: Assigned) -> None:
        assigned.dirty = True
        self._touched[assigned.partition] = assigned

    def _settle_failures(self, unit: Unit) -> dict[int, Decision]:
        decisions: dict[int, Decision] = {}
        if not unit.failures:
            return decisions
        assigned = unit.lane.assigned
        now_ms = self._shared.clock()  # after the last of the failures: none is delivered again too early
        for index, failure in unit.failures:
            message = unit.messages[index]
            headers = headers_of(message)
            lineage = unit.lineages[index] if unit.counted else fresh_lineage(message, headers, assigned.route)
            decisions[index] = self._decide(assigned, message, headers, lineage, failure, now_ms)
        return decisions

    def _decide(
        self, assigned: Assigned, message: Message, headers: Headers, lineage: Lineage, failure: Failure, now_ms: int
    ) -> Decision:
        shared, entry = self._shared, assigned.route.entry
        if failure.kind not in NOT_DELIVERED:
            lineage = lineage.delivered(lineage.deliveries + 1)
        decision = decide(
            failure, lineage, entry, now_ms, shared.jitter() if entry.redelivery_policy.randomised else ()
        )
        if assigned.redelivered and read_due(headers) is None:
            shared.audits.forget((lineage,))  # redriven: it may die again
        if isinstance(decision, DeadLetter):
            decision = self._audited(decision, lineage)
        shared.log.tell(lineage, failure, decision)
        if isinstance(decision, Retry) and self._keeps(decision, failure):
            self._wait_in_place(assigned, message, lineage, decision)
        else:
            self._dispatch(assigned, message, headers, lineage, decision, now_ms)
        return decision

    def _audited(self, decision: DeadLetter, lineage: Lineage) -> DeadLetter | Discard:
        if self._shared.audits.is_duplicate(lineage):
            return suppressed(decision)
        self._noted.append(lineage)
        return decision

    def _wait_in_place(self, assigned: Assigned, message: Message, lineage: Lineage, decision: Retry) -> None:
        source = assigned.route.source
        assigned.progress.wait(message.offset(), lineage.deliveries, decision.due_ms)
        self.in_place.append((assigned, message))
        self._redeliveries[source, lineage.deliveries] += 1
        self._outcomes[OutcomeLabel(source, "retried", decision.ack_type)] += 1
        if self._journal is not None:
            self._journal.note(lineage.address, lineage.partition, "retried", (lineage.offset,))

    def _dispatch(
        self, assigned: Assigned, message: Message, headers: Headers, lineage: Lineage, decision: Decision, now_ms: int
    ) -> None:
        shared, route = self._shared, assigned.route
        match decision:
            case Retry():
                outcome = "retried"
                delay_ms = decision.delay_ms
                topic = shared.waiting.place(delay_ms) if delay_ms > 0 else route.ready
                self._redeliveries[route.source, lineage.deliveries] += 1
                self._copy(
                    assigned, message, "retry", topic, lineage, retry_headers(lineage, shared.group, headers, decision)
                )
            case DeadLetter():
                outcome = "dead_lettered"
                self._dead_letters[route.source, str(decision.reason)] += 1
                told = dead_letter_headers(lineage, shared.group, headers, decision, now_ms)
                self._copy(assigned, message, "dead letter", route.dead_letter_of(decision), lineage, told)
            case Ack():
                outcome = "acked"
            case Discard(reason=reason):
                outcome = "discarded"
                self._discarded[route.source, str(reason)] += 1
                interval = route.entry.dead_letter_strategy.report_interval(expired=reason is Reason.EXPIRED)
                if interval > 0 and reason is not Reason.DUPLICATE:
                    self.dropped[interval] += 1
            case Halt(failure=failure):
                self.halts.append((assigned, message.offset(), failure))
                return
            case _:
                assert_never(decision)
        self._outcomes[OutcomeLabel(route.source, outcome, decision.ack_type)] += 1
        if self._journal is not None:
            self._journal.note(lineage.address, lineage.partition, outcome, (lineage.offset,))

    def _copy(
        self, assigned: Assigned, message: Message, role: str, topic: str, lineage: Lineage, headers: HeaderList
    ) -> None:
        """The record unchanged but for its headers, into the partition of its origin."""
        partition = self._shared.waiting.partition(topic, lineage.partition)
        self.copies.append(Copy(topic, partition, message.key(), message.value(), headers))
        self._owned.append((assigned, (message.offset(),), role))

    def _note_redelivered(self, unit: Unit, unsuccessful: Container[int]) -> None:
        """How late each redelivery was handed out, and which of them succeeded at which attempt."""
        self._lateness += [late for _, late in unit.lateness]
        source = unit.lane.assigned.route.source
        succeeded = [line for index, line in enumerate(unit.lineages[: unit.position]) if index not in unsuccessful]
        for lineage in succeeded if _success(unit) == "recovered" else ():
            self._recoveries[source, lineage.deliveries + 1] += 1
        journal = self._journal
        if journal is None:
            return
        for index, late in unit.lateness:
            lineage = unit.lineages[index]
            journal.late(lineage.address, lineage.partition, late)
        for lineage in succeeded:
            journal.note(lineage.address, lineage.partition, _success(unit), (lineage.offset,))


def _success(unit: Unit) -> str:
    again = unit.lane.assigned.redelivered or (unit.in_place is not None and unit.in_place.deliveries > 0)
    return "recovered" if again else "acked"
