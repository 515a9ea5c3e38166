"""One write: decided outcomes as produced records, committed offsets and a report."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Container, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import size_of
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.telemetry.observers import Committed
from kafka_redelivery.consumers.writes.decisions import BatchDependencies, Decisions
from kafka_redelivery.consumers.writes.outcomes import Decided, Outcomes, Unwritten
from kafka_redelivery.consumers.writes.tally import Tally, outcome_of, success_of
from kafka_redelivery.consumers.writes.write_limits import WriteLimits
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, Halt, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import HeaderList, dead_letter_headers, retry_headers
from kafka_redelivery.topology.wire.journal import VERSION
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.topology.wire.topic_mark import split_mark
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord

_Origin: TypeAlias = tuple[str, int, str]
"""Source topic, partition, and the mark of that topic."""


class Journal:
    """Collects the journal records of one write."""

    def __init__(self, group: str, topic: str, retry_topics: RetryTopics) -> None:
        self._group = group
        self._topic = topic
        self._retry_topics = retry_topics
        self._entries: defaultdict[_Origin, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._lateness: defaultdict[_Origin, list[int]] = defaultdict(list)

    def note(self, address: str, partition: int, outcome: str, offsets: Iterable[int], mark: str = "") -> None:
        """Add origin offsets that have the same outcome.

        Args:
            address: the source topic.
            partition: the number of its partition.
            outcome: one of :data:`~kafka_redelivery.topology.wire.journal.OUTCOMES`.
            offsets: the offsets.
            mark: the mark of the source topic that the records were read from; empty if they were redelivered, because
                they may come from an older topic of that name.
        """
        self._entries[address, partition, mark][outcome].extend(offsets)

    def note_lateness(self, address: str, partition: int, lateness_ms: int) -> None:
        """Add the lateness of a redelivery."""
        self._lateness[address, partition, ""].append(lateness_ms)

    def records(self) -> list[ProducerRecord]:
        """Build the journal records."""
        return [self._record(origin, outcomes) for origin, outcomes in self._entries.items()]

    def _record(self, origin: _Origin, outcomes: dict[str, list[int]]) -> ProducerRecord:
        address, partition, mark = origin
        entry: dict[str, object] = {"v": VERSION, "group": self._group, "topic": address, "partition": partition}
        if mark:
            entry["mark"] = mark
        entry |= {outcome: ranges(offsets) for outcome, offsets in outcomes.items()}
        if origin in self._lateness:
            entry["lateness_ms"] = self._lateness[origin]
        return ProducerRecord(
            self._topic,
            self._retry_topics.partition_for(self._topic, partition),
            f"{address}-{partition}".encode(),
            json.dumps(entry, separators=(",", ":")).encode(),
        )


def ranges(offsets: Iterable[int]) -> list[list[int]]:
    """Return inclusive ranges of consecutive offsets, in ascending order."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


class ProducedFor(NamedTuple):
    """The consumed record that a record was produced for. It is needed if the broker refuses the produced record."""

    assigned: AssignedPartition
    offset: int
    role: str
    """What was produced: an ``output``, a ``retry``, a ``dead letter`` or a ``redrive outcome``."""


class Batch:
    """Collects one write. Owned by the polling thread.

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

        self.tally = Tally(dependencies.success_ack)
        """The numbers of all outcomes."""

        self._journal: Journal | None = None
        if dependencies.journal is not None:
            self._journal = Journal(dependencies.group, dependencies.journal, dependencies.retry_topics)
        self.refill()

    @property
    def in_place(self) -> list[tuple[AssignedPartition, Message]]:
        """Unfinished records that wait in place. The caller empties the list and queues them again."""
        return self._decisions.in_place

    @property
    def decided_outside_items(self) -> list[tuple[Partition, int]]:
        """Partition and offset of each record decided outside a work item.

        When the write is committed, the committer drops the write failures of these records.
        """
        return [(each.assigned.partition, each.item.messages[0].offset()) for each in self.outcomes if each.refetched]

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
        self._add(self._decisions.of_item(item))

    def acknowledge(
        self, assigned: AssignedPartition, message: Message, lineage: Lineage, outputs: list[ProducerRecord]
    ) -> None:
        """Add a success that was acknowledged after its handler had returned.

        Only the modes client and individual do this. They have no journal.
        """
        self._add(self._decisions.of_acknowledgement(assigned, message, lineage, outputs))

    def add_failure(self, assigned: AssignedPartition, message: Message, lineage: Lineage, failure: Failure) -> None:
        """Decide about a failed record that is in no work item."""
        self._add(self._decisions.of_failure(assigned, message, lineage, failure))

    def _add(self, outcomes: Outcomes) -> None:
        if self._limits is None or not (self._kept or self._limits.reduced):
            self._fold(outcomes)
        else:
            self._kept.append(outcomes)
            self.refill()

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
        item, decided, unacknowledged = outcomes.item, outcomes.decided, outcomes.unacknowledged
        assigned = item.lane.assigned
        self.outcomes.append(outcomes)
        self.urgent = self.urgent or bool(decided or item.outputs)
        self.tally.add(outcomes)
        for each in decided.values():
            if isinstance(each.decision, Halt):
                self.halts.append((assigned, each.message.offset(), each.decision.failure))
        self._produce_all(outcomes)
        if len(unacknowledged) < item.position:
            finished, waiting = outcomes.finished(), assigned.progress.waiting
            if waiting:
                outcomes.waited = {offset: waiting[offset] for offset in finished if offset in waiting}
            assigned.progress.complete(finished)
            self._touch(assigned)
        self.size += item.position - len(unacknowledged)
        self.bytes += item.bytes - size_of([each.message for each in unacknowledged.values()])
        if self._journal is not None:
            self._note_in_journal(self._journal, outcomes)

    def commit_position(self, assigned: AssignedPartition) -> None:
        """Commit the position of a partition even if the batch holds no outcome of it."""
        self._touch(assigned)

    def checkpoints(self) -> dict[Partition, Checkpoint]:
        """Return the offsets to commit. Called once, when the write begins."""
        points = {}
        for partition, assigned in self.touched.items():
            if not assigned.closed:
                points[partition] = assigned.progress.checkpoint()
                assigned.dirty = False  # if the write is aborted, it is dirty again, or the partition is opened again
        return points

    def add_journal_records(self) -> None:
        """Add the journal records, after the last outcome."""
        if self._journal is not None:
            records = self._journal.records()
            self.produced += records
            self._sources += [None] * len(records)

    def report(self, seconds: float) -> Committed:
        """Return the report of the committed batch for the observer.

        Args:
            seconds: duration of the write.
        """
        return self.tally.report(seconds)

    def tally_of(self, committed: Container[Partition]) -> Tally:
        """Return the numbers of the outcomes of some partitions, if the offsets of the others are not committed."""
        tally = Tally(self._dependencies.success_ack)
        for outcomes in self.outcomes:
            if outcomes.assigned.partition in committed:
                tally.add(outcomes)
        return tally

    def forget_dead_letters(self, committed: Container[Partition] = ()) -> None:
        """Remove the dead letters of the batch from the audit, because they are void.

        Args:
            committed: the partitions whose offsets are committed nevertheless. Their dead letters stay.
        """
        for outcomes in self.outcomes:
            if outcomes.assigned.partition not in committed:
                self._dependencies.audits.forget(outcomes.dead_letters())

    def raise_if_halted(self) -> None:
        """Raise the first decision that halts the worker.

        Raises:
            HaltedError: there is one.
        """
        if self.halts:
            assigned, offset, failure = self.halts[0]
            topic, number = assigned.partition
            raise HaltedError(f"{failure.cause}; nothing is committed past {topic}-{number}@{offset}")

    def _touch(self, assigned: AssignedPartition) -> None:
        assigned.dirty = True
        self.touched[assigned.partition] = assigned

    def _note_in_journal(self, journal: Journal, outcomes: Outcomes) -> None:
        item, partition = outcomes.item, outcomes.assigned.partition
        mark = "" if item.redelivered else outcomes.assigned.mark
        for each in outcomes.decided.values():
            outcome = outcome_of(each.decision)
            if outcome is not None:
                journal.note(each.lineage.address, each.lineage.partition, outcome, (each.lineage.offset,), mark)
        if not item.redelivered:
            unsuccessful = outcomes.unsuccessful()
            acked = [offset for index, offset in enumerate(item.offsets()) if index not in unsuccessful]
            if acked:
                journal.note(partition.topic, partition.number, "acked", acked, mark)
            return
        for index, late_ms in item.lateness:
            lineage = item.lineages[index]
            journal.note_lateness(lineage.address, lineage.partition, late_ms)
        for lineage in outcomes.succeeded():
            journal.note(lineage.address, lineage.partition, success_of(item), (lineage.offset,))

    def _produce_all(self, outcomes: Outcomes) -> None:
        """Produce the outputs, the retry records and the dead letters, or what an aborted write has left of them."""
        assigned, first = outcomes.assigned, len(self.produced)
        if outcomes.unwritten is None:
            for each in outcomes.decided.values():
                self._produce_decided(assigned, each)
            outputs, offsets_of_outputs = outcomes.item.emitted(outcomes.unacknowledged)
            self.produced += outputs
            self._sources.append((assigned, offsets_of_outputs, "output"))
            self.bytes += sum(len(output.value or b"") for output in outputs)
            if outcomes.item.redelivered and any(lineage.redrive for lineage in outcomes.item.lineages):
                for offset, record in self._dependencies.redrive_outcomes.of(outcomes, self._dependencies.clock()):
                    self.produced.append(record)
                    self._sources.append((assigned, (offset,), "redrive outcome"))
        else:
            for left in outcomes.unwritten:
                self.produced.append(left.record)
                self._sources.append((assigned, (left.offset,), left.role))
                self.bytes += len(left.record.value or b"")
        outcomes.produced = range(first, len(self.produced))

    def _produce_decided(self, assigned: AssignedPartition, decided: Decided) -> None:
        """Produce the retry record or the dead letter of a decision."""
        dependencies, route = self._dependencies, assigned.route
        _, headers, lineage, decision, now_ms, stays, _, failure = decided
        number = lineage.partition
        if isinstance(decision, Retry) and not stays:
            topic = dependencies.retry_topics.topic_for(decision.delay_ms) if decision.delay_ms > 0 else route.ready
            if dependencies.retry_topics.is_ordered(topic):
                number = dependencies.placement.number_for(number)
            new_headers = retry_headers(lineage, dependencies.group, headers, decision, failure)
            self._produce(assigned, decided, "retry", topic, number, new_headers)
        elif isinstance(decision, DeadLetter):
            new_headers = dead_letter_headers(lineage, dependencies.group, headers, decision, now_ms)
            self._produce(assigned, decided, "dead letter", route.dead_letter_of(decision), number, new_headers)

    def _produce(
        self, assigned: AssignedPartition, decided: Decided, role: str, topic: str, number: int, headers: HeaderList
    ) -> None:
        """Produce the record with new headers, into the partition for ``number``."""
        message = decided.message
        partition = self._dependencies.retry_topics.partition_for(topic, number)
        self.produced.append(ProducerRecord(topic, partition, message.key(), message.value(), headers))
        self._sources.append((assigned, (message.offset(),), role))
