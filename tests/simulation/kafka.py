"""A simulated Kafka: partitions with transactions, and brokers that take time for each request.

The times of requests are a model. ``costs.py`` says where its numbers come from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, ReleaseTime, WriteResult
from tests.simulation.costs import Costs
from tests.simulation.timeline import Timeline
from tests.unit.consumers.records import Fetched


@dataclass(slots=True)
class Log:
    """The records of a partition; ``None`` is the marker of a transaction."""

    records: list[Fetched | None] = field(default_factory=list)
    open: dict[object, int] = field(default_factory=dict)
    """The first offset of each open transaction."""

    reader: "Reader | None" = None

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return min(self.open.values(), default=len(self.records))


class Broker:
    """Handles requests in the order of their arrival, on several cores."""

    def __init__(self, timeline: Timeline, cores: int) -> None:
        self._timeline = timeline
        self._cores = cores
        self._free_s = 0.0
        self.busy_s = 0.0
        """Processor time of all requests so far."""

    def serve(self, seconds: float, then: Callable[[], object]) -> None:
        """Take a request that arrives now and takes so much processor time; call ``then`` when it is answered."""
        self.busy_s += seconds
        begins_s = max(self._timeline.now_s, self._free_s)
        self._free_s = begins_s + seconds / self._cores
        self._timeline.at(begins_s + seconds, then)


class Kafka:
    """Topics, their leaders, and the committed offsets of all groups."""

    def __init__(self, timeline: Timeline, costs: Costs, brokers: int) -> None:
        self.timeline = timeline
        self.costs = costs
        self.brokers = [Broker(timeline, costs.broker_cores) for _ in range(brokers)]
        self.coordinators = {role: Broker(timeline, 1) for role in ("workers", "schedulers")}
        """The coordinator of each group, which handles the offsets of all its members one after the other."""

        self.counts: dict[str, int] = {}
        self.logs: dict[Partition, Log] = {}
        self.commits: dict[Partition, Checkpoint] = {}
        self.produce_requests = 0
        self.markers = 0

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; its leaders are spread over the brokers."""
        self.counts[topic] = partitions
        for number in range(partitions):
            self.logs[Partition(topic, number)] = Log()
            self.commits[Partition(topic, number)] = Checkpoint(0, "")

    def leader(self, partition: Partition) -> int:
        """Return the number of the broker that leads a partition."""
        return (crc32(partition.topic.encode()) + partition.number) % len(self.brokers)

    def append(self, partition: Partition, record: ProducerRecord, stamp_ms: int) -> None:
        """Append a record, which readers do not get before :meth:`show`."""
        log = self.logs[partition]
        log.records.append(Fetched(*partition, len(log.records), record.key, record.value, record.headers, stamp_ms))

    def show(self, partition: Partition, when_s: float) -> None:
        """Let the partition's reader get what is stable, when a fetch has brought it."""
        reader = self.logs[partition].reader
        if reader is not None:
            self.timeline.at(when_s + self.costs.fetch_s, lambda: reader.arrive(partition))


class Reader:
    """The consumer of a process. See :class:`kafka_redelivery.transport.protocols.Reader`."""

    forbidden: Mapping[str, str] = {}
    unfetchable: Mapping[Partition, str] = {}

    def forbid(self, topics: Iterable[str]) -> None:
        """See :class:`kafka_redelivery.transport.protocols.Reader`. Every topic may be read."""

    def __init__(self, kafka: Kafka, queue_bytes: int = 2**40, partition_bytes: int = 2**40) -> None:
        """Read nothing.

        Args:
            kafka: the brokers.
            queue_bytes: the client fetches as long as it has queued less than this.
            partition_bytes: what a broker answers of a partition at most, or one record.
        """
        self._kafka = kafka
        self._partition_bytes = partition_bytes
        self._max_bytes = queue_bytes * (1 + len(kafka.brokers))  # each broker's answer may be as large as the queue
        self._positions: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self._arrived: dict[Partition, None] = {}
        self._ends: dict[Partition, int] = {}
        self.waits_s = 0.0
        """For how long the last fetch without records would have waited."""

        self.fetched = 0
        """Records of the last fetch."""

    @property
    def has_more(self) -> bool:
        """Whether a fetch would return records now."""
        return any(each not in self.paused for each in self._arrived)

    @property
    def owned(self) -> int:
        """Number of assigned partitions."""
        return len(self._positions)

    def wake(self) -> None:
        """Replaced by the process."""

    def start(self, positions: Mapping[Partition, int]) -> None:
        """Begin to read partitions."""
        for partition, position in positions.items():
            self._positions[partition] = position
            self.paused.discard(partition)
            self._kafka.logs[partition].reader = self
            if position < self._kafka.logs[partition].stable_end:
                self._kafka.show(partition, self._kafka.timeline.now_s)

    def stop(self, partitions: Iterable[Partition]) -> None:
        """End reading partitions."""
        for partition in partitions:
            if self._positions.pop(partition, None) is not None:
                self._kafka.logs[partition].reader = None
                self._arrived.pop(partition, None)

    def arrive(self, partition: Partition) -> None:
        """Records of a partition are in the client's queue."""
        if partition in self._positions:
            self._arrived[partition] = None
            if partition not in self.paused:
                self.wake()

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return what has arrived; the process waits instead of this method."""
        found: list[Message] = []
        size = 0
        for partition in list(self._arrived):
            if partition in self.paused:
                continue
            log, position = self._kafka.logs[partition], self._positions[partition]
            end, most = log.stable_end, min(self._max_bytes, size + self._partition_bytes)
            for entry in log.records[position:end]:
                if len(found) >= maximum or size >= most:
                    break
                position += 1
                if entry is not None:
                    found.append(entry)
                    size += len(entry)
            self._positions[partition] = position
            if position >= end:
                del self._arrived[partition]
                self._ends[partition] = end
            if len(found) >= maximum or size >= self._max_bytes:
                break
        self.waits_s, self.fetched = timeout_s, len(found)
        return found

    def take_reached_ends(self) -> Mapping[Partition, int]:
        """See the protocol."""
        ends, self._ends = self._ends, {}
        return ends

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See the protocol."""
        self.paused.update(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See the protocol. The records come with the next fetch, after the one in progress."""
        for partition in partitions:
            self.paused.discard(partition)
            if self._arrived.pop(partition, 0) is None:
                after_s = self._kafka.costs.fetch_wait_s + self._kafka.costs.fetch_s
                self._kafka.timeline.after(after_s, lambda each=partition: self.arrive(each))  # type: ignore[misc]

    def seek(self, partition: Partition, offset: int) -> None:
        """See the protocol."""
        self._positions[partition] = offset
        self._kafka.show(partition, self._kafka.timeline.now_s)

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """See the protocol."""
        return {each: self._kafka.commits[each] for each in partitions}

    committed_now = committed

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """See the protocol."""
        return 0, self._kafka.logs[partition].stable_end

    bounds_now = bounds

    def end_at(self, _partition: Partition, _time_ms: int, end: int) -> int:
        """See the protocol. Every partition has a leader here, so this is not asked for."""
        return end

    def lags(self, next_offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """See the protocol."""
        ends = {each: len(self._kafka.logs[each].records) for each in next_offsets}
        return {each: max(0, ends[each] - max(at, self._positions[each])) for each, at in next_offsets.items()}

    def partition_counts(self, topics: Iterable[str] | None = None) -> Mapping[str, int]:
        """See the protocol."""
        counts = self._kafka.counts
        return counts if topics is None else {each: counts[each] for each in topics if each in counts}

    def subscribe(self, topics: Sequence[str], listener: object) -> None:
        """Do nothing: the simulation assigns."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Write:
    touched: dict[Partition, list[ProducerRecord]]
    checkpoints: Mapping[Partition, Checkpoint]
    release_time: ReleaseTime | None
    began_s: float
    prepared_s: float = 0.0
    committing_s: float = 0.0
    open: int = 0
    """Requests that are not answered."""


class Writer:
    """The transactional writer of a process. See :class:`kafka_redelivery.transport.protocols.BackgroundWriter`."""

    def __init__(self, kafka: Kafka, role: str, number: int) -> None:
        self._kafka = kafka
        self._coordinator = kafka.brokers[number % len(kafka.brokers)]
        self._group = kafka.coordinators[role]
        self._marking = 0
        """Markers of the last transaction that are not written."""

        self._next: _Write | None = None
        self._result = WriteResult(0.0)
        self.busy = False
        self.began_s: float | None = None
        self.writes = 0
        self.partitions = 0
        """Partitions with records of all writes so far."""

        self.longest_s = 0.0

    def wake(self) -> None:
        """Replaced by the process."""

    def begin(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
    ) -> None:
        """See the protocol."""
        assert not self.busy
        timeline = self._kafka.timeline
        self.busy, self.began_s, self.writes = True, timeline.monotonic_s(), self.writes + 1
        touched: dict[Partition, list[ProducerRecord]] = {}
        for record in records:
            touched.setdefault(Partition(record.topic, record.partition or 0), []).append(record)
        self.partitions += len(touched)
        self._next = _Write(touched, dict(checkpoints), release_time, timeline.now_s)
        self._send_offsets()

    def _send_offsets(self) -> None:
        """Begin the write, as soon as the markers of the last one are written: until then brokers refuse it."""
        write = self._next
        if write is None or self._marking:
            return
        self._next = None
        costs = self._kafka.costs
        self._later(
            lambda: self._coordinator.serve(
                costs.add_offsets_s,
                lambda: self._later(lambda: self._group.serve(costs.offsets_s, lambda: self._produce(write))),
            )
        )

    def _later(self, call: Callable[[], object]) -> None:
        self._kafka.timeline.after(self._kafka.costs.round_trip_s, call)

    def _produce(self, write: _Write) -> None:
        """Send a request for each partition, one after the other on the connection of each broker."""
        kafka, costs = self._kafka, self._kafka.costs
        by_broker: dict[int, float] = {}
        for partition, records in write.touched.items():
            leader = kafka.leader(partition)
            by_broker[leader] = by_broker.get(leader, 0.0) + costs.produce_s + costs.record_s * len(records)
        kafka.produce_requests += len(write.touched)
        write.open = len(by_broker)
        for number, seconds in by_broker.items():
            broker = kafka.brokers[number]
            self._later(lambda broker=broker, seconds=seconds: broker.serve(seconds, lambda: self._produced(write)))  # type: ignore[misc]
        if not by_broker:
            self._prepared(write)

    def _produced(self, write: _Write) -> None:
        write.open -= 1
        if not write.open:
            self._prepared(write)

    def _prepared(self, write: _Write) -> None:
        timeline = self._kafka.timeline
        write.prepared_s, stamp_ms = timeline.now_s, timeline.wall_clock_ms()
        if write.release_time is not None:
            stamp_ms = write.release_time.epoch_ms
        for partition, records in write.touched.items():
            log = self._kafka.logs[partition]
            log.open[self] = len(log.records)
            for record in records:
                self._kafka.append(partition, record, stamp_ms)
        when_s = write.prepared_s
        if write.release_time is not None:
            when_s = max(when_s, write.release_time.monotonic_s - timeline.monotonic_s() + timeline.now_s)
        timeline.at(when_s, lambda: self._commit(write))

    def _commit(self, write: _Write) -> None:
        costs = self._kafka.costs
        write.committing_s = self._kafka.timeline.now_s
        self._later(lambda: self._coordinator.serve(costs.end_s, lambda: self._mark(write)))

    def _mark(self, write: _Write) -> None:
        kafka, costs, now_s = self._kafka, self._kafka.costs, self._kafka.timeline.now_s
        kafka.markers += len(write.touched)
        self._marking = len(write.touched)
        for partition in write.touched:
            broker = kafka.brokers[kafka.leader(partition)]
            broker.serve(costs.marker_s, lambda each=partition: self._marked(each))  # type: ignore[misc]
        spent_s = now_s - write.began_s - (write.committing_s - write.prepared_s)
        self.longest_s = max(self.longest_s, spent_s)
        kafka.commits.update(write.checkpoints)
        self._result = WriteResult(spent_s, write.prepared_s - write.began_s)
        self.busy, self.began_s = False, None
        self.wake()

    def _marked(self, partition: Partition) -> None:
        log = self._kafka.logs[partition]
        log.open.pop(self, None)
        log.records.append(None)
        self._kafka.show(partition, self._kafka.timeline.now_s)
        self._marking -= 1
        self._send_offsets()

    def result(self, within_s: float | None = 0.0) -> WriteResult | None:
        """See the protocol. It never waits."""
        del within_s
        return None if self.busy else self._result

    def begin_trial(self, record: ProducerRecord, pause_s: float) -> None:
        """Never needed: nothing is refused."""
        raise NotImplementedError(record, pause_s)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Never needed, as :meth:`begin_trial`."""
        raise NotImplementedError(checkpoints)

    def close(self) -> None:
        """Do nothing."""
