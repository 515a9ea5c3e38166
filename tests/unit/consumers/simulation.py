"""Simulates workers that own the same partitions one after the other and may die at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.delivery_notes import DeliveryNotes
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.lost_positions import LostPositions
from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.handlers.session_processor import SessionProcessor
from kafka_redelivery.consumers.process.pause_watch import NoPauses, PauseView
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.settings import LimitsSection, Ordering
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, WriteResult
from tests.unit.consumers.batches import shared
from tests.unit.consumers.doubles import NoOpObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, entry, record, route

TOO_LARGE = b"too large"


class WorkerDiedError(BaseException):
    """The worker process died."""


@dataclass
class SimulatedKafka:
    """What outlives a worker: the partitions, the commits, the written records and the time."""

    records: dict[Partition, list[Fetched]]
    random: Random
    killers: frozenset[int] = frozenset()
    """Offsets of partition 0 that kill the worker which handles them."""

    failing: frozenset[int] = frozenset()
    """Offsets of every partition that fail at their first two deliveries."""

    poison: frozenset[int] = frozenset()
    """Offsets of every partition that always fail."""

    refused: frozenset[int] = frozenset()
    """Offsets of every partition whose first delivery emits a record that the broker refuses."""

    critical: frozenset[int] = frozenset()
    """Offsets of partition 0 that make the worker halt."""

    ordering: Ordering = Ordering.PARTITION
    slots: int = 1
    blocking: bool = False
    persist: bool = True
    slow: bool = False
    """While it is true, no write ends."""

    mode: AcknowledgementMode = AcknowledgementMode.TRANSACTED
    abort_rate: float = 0.0
    """Probability that a write is aborted."""

    unheard_rate: float = 0.0
    """Probability that a write is committed, but reported as aborted."""

    policy: RedeliveryPolicy = field(default_factory=lambda: RedeliveryPolicy(maximum_redeliveries=2))
    pauses: PauseView = field(default_factory=NoPauses)
    now_ms: int = NOW
    commits: dict[Partition, Checkpoint] = field(default_factory=dict)
    written: list[ProducerRecord] = field(default_factory=list)
    handled: list[tuple[Partition, int, int, int]] = field(default_factory=list)
    """Partition, offset, attempt and time of each call of the handler."""

    longest_metadata: int = 0
    workers: int = 0

    @property
    def done(self) -> bool:
        """Whether everything is committed."""
        return all(
            partition in self.commits and self.commits[partition].offset == len(records)
            for partition, records in self.records.items()
        )

    def attempts(self) -> dict[tuple[Partition, int], list[int]]:
        """The attempts of each record, in the order of its deliveries."""
        found: dict[tuple[Partition, int], list[int]] = defaultdict(list)
        for partition, offset, attempt, _ in self.handled:
            found[partition, offset].append(attempt)
        return found


def simulated_kafka(numbers: Sequence[int], seed: int = 0, *, keys: int = 5, **more: object) -> SimulatedKafka:
    """Partitions with these numbers of records."""
    records = {
        Partition("orders", n): [record(i, key=b"%d" % (i % keys), partition=n) for i in range(number)]
        for n, number in enumerate(numbers)
    }
    return SimulatedKafka(records, Random(seed), **more)  # type: ignore[arg-type]  # noqa: S311 - no secret


class _Reader(StoredOffsets):
    def __init__(self, kafka: SimulatedKafka, on_fetch: Callable[[], None]) -> None:
        super().__init__(kafka.commits, {partition: (0, len(r)) for partition, r in kafka.records.items()})
        self._kafka = kafka
        self._on_fetch = on_fetch
        self._positions: dict[Partition, int] = {}

    def start(self, positions: dict[Partition, int]) -> None:
        self._positions |= positions
        self.paused -= positions.keys()  # as the real reader resumes what is assigned

    def stop(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            del self._positions[partition]

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        self._on_fetch()
        self._kafka.now_ms += max(1, round(timeout_s * 1000))
        found: list[Message] = []
        for partition, position in self._positions.items():
            if partition not in self.paused:
                number = min(maximum - len(found), self._kafka.random.randint(0, 40))
                some = self._kafka.records[partition][position : position + number]
                self._positions[partition] += len(some)
                found += some
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        self._positions[partition] = offset


class _Writer(ScriptedWriter):
    def __init__(self, kafka: SimulatedKafka) -> None:
        super().__init__()
        self._kafka = kafka

    def result(self, within_s: float | None = 0.0) -> WriteResult | None:
        kafka = self._kafka
        if within_s is not None and (kafka.slow or kafka.random.random() < 0.5):
            return None
        large = [n for n, copy in enumerate(self.tried[-1][0]) if copy.value == TOO_LARGE]
        if large:
            self.script.append(WriteRefusedError([RefusedRecord(n, "too large") for n in large]))
        elif kafka.random.random() < kafka.abort_rate:
            self.script.append(WriteAbortedError("the transaction was aborted"))
        unheard = not self.script and kafka.random.random() < kafka.unheard_rate
        written = super().result(within_s)
        copies, checkpoints = self.confirmed[-1]
        kafka.written += copies
        kafka.commits |= checkpoints
        kafka.longest_metadata = max(
            kafka.longest_metadata, *(len(point.metadata) for point in checkpoints.values()), 0
        )
        if unheard:
            raise WriteAbortedError("the commit timed out")
        return written


class _Slots:
    """Slots that handle work items in random order, some of them between two turns of the worker."""

    def __init__(self, kafka: SimulatedKafka, processor: Processor, finished: FinishedItems) -> None:
        self.capacity = kafka.slots
        self._random = kafka.random
        self._processor = processor
        self._finished = finished
        self._todo: list[WorkItem] = []
        self.submitted: list[list[tuple[int, int]]] = []
        """Partition and offset of the records of each submitted work item."""

    def submit(self, item: WorkItem) -> None:
        self.submitted.append([(message.partition(), message.offset()) for message in item.messages])
        self._todo.append(item)

    @property
    def busy(self) -> bool:
        return bool(self._todo)

    def work(self) -> None:
        while self._todo and self._random.random() < 0.7:
            item = self._todo.pop(self._random.randrange(min(self.capacity, len(self._todo))))
            self._processor.run(item)
            item.started_s = 0.0
            self._finished.put(item)

    def close(self, timeout_s: float) -> None:
        """Do nothing: no handler runs between two turns."""


class SimulatedWorker:
    """One worker process."""

    def __init__(self, kafka: SimulatedKafka, partitions: Iterable[Partition] | None = None) -> None:
        self._kafka = kafka
        kafka.workers += 1
        self._dead = False
        self._turns_left = 10**9
        finished = FinishedItems()
        common = _shared(kafka)
        lanes = Lanes(
            kafka.ordering,
            kafka.slots,
            persist_deliveries=kafka.persist,
            clock=lambda: kafka.now_ms,
            monotonic_s=lambda: kafka.now_ms / 1000,
        )
        handler = as_handler(self._handle_by_session if kafka.mode.by_handler else self._handle)
        sessions = Sessions(individual=kafka.mode is AcknowledgementMode.INDIVIDUAL)
        self._unacknowledged: list[Record] = []
        processor = (
            SessionProcessor(sessions, handler, {}, lambda: kafka.now_ms, None)
            if kafka.mode.by_handler
            else Processor(handler, {}, lambda: kafka.now_ms, None, blocking=kafka.blocking)
        )
        self._slots = _Slots(kafka, processor, finished)
        self.reader = _Reader(kafka, self._on_fetch)
        self.writer = _Writer(kafka)
        limits = LimitsSection(batch=50, buffer_records=400)
        assignment = Assignment(
            [route(entry(kafka.policy))],
            self.reader,
            FirstOffsets(self.reader),
            author=kafka.workers if kafka.persist else None,
            max_in_place=MAX_IN_PLACE + 2,
        )
        lost_positions = LostPositions(self.reader, assignment, NoOpObserver(), Health())
        in_order = kafka.ordering is Ordering.PARTITION and not kafka.mode.by_handler
        self.worker = Worker(
            reader=self.reader,
            committer=Committer(common, self.writer, NoOpObserver(), 50),
            assignment=assignment,
            lanes=lanes,
            fetcher=Fetcher(self.reader, assignment, lanes, limits, lost_positions, in_order=in_order),
            delivery_notes=DeliveryNotes(lanes, limits.batch_records),
            unacknowledged=Unacknowledged(sessions, lanes),
            slots=self._slots,
            finished=finished,
            limits=limits,
            observer=NoOpObserver(),
            blocking=kafka.blocking,
            pauses=kafka.pauses,
        )
        self.assign(kafka.records if partitions is None else partitions)

    @property
    def handed_out(self) -> list[list[tuple[int, int]]]:
        """Partition and offset of the records of each work item that was submitted so far."""
        return list(self._slots.submitted)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Assign partitions to the worker."""
        self.reader.start(dict(self.worker.assigned(list(partitions))))

    def revoke(self, partitions: Iterable[Partition]) -> None:
        """Revoke partitions from the worker, which may finish its work."""
        while self._slots.busy:
            self._slots.work()
        self.worker.revoked(list(partitions))
        self.reader.stop(partitions)

    def run(self, turns: int = 10**9, *, dying_after: int = 10**9) -> None:
        """Run for a number of turns, or until every record is committed.

        Raises:
            WorkerDiedError: a record killed the worker, or it has made ``dying_after`` turns.
        """
        self._turns_left = dying_after
        for _ in range(turns):
            if self._kafka.done:
                return
            self.worker._turn()

    def _on_fetch(self) -> None:
        self._turns_left -= 1
        self._slots.work()
        if self._unacknowledged and self._kafka.random.random() < 0.5:
            number = self._kafka.random.randrange(len(self._unacknowledged))
            self._unacknowledged.pop(number).acknowledge()  # as another thread would, much later
        if self._dead or self._turns_left < 0:
            raise WorkerDiedError

    def _handle(self, record: Record, context: Context) -> None:
        if self._dead:
            return
        partition = Partition(record.topic, record.partition)
        self._kafka.handled.append((partition, record.offset, context.attempt, self._kafka.now_ms))
        if partition.number == 0 and record.offset in self._kafka.killers:
            self._dead = True
        elif partition.number == 0 and record.offset in self._kafka.critical:
            raise MemoryError("no room")
        elif record.offset in self._kafka.poison or (record.offset in self._kafka.failing and context.attempt < 3):
            raise ValueError("not yet")
        elif record.offset in self._kafka.refused and context.attempt == 1:
            context.send("totals", TOO_LARGE)
        else:
            context.send("totals", b"%d@%d" % (partition.number, record.offset))

    def _handle_by_session(self, record: Record, context: Context) -> None:
        self._handle(record, context)
        drawn = self._kafka.random.random()
        if drawn < 0.2:
            record.acknowledge()
        elif drawn < 0.25:
            context.recover()
        else:
            self._unacknowledged.append(record)


def _shared(kafka: SimulatedKafka) -> BatchDependencies:
    common = shared()
    return BatchDependencies(
        group=common.group,
        retry_topics=common.retry_topics,
        clock=lambda: kafka.now_ms,
        jitter=common.jitter,
        write_failures={},
        blocking=kafka.blocking,
    )
