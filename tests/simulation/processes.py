"""Workers and schedulers of the product between a simulated Kafka and simulated handlers."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import SLICE_S, Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.routes import RetryTopics, Route, TierPlacement
from kafka_redelivery.consumers.scheduler.scheduler import Scheduler
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.protocols import Partition
from tests.simulation.kafka import Kafka, Reader, Writer
from tests.unit.consumers.doubles import NoOpObserver

_BUSY_LOOK_S = 0.01
"""How long a process with work in progress sleeps at most; an event wakes it sooner."""

_FAILED = Failure(FailureKind.RAISED, "TimeoutError", "simulated")


@dataclass(slots=True)
class Group:
    """What all processes of a group share."""

    kafka: Kafka
    settings: Settings
    routes: Sequence[Route]
    tiers: TierSet
    random: Random
    mean_call_s: float
    fails: Callable[[str], bool]
    """Whether a call for a record of this source fails."""

    handled: Callable[[WorkItem, int, bool, str], None]
    """Called when a call ends: work item, index of the record, whether it failed, and the worker."""


class Process:
    """Makes the turns of a process when there is something to do."""

    def __init__(self, kafka: Kafka, name: str, role: str, number: int) -> None:
        self.name = name
        client = consumer_config({}, group=role, instance=None, scheduler=role == "schedulers")
        queue_bytes = int(client["queued.max.messages.kbytes"]) * 1024
        self.reader = Reader(kafka, queue_bytes, int(client.get("fetch.message.max.bytes", 2**20)))
        self.writer = Writer(kafka, role, number)
        self._kafka = kafka
        self.reader.wake = self.writer.wake = self.wake  # type: ignore[method-assign]
        self._due_s: float | None = None
        self._idle_from_s = 0.0
        self.busy_s = 0.0
        """Processor time of the polling thread."""

        self.most_buffered = 0
        self.most_bytes = 0

    def turn(self) -> None:
        """Make one turn of the product's loop."""
        raise NotImplementedError

    def buffered(self) -> tuple[int, int]:
        """Return the records in memory, and their bytes."""
        raise NotImplementedError

    def wake(self) -> None:
        """Make a turn as soon as the polling thread is free."""
        self._turn_at(max(self._kafka.timeline.now_s, self._idle_from_s))

    def _turn_at(self, when_s: float) -> None:
        if self._due_s is None or when_s < self._due_s:
            self._due_s = when_s
            self._kafka.timeline.at(when_s, lambda: self._turn(when_s))

    def _turn(self, when_s: float) -> None:
        if self._due_s != when_s:
            return  # there was a turn earlier
        self._due_s = None
        self.turn()
        costs, now_s = self._kafka.costs, self._kafka.timeline.now_s
        spent_s = costs.turn_s + costs.turn_partition_s * self.reader.owned + costs.turn_record_s * self.reader.fetched
        self.busy_s += spent_s
        self._idle_from_s = now_s + spent_s
        records, size = self.buffered()
        self.most_buffered, self.most_bytes = max(self.most_buffered, records), max(self.most_bytes, size)
        sleep_s = spent_s if self.reader.has_more else max(spent_s, self.sleep_s())
        self._turn_at(now_s + sleep_s)

    def sleep_s(self) -> float:
        """Return for how long nothing is due, if no event comes."""
        return self.reader.waits_s or _BUSY_LOOK_S


class _Finished(FinishedItems):
    """The queue of finished work items. Taking from it never waits."""

    def take(self, timeout_s: float) -> Iterator[WorkItem]:
        """See :class:`FinishedItems`."""
        del timeout_s
        return super().take(0.0)


class _Slots:
    """Slots whose handlers take time, and fail as the group says. See :class:`Slots`."""

    def __init__(self, group: Group, worker: "WorkerProcess", finished: FinishedItems, capacity: int) -> None:
        self.capacity = capacity
        self.busy_s = 0.0
        """Time of all handler calls."""

        self._group = group
        self._worker = worker
        self._finished = finished
        self._free = capacity
        self._todo: deque[WorkItem] = deque()
        timeline = group.kafka.timeline
        self._processor = Processor(as_handler(_never_called), {}, timeline.wall_clock_ms, None)

    def submit(self, item: WorkItem) -> None:
        """See :class:`Slots`."""
        self._todo.append(item)
        self._start_next()

    def _start_next(self) -> None:
        while self._free and self._todo:
            self._free -= 1
            item = self._todo.popleft()
            item.started_s = now_s = self._group.kafka.timeline.monotonic_s()
            self._call(item, now_s, now_s + SLICE_S)

    def _call(self, item: WorkItem, before_s: float, slice_end_s: float) -> None:
        if item.position >= len(item.messages) or item.stop or before_s > slice_end_s:
            self._return(item)
            return
        prepared = self._processor.prepare(item, item.messages[item.position])
        failure = prepared if isinstance(prepared, Failure) else None
        call_s = 0.0 if failure else self._group.random.expovariate(1 / self._group.mean_call_s)
        if failure is None and self._group.fails(item.lane.assigned.route.source):
            failure = _FAILED
        self.busy_s += call_s
        self._group.kafka.timeline.after(call_s, lambda: self._called(item, failure, before_s, slice_end_s))

    def _called(self, item: WorkItem, failure: Failure | None, before_s: float, slice_end_s: float) -> None:
        self._group.handled(item, item.position, failure is not None, self._worker.name)
        after_s = self._processor._store_outcome(item, failure, None, before_s, None)
        if after_s is None:
            self._return(item)
        else:
            self._call(item, after_s, slice_end_s)

    def _return(self, item: WorkItem) -> None:
        item.started_s = 0.0
        self._finished.put(item)
        self._free += 1
        self._worker.wake()
        self._start_next()

    def close(self, timeout_s: float) -> None:
        """See :class:`Slots`."""


def _never_called(_record: Record) -> None: ...


class WorkerProcess(Process):
    """A worker of the product."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group.kafka, f"w{number:03}", "workers", number)
        settings, timeline = group.settings, group.kafka.timeline
        (section,) = {*settings.handlers.values()}
        finished = _Finished()
        self.lanes = Lanes(
            section.ordering, section.slots, clock=timeline.wall_clock_ms, monotonic_s=timeline.monotonic_s
        )
        stops = Stops(NoOpObserver(), Health(clock_s=timeline.monotonic_s))
        assignment = Assignment(
            group.routes, self.reader, FirstOffsets(self.reader), stops, dict.fromkeys(settings.handlers, self.lanes)
        )
        dependencies = BatchDependencies(
            group=settings.group,
            retry_topics=RetryTopics(settings.naming(), group.tiers, group.kafka.counts),
            clock=timeline.failure_clock_ms,
            jitter=lambda: iter(group.random.random, None),
            write_failures={},
            placement=TierPlacement(assignment.source_numbers),
        )
        self.committer = Committer(
            dependencies, self.writer, self.reader, NoOpObserver(), WriteLimits(settings.limits.batch_records)
        )
        self.slots = _Slots(group, self, finished, section.slots)
        self.worker = Worker(
            reader=self.reader,
            committer=self.committer,
            assignment=assignment,
            dispatchers=dict.fromkeys(settings.handlers, Dispatcher(lanes=self.lanes, slots=self.slots)),
            fetcher=Fetcher(self.reader, assignment, [self.lanes], settings.limits, in_order=True),
            finished=finished,
            limits=settings.limits,
            observer=NoOpObserver(),
            health=Health(clock_s=timeline.monotonic_s),
        )

    def turn(self) -> None:
        """See :class:`Process`."""
        self.worker._turn()

    def buffered(self) -> tuple[int, int]:
        """See :class:`Process`."""
        both = [self.lanes.buffered(redelivered=each) for each in (False, True)]
        return sum(each.records for each in both), sum(each.bytes for each in both) + self.committer.bytes

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Take over partitions."""
        self.reader.start(self.worker.assigned(partitions))
        self.wake()

    def sleep_s(self) -> float:
        """See :class:`Process`: a batch waits for the end of a rest."""
        if self.writer.busy or not self.committer.batch.size:
            return self.reader.waits_s or 0.2
        rest_s = self.committer._resting_until_s - self._kafka.timeline.monotonic_s()
        return min(_BUSY_LOOK_S, rest_s) if rest_s > 0 else _BUSY_LOOK_S


class SchedulerProcess(Process):
    """A scheduler of the product."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group.kafka, f"s{number:03}", "schedulers", number)
        timeline = group.kafka.timeline
        health = Health(clock_s=timeline.monotonic_s)
        observer = NoOpObserver()
        clock = timeline.wall_clock_ms
        self.scheduler = Scheduler(group.settings, self.reader, self.writer, observer, clock, health=health)
        self.scheduler.topics.list()
        self.scheduler._use_topics()

    def turn(self) -> None:
        """See :class:`Process`."""
        self.scheduler._turn()

    def buffered(self) -> tuple[int, int]:
        """See :class:`Process`."""
        tiers, release = self.scheduler._tiers.values(), self.scheduler._engine.writing
        written = [] if release is None else [len(record.value or b"") for record in release.produced]
        return sum(map(len, tiers)) + len(written), sum(tier.bytes for tier in tiers) + sum(written)

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Take over partitions."""
        self.reader.start(self.scheduler.assigned(partitions))
        self.wake()

    def sleep_s(self) -> float:
        """See :class:`Process`: nothing can begin before the write in progress ends."""
        return self.reader.waits_s or 0.2
