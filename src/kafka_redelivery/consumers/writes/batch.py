"""One write: decided outcomes as produced records, committed offsets and a report."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.consumers.writes.decisions import BatchDependencies, Decisions
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.consumers.writes.journal import Journal
from kafka_redelivery.consumers.writes.outcomes import Decided, Outcomes, Tally, Unwritten
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, Halt, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import dead_letter_headers, retry_headers
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.topology.wire.topic_mark import split_mark
from kafka_redelivery.transport.errors import RefusalCause, WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord


class ProducedFor(NamedTuple):
    """The consumed record that a record was produced for. It is needed if the broker refuses the produced record."""

    assigned: AssignedPartition
    offset: int
    role: str
    """What was produced: an ``output``, a ``retry``, a ``dead letter`` or a ``redrive outcome``."""


class Batch:
    """Collects one write. Owned by the polling thread, on Spark by that of the task.

    The writing thread reads what the batch produces and its checkpoints.

    An outcome becomes part of the write when there is room for it and all outcomes before it are part of a write.
    Until then it is in ``kept``.
    """

    def __init__(
        self,
        dependencies: BatchDependencies,
        kept: deque[Outcomes] | None = None,
        limits: WriteLimits | None = None,
    ) -> None:
        """Begin with the oldest outcomes of ``kept``.

        Args:
            dependencies: shared by all batches.
            kept: outcomes that are not part of a write; ``None`` = none.
            limits: size of a write; ``None`` = unlimited.
        """
        self._dependencies = dependencies
        self._decisions = Decisions(dependencies)
        self.in_place = self._decisions.in_place
        """See :class:`Decisions`."""

        self._kept = deque[Outcomes]() if kept is None else kept
        self._limits = limits
        self.outcomes: list[Outcomes] = []
        """The outcomes in the write."""

        self.produced: list[ProducerRecord] = []
        self._sources: list[tuple[AssignedPartition, Sequence[int], str] | None] = []
        """The consumed records of the produced ones, in runs; see :attr:`produced_for`."""

        self.halts: list[tuple[AssignedPartition, int, Failure]] = []
        """Partition, offset and failure of each record that halts the worker."""

        self.size = 0
        """Number of records whose outcome the batch holds."""

        self.bytes = 0
        """Size of these records and their outputs. Retry records and dead letters are not counted again."""

        self.urgent = False
        """Whether the batch holds a failure or an output. Lazy acknowledgement may not delay these."""

        self.touched: dict[Partition, AssignedPartition] = {}
        """The partitions whose offsets the write commits."""

        self.checkpoints: Mapping[Partition, Checkpoint] = {}
        """The offsets that the write commits; empty before :meth:`close`."""

        self.tally = Tally(dependencies.success_ack)
        """The numbers of all outcomes."""

        self._journal: Journal | None = None
        if dependencies.journal is not None:
            self._journal = Journal(dependencies.group, dependencies.journal, dependencies.retry_topics)
        if self._kept:
            self.refill()

    @property
    def decided_outside_items(self) -> list[tuple[Partition, int]]:
        """Partition and offset of each record decided outside a work item.

        When the write is committed, the committer drops the write failures of these records.
        """
        return [(each.assigned.partition, each.messages[0].offset()) for each in self.outcomes if each.refetched]

    @property
    def produced_for(self) -> list[ProducedFor | None]:
        """The consumed record of each produced one; ``None`` = a journal record. Built only when it is needed."""
        found: list[ProducedFor | None] = []
        for run in self._sources:
            if run is None:
                found.append(None)
            else:
                assigned, offsets, role = run
                found += [ProducedFor(assigned, offset, role) for offset in offsets]
        return found

    def add(self, item: WorkItem) -> None:
        """Add the outcomes of a work item."""
        outcomes = Outcomes.of(item)
        for index, records in item.outputs if outcomes.unacknowledged else ():
            if index in outcomes.unacknowledged:
                outcomes.unacknowledged[index].outputs = records
        self.add_outcomes(outcomes, item.failures)

    def acknowledge(
        self, assigned: AssignedPartition, message: Message, lineage: Lineage, outputs: list[ProducerRecord]
    ) -> None:
        """Add a success that was acknowledged after its handler had returned.

        Only the modes client and individual do this. They have no journal.
        """
        self.add_outcomes(Outcomes.of_one(assigned, message, lineage, outputs=outputs))

    def add_failure(self, assigned: AssignedPartition, message: Message, lineage: Lineage, failure: Failure) -> None:
        """Decide about a failed record that is in no work item."""
        self.add_outcomes(Outcomes.of_one(assigned, message, lineage, refetched=True), [(0, failure)])

    def add_outcomes(self, outcomes: Outcomes, failures: Sequence[tuple[int, Failure]] = ()) -> None:
        """Add outcomes of records, after those that failed are decided; ``failures``: each with its index."""
        if failures:
            self._decisions.decide(outcomes, failures)
            for index in outcomes.unacknowledged.keys() & outcomes.decided:
                del outcomes.unacknowledged[index]
        if self._limits is None or not (self._kept or self._limits.reduced):
            self._fold(outcomes)
        else:
            self._kept.append(outcomes)
            self.refill()

    def decide_again(self, outcomes: Outcomes, index: int, failure: Failure) -> None:
        """Decide about a record whose outcome cannot be written; ``index``: which of the outcomes it is."""
        self._decisions.decide(outcomes, [(index, failure)])

    def refill(self) -> None:
        """Take as many of the kept outcomes as there is room for."""
        limits = self._limits
        while self._kept and limits is not None and not limits.full(self.size, self.bytes):
            outcomes, rest = self._kept.popleft().split(limits.records - self.size, limits.bytes - self.bytes)
            if rest is not None:
                self._kept.appendleft(rest)
            self._fold(outcomes)

    def take_back(self, unconfirmed: Collection[int] | None = None, *, write_under_way: bool = False) -> list[Outcomes]:
        """Return all outcomes, so that they can be part of another write. Their records count as unfinished again.

        Args:
            unconfirmed: indexes of the produced records that the broker has not confirmed; ``None`` = all.
            write_under_way: whether other outcomes are being written.
        """
        if unconfirmed is not None:
            self._note_unwritten(unconfirmed)
        finished: defaultdict[AssignedPartition, list[int]] = defaultdict(list)
        waited: defaultdict[AssignedPartition, dict[int, WaitingRecord]] = defaultdict(dict)
        for outcomes in self.outcomes:
            finished[outcomes.assigned] += outcomes.finished()
            waited[outcomes.assigned] |= outcomes.waited
        for assigned, offsets in finished.items():
            committed = assigned.committed
            among_finished = write_under_way or (committed is not None and split_mark(committed.metadata)[1] != "")
            assigned.progress.reopen(offsets, waited[assigned], among_finished=among_finished)
        for assigned in self.touched.values():
            assigned.dirty = True
        return self.outcomes

    def _note_unwritten(self, unconfirmed: Collection[int]) -> None:
        produced_for = self.produced_for
        for outcomes in self.outcomes:
            sources = [(index, produced_for[index]) for index in outcomes.produced if index in unconfirmed]
            outcomes.unwritten = [
                Unwritten(source.offset, source.role, self.produced[index])
                for index, source in sources
                if source is not None
            ]

    def _fold(self, outcomes: Outcomes) -> None:
        assigned, decided, unacknowledged = outcomes.assigned, outcomes.decided, outcomes.unacknowledged
        number = len(outcomes.messages) - len(unacknowledged)
        self.outcomes.append(outcomes)
        self.urgent = self.urgent or bool(decided or outcomes.outputs)
        self.tally.add(outcomes)
        for each in decided.values():
            if isinstance(each.decision, Halt):
                self.halts.append((assigned, each.message.offset(), each.decision.failure))
        self._produce_all(outcomes)
        if number:
            finished, waiting = outcomes.finished(), assigned.progress.waiting
            if waiting:
                outcomes.waited = {offset: waiting[offset] for offset in finished if offset in waiting}
            assigned.progress.complete(finished)
            self._touch(assigned)
            self.size += number
            self.bytes += outcomes.size * number // len(outcomes.messages)
        if self._journal is not None:
            self._journal.add(outcomes)

    def close(self, positions: Iterable[AssignedPartition] = ()) -> None:
        """Set :attr:`checkpoints`, and add the journal records. Called once, before the write begins.

        Args:
            positions: partitions that are committed even if the batch holds no outcome of them.
        """
        for assigned in positions:
            self._touch(assigned)
        points = {}
        for partition, assigned in self.touched.items():
            if not assigned.closed:
                points[partition] = assigned.progress.checkpoint()
                assigned.dirty = False  # if the write is aborted, it is dirty again, or the partition is opened again
        self.checkpoints = points
        if self._journal is not None and (points or self.produced):
            records = self._journal.records()
            self.produced += records
            self._sources += [None] * len(records)

    @property
    def before(self) -> Mapping[Partition, Checkpoint | None]:
        """See :class:`~kafka_redelivery.consumers.writes.engine.Write`."""
        return {each: assigned.committed for each, assigned in self._written() if not assigned.closed}

    @property
    def produces(self) -> bool:
        """See :class:`~kafka_redelivery.consumers.writes.engine.Write`."""
        return bool(self.produced) and any(not each.assigned.closed for each in self.outcomes)

    @property
    def starting(self) -> Collection[Partition]:
        """See :class:`~kafka_redelivery.consumers.writes.engine.Write`."""
        return [each for each, assigned in self._written() if assigned.committed is None]

    def _written(self) -> Iterator[tuple[Partition, AssignedPartition]]:
        return ((partition, self.touched[partition]) for partition in self.checkpoints)

    def judged(self, error: WriteRefusedError) -> WriteRefusedError:
        """Return a refusal in which a missing topic is the fault of the handler that named it, unless it is listed.

        A listed topic existed when the process started, so that its absence is a cause outside the record. So is the
        configuration of a topic of the group, which no handler has chosen.
        """
        produced_for, is_listed = self.produced_for, self._dependencies.is_listed
        refused = []
        for each in error.refused:
            consumed, topic = produced_for[each.index], self.produced[each.index].topic
            if consumed is None or consumed.role != "output":
                refused.append(each.for_topic_of_group())
            elif each.cause is RefusalCause.MISSING and not is_listed(topic):
                refused.append(replace(each, cause=RefusalCause.OTHER, reason=f"{topic}: {each.reason}"))
            else:
                refused.append(each)
        return error.judged(refused)

    def tally_of(self, committed: Container[Partition]) -> Tally:
        """Return the numbers of the outcomes of some partitions, if the offsets of the others are not committed."""
        tally = Tally(self._dependencies.success_ack)
        for outcomes in self.outcomes:
            if outcomes.assigned.partition in committed:
                tally.add(outcomes)
        return tally

    def withdraw_dead_letters(self, committed: Container[Partition] = ()) -> None:
        """Remove the dead letters of the batch from the audit, because they are void.

        Args:
            committed: the partitions whose offsets are committed nevertheless. Their dead letters stay.
        """
        for outcomes in self.outcomes:
            if outcomes.assigned.partition not in committed:
                self._dependencies.audits.withdraw(outcomes.dead_letters())

    def _touch(self, assigned: AssignedPartition) -> None:
        assigned.dirty = True
        self.touched[assigned.partition] = assigned

    def _produce_all(self, outcomes: Outcomes) -> None:
        """Produce the outputs, the retry records and the dead letters, or what an aborted write has left of them."""
        assigned, first = outcomes.assigned, len(self.produced)
        if outcomes.unwritten is None:
            if outcomes.decided:
                self._produce_decided(assigned, outcomes.decided.values())
            outputs, offsets_of_outputs = outcomes.emitted()
            self.produced += outputs
            self._sources.append((assigned, offsets_of_outputs, "output"))
            self.bytes += sum(len(output.value or b"") for output in outputs)
            if outcomes.redelivered and any(lineage.redrive for lineage in outcomes.lineages):
                for offset, record in self._dependencies.redrive_outcomes.of(outcomes, self._dependencies.clock()):
                    self.produced.append(record)
                    self._sources.append((assigned, (offset,), "redrive outcome"))
        else:
            for left in outcomes.unwritten:
                self.produced.append(left.record)
                self._sources.append((assigned, (left.offset,), left.role))
                self.bytes += len(left.record.value or b"")
        outcomes.produced = range(first, len(self.produced))

    def _produce_decided(self, assigned: AssignedPartition, all_decided: Iterable[Decided]) -> None:
        dependencies, route = self._dependencies, assigned.route
        places: dict[tuple[int, int], tuple[str, int]] = {}
        """Topic and partition of retry records, by delay and source partition."""

        offsets: list[int] = []
        run = ""
        for message, headers, lineage, decision, now_ms, failure, stays, _ in all_decided:
            if isinstance(decision, Retry) and not stays:
                role, waits = "retry", (decision.delay_ms, lineage.partition)
                topic, number = places.get(waits) or places.setdefault(waits, self._place_of(route, *waits))
                new_headers = retry_headers(lineage, dependencies.group, headers, decision, failure)
            elif isinstance(decision, DeadLetter):
                role, topic = "dead letter", route.dead_letter_of(decision)
                number = dependencies.retry_topics.partition_for(topic, lineage.partition)
                new_headers = dead_letter_headers(lineage, dependencies.group, headers, decision, now_ms)
            else:
                continue
            if role != run:
                run, offsets = role, []
                self._sources.append((assigned, offsets, role))
            offsets.append(message.offset())
            self.produced.append(ProducerRecord(topic, number, message.key(), message.value(), new_headers))

    def _place_of(self, route: Route, delay_ms: int, number: int) -> tuple[str, int]:
        """Return topic and partition of the retry record of source partition ``number``."""
        topics = self._dependencies.retry_topics
        topic = topics.topic_for(delay_ms) if delay_ms > 0 else route.ready
        if topics.is_ordered(topic):
            number = self._dependencies.placement.number_for(number)
        return topic, topics.partition_for(topic, number)
