"""Simulates workers that own the same partitions one after the other and may die at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.delivery_notes import NotedLanes
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.dependencies import NO_DEPENDENCIES, Dependencies
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.record import Context, Record, Unavailable
from kafka_redelivery.consumers.handlers.slot_sessions import SlotSessions
from kafka_redelivery.consumers.handlers.slots import ItemProcessor
from kafka_redelivery.consumers.process.pause_watch import NoPauses, PauseView
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.settings import BatchSection, DependencySection, LimitsSection, Ordering
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState, ProbeLease, read_outage
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, WriteResult
from tests.unit.consumers.batches import shared
from tests.unit.consumers.doubles import NoOpObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, Fetched, entry, record, route

TOO_LARGE = b"too large"


class WorkerDiedError(BaseException):
    """The worker process died."""


class Shape(NamedTuple):
    """A handler: how its records are ordered and handed out."""

    ordering: Ordering = Ordering.PARTITION
    slots: int = 1
    blocking: bool = False
    persist: bool = True


@dataclass
class ControlTopic:
    """What workers tell each other about outages."""

    outages: dict[str, OutageNote] = field(default_factory=dict)
    """What workers have written."""

    closings: dict[str, OutageNote] = field(default_factory=dict)
    """The newest closing among these."""

    decided: dict[str, OutageNote] = field(default_factory=dict)
    """What operators have written."""

    shared: bool = True
    """Whether it can be read and written."""

    compacted: bool = False
    """Whether each closing is gone before another worker has read it."""

    probes = MappingProxyType[str, ProbeLease]({})

    def publish(self, records: list[ControlRecord]) -> None:
        """See :class:`OutageView`."""
        for _, value in records if self.shared else ():
            note = read_outage(value, self.end)
            assert note is not None
            if note.state is OutageState.CLOSED and self.compacted:
                continue
            self.outages = {**self.outages, "bank": note}
            if note.state is OutageState.CLOSED:
                self.closings = {"bank": note}

    @property
    def end(self) -> int:
        """The offset of its next record."""
        return 1 + max((note.offset for note in (*self.outages.values(), *self.decided.values())), default=-1)

    def decide(self, *, away: bool, until_ms: int | None = None) -> None:
        """Write what an operator says."""
        state = OutageState.OPEN if away else OutageState.CLOSED
        self.decided = {"bank": OutageNote("by hand", state, "ann", NOW, until_ms, operator=True, offset=self.end)}


@dataclass
class Bank:
    """Something that handlers call, and that is away at times."""

    away: Sequence[tuple[int, int]]
    """From when to when it is away (ms since the start)."""

    section: DependencySection = field(default_factory=DependencySection)
    control: ControlTopic = field(default_factory=ControlTopic)
    refuses_keys: frozenset[bytes] = frozenset()
    """The keys for which it is away all the time of an outage; with some, all others are answered."""

    sources: Sequence[str] = ("orders",)
    """The sources that declare it."""

    callers: Sequence[str] = ("orders",)
    """The sources whose handlers call it."""

    calls: list[tuple[int, bool]] = field(default_factory=list)
    """When it was called (ms since the start), and whether it answered."""

    def call(self, now_ms: int, key: bytes) -> None:
        """Answer, or raise :class:`Unavailable`."""
        away = any(first <= now_ms - NOW < end for first, end in self.away)
        away = away and (not self.refuses_keys or key in self.refuses_keys)
        self.calls.append((now_ms - NOW, not away))
        if away:
            raise Unavailable("bank", key=bool(self.refuses_keys))


@dataclass
class SimulatedKafka:
    """What outlives a worker: the partitions, the commits, the written records and the time."""

    records: dict[Partition, list[Fetched]]
    random: Random
    killers: frozenset[int] = frozenset()
    """Offsets of partition 0 of ``orders`` that kill the worker which handles them."""

    failing: frozenset[int] = frozenset()
    """Offsets of every partition that fail at their first two deliveries."""

    poison: frozenset[int] = frozenset()
    """Offsets of every partition that always fail."""

    refused: frozenset[int] = frozenset()
    """Offsets of every partition whose first delivery emits a record that the broker refuses."""

    critical: frozenset[int] = frozenset()
    """Offsets of partition 0 of ``orders`` that make the worker halt."""

    ordering: Ordering = Ordering.PARTITION
    batch: BatchSection | None = None
    """The handler takes batches of this size."""

    nameless_rate: float = 0.0
    """Probability that a call with a batch of several records raises without naming one."""

    batches: list[list[tuple[Partition, int]]] = field(default_factory=list)
    """Partition and offset of the records of each call with a batch."""

    slots: int = 1
    blocking: bool = False
    persist: bool = True
    others: Mapping[str, Shape] = field(default_factory=dict)
    """Sources other than ``orders`` with the shapes of their handlers."""

    slow: bool = False
    """While it is true, no write ends."""

    mode: AcknowledgementMode = AcknowledgementMode.TRANSACTED
    abort_rate: float = 0.0
    """Probability that a write is aborted."""

    unheard_rate: float = 0.0
    """Probability that a write is committed, but reported as aborted."""

    policy: RedeliveryPolicy = field(default_factory=lambda: RedeliveryPolicy(maximum_redeliveries=2))
    pauses: PauseView = field(default_factory=NoPauses)
    bank: Bank | None = None
    """What handlers call for each record, if it is not ``None``."""

    now_ms: int = NOW
    waits: bool = True
    """Whether time goes on while a worker waits for records. Otherwise the test sets it, for several workers."""

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

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of the handler of each source."""
        return {"orders": Shape(self.ordering, self.slots, self.blocking, self.persist), **self.others}

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
        if self._kafka.waits:
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
            self.script.append(
                WriteRefusedError([RefusedRecord(n, "too large", RefusalCause.TOO_LARGE) for n in large])
            )
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


class _Finished(FinishedItems):
    """It gets its items between two turns of the worker, so that waiting for one would take time and bring none."""

    def take(self, timeout_s: float) -> Iterator[WorkItem]:
        del timeout_s
        return super().take(0.0)


class _Slots:
    """Slots that handle work items in random order, some of them between two turns of the worker."""

    def __init__(self, kafka: SimulatedKafka, capacity: int, processor: ItemProcessor, finished: FinishedItems) -> None:
        self.capacity = capacity
        self._random = kafka.random
        self._kafka = kafka
        self._processor = processor
        self._finished = finished
        self._todo: list[WorkItem] = []
        self.submitted: list[list[tuple[int, int]]] = []
        """Partition and offset of the records of each submitted work item."""

        self.most = 0
        """How many handlers were called at once at most."""

        self.hangs = False
        """Whether no call returns."""

    def submit(self, item: WorkItem) -> None:
        self.submitted.append([(message.partition(), message.offset()) for message in item.messages])
        self._todo.append(item)
        self.most = max(self.most, len(self._todo[: self.capacity]))

    @property
    def busy(self) -> bool:
        return bool(self._todo)

    def work(self) -> None:
        while self._todo and not self.hangs and self._random.random() < 0.7:
            item = self._todo.pop(self._random.randrange(min(self.capacity, len(self._todo))))
            self._processor.run(item)
            if item.outage is not None:
                item.outage = item.outage._replace(began_s=self._kafka.now_ms / 1000)
            item.started_s = 0.0
            self._finished.put(item)

    def close(self, timeout_s: float) -> None:
        """Do nothing: no handler runs between two turns."""


class SimulatedWorker:
    """One worker process."""

    def __init__(
        self, kafka: SimulatedKafka, partitions: Iterable[Partition] | None = None, bank: Bank | None = None
    ) -> None:
        """Start.

        Args:
            kafka: what outlives it.
            partitions: those of this worker; ``None`` = all.
            bank: as this worker reaches it; ``None`` = that of ``kafka``.
        """
        self._kafka = kafka
        self._bank = bank = bank or kafka.bank
        kafka.workers += 1
        self._dead = False
        self._turns_left = 10**9
        finished = _Finished()
        common = _shared(kafka)
        limits = LimitsSection(batch=50, buffer_records=400)
        single = self._handle_by_session if kafka.mode.by_handler else self._handle
        handler = as_handler(single if kafka.batch is None else self._handle_batch)
        needs = Dependencies({"bank": 5000})
        sessions = Sessions(individual=kafka.mode is AcknowledgementMode.INDIVIDUAL)
        self._unacknowledged: list[Record] = []
        self.slots = []
        dispatchers = {}
        for topic, (ordering, slots, blocking, persist) in kafka.shapes.items():
            dependencies = NO_DEPENDENCIES if bank is None or topic not in bank.sources else needs
            processor = processor_of(
                replace(handler, dependencies=dependencies),
                {},
                lambda: kafka.now_ms,
                None,
                blocking=blocking,
                sessions=SlotSessions(sessions) if kafka.mode.by_handler else None,
            )
            self.slots.append(_Slots(kafka, slots, processor, finished))
            kind = partial(NotedLanes, max_ahead=limits.batch_records, author=kafka.workers) if persist else Lanes
            lanes = kind(
                ordering,
                slots,
                max_in_place=MAX_IN_PLACE + 2,
                filling=self._filling(ordering, blocking=blocking or bool(dependencies.names)),
                clock=lambda: kafka.now_ms,
                monotonic_s=lambda: kafka.now_ms / 1000,
            )
            dispatchers[topic] = Dispatcher(
                lanes=lanes, slots=self.slots[-1], blocking=blocking, dependencies=dependencies
            )
        self.reader = _Reader(kafka, self._on_fetch)
        self.writer = _Writer(kafka)
        assignment = Assignment(
            [route(entry(kafka.policy), topic=topic, blocking=shape.blocking) for topic, shape in kafka.shapes.items()],
            self.reader,
            FirstOffsets(self.reader),
            Stops(NoOpObserver(), Health(), kafka.pauses),
            {topic: dispatcher.lanes for topic, dispatcher in dispatchers.items()},
        )
        in_order = {each.ordering for each in kafka.shapes.values()} == {Ordering.PARTITION}
        buffers = [dispatcher.lanes for dispatcher in dispatchers.values()]
        self.worker = Worker(
            reader=self.reader,
            committer=Committer(common, self.writer, self.reader, NoOpObserver(), WriteLimits(50)),
            assignment=assignment,
            dispatchers=dispatchers,
            fetcher=Fetcher(self.reader, assignment, buffers, limits, in_order=in_order and not kafka.mode.by_handler),
            unacknowledged=Unacknowledged(sessions) if kafka.mode.by_handler else None,
            finished=finished,
            limits=limits,
            observer=NoOpObserver(),
            outages=self._outages(kafka, bank, sum(slots.capacity for slots in self.slots)),
        )
        self.assign(kafka.records if partitions is None else partitions)

    def _filling(self, ordering: Ordering, *, blocking: bool) -> BatchFilling | None:
        if self._kafka.batch is None or (blocking and ordering is Ordering.PARTITION):
            return None
        return BatchFilling(self._kafka.batch, one_per_key=blocking, monotonic_s=lambda: self._kafka.now_ms / 1000)

    @staticmethod
    def _outages(kafka: SimulatedKafka, bank: Bank | None, full: int) -> Outages | None:
        if bank is None:
            return None
        return Outages(
            sections={"bank": bank.section},
            full={"bank": full},
            probes={},
            view=bank.control,
            health=Health(),
            instance=f"w{kafka.workers}",
            draw=kafka.random.random,
            new_id=lambda: f"{kafka.random.random()}",
            clock_s=lambda: kafka.now_ms / 1000,
            clock_ms=lambda: kafka.now_ms,
        )

    @property
    def isolating(self) -> bool:
        """Whether a suspect is isolated."""
        return self.worker._notes is not None and self.worker._notes.isolating

    @property
    def in_flight(self) -> list[WorkItem]:
        """The work items in slots."""
        return [item for dispatcher in self.worker.dispatchers.values() for item in dispatcher.in_flight]

    @property
    def handed_out(self) -> list[list[tuple[int, int]]]:
        """Partition and offset of the records of each work item that was submitted so far."""
        return [item for slots in self.slots for item in slots.submitted]

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Assign partitions to the worker."""
        self.reader.start(dict(self.worker.assigned(list(partitions))))

    def revoke(self, partitions: Iterable[Partition]) -> None:
        """Revoke partitions from the worker, which may finish its work."""
        while any(slots.busy for slots in self.slots):
            self.work()
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
        self.work()
        if self._unacknowledged and self._kafka.random.random() < 0.5:
            number = self._kafka.random.randrange(len(self._unacknowledged))
            self._unacknowledged.pop(number).acknowledge()  # as another thread would, much later
        if self._dead or self._turns_left < 0:
            raise WorkerDiedError

    def work(self) -> None:
        """Let each handler work."""
        for slots in self.slots:
            slots.work()

    def _handle(self, record: Record, context: Context) -> None:
        if self._dead:
            return
        partition = Partition(record.topic, record.partition)
        if self._bank is not None and record.topic in self._bank.callers:
            self._bank.call(self._kafka.now_ms, record.key)
        self._kafka.handled.append((partition, record.offset, context.attempt, self._kafka.now_ms))
        first = partition == Partition("orders", 0)
        if first and record.offset in self._kafka.killers:
            self._dead = True
        elif first and record.offset in self._kafka.critical:
            raise MemoryError("no room")
        elif record.offset in self._kafka.poison or (record.offset in self._kafka.failing and context.attempt < 3):
            raise ValueError("not yet")
        elif record.offset in self._kafka.refused and context.attempt == 1:
            context.send("totals", TOO_LARGE)
        else:
            context.send("totals", b"%d@%d" % (partition.number, record.offset))

    def _handle_batch(self, batch: Batch[object]) -> None:
        """Handle each record like a handler of single ones, unless the call raises. Such a call counts for nothing."""
        kafka, before = self._kafka, len(self._kafka.handled)
        kafka.batches.append([(Partition(each.topic, each.partition), each.offset) for each in batch])
        nameless = len(batch) > 1 and kafka.random.random() < kafka.nameless_rate
        for each in batch:
            try:
                self._handle(each, batch.context(each))
            except (ValueError, MemoryError, Unavailable) as error:
                batch.fail(each, error)
            if nameless and not self._dead and kafka.random.random() < 0.3:
                del kafka.handled[before:]
                raise RuntimeError("names no record")

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
    )
