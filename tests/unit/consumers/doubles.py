"""Doubles for the protocols of transport: scripted results, recorded calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import (
    Committed,
    DeadLetterCounts,
    HaltLabel,
    ProcessObserver,
    Released,
    TierBacklog,
    WorkerState,
)
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import (
    Message,
    Partition,
    ProducerRecord,
    RebalanceListener,
    ReleaseTime,
    WriteResult,
)


@dataclass
class ScriptedWriter:
    """A writer that raises the errors of its script, one per write, and then confirms every write."""

    script: list[Exception] = field(default_factory=list)
    tried: list[tuple[list[ProducerRecord], dict[Partition, Checkpoint]]] = field(default_factory=list)
    confirmed: list[tuple[list[ProducerRecord], dict[Partition, Checkpoint]]] = field(default_factory=list)
    dues: list[ReleaseTime | None] = field(default_factory=list)
    """The due time of each write."""

    pauses_s: list[float] = field(default_factory=list)
    """The pause before each trial."""

    seconds: float = 0.0
    """Duration of each write."""

    finished: list[dict[Partition, Checkpoint]] = field(default_factory=list)
    """The offsets that were committed after a write that ended with an error."""

    slow: bool = False
    """Whether writes do not end, unless the caller waits without limit."""

    closed: bool = False
    busy: bool = False
    began_s: float | None = None

    def begin(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
    ) -> None:
        """See :class:`BackgroundWriter`."""
        assert not self.busy
        self.busy = True
        self.tried.append((list(records), dict(checkpoints)))
        self.dues.append(release_time)

    def begin_trial(self, record: ProducerRecord, pause_s: float) -> None:
        """See :class:`BackgroundWriter`."""
        assert not self.busy
        self.busy = True
        self.pauses_s.append(pause_s)
        self.tried.append(([record], {}))

    def result(self, within_s: float | None = 0.0) -> WriteResult | None:
        """See :class:`BackgroundWriter`."""
        assert self.busy
        if self.slow and within_s is not None:
            return None
        self.busy = False
        if self.script:
            raise self.script.pop(0)
        self.confirmed.append(self.tried[-1])
        return WriteResult(self.seconds)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`BackgroundWriter`."""
        self.finished.append(dict(checkpoints))

    def close(self) -> None:
        """See :class:`BackgroundWriter`."""
        self.closed = True


class NoOpObserver:
    """Observer of a worker, a scheduler or a dead-letter monitor that does nothing."""

    def committed(self, details: Committed) -> None: ...
    def worker_state(self, details: WorkerState) -> None: ...
    def released(self, details: Released) -> None: ...
    def backlog(self, details: Sequence[TierBacklog]) -> None: ...
    def dead_letter_counts(self, details: DeadLetterCounts) -> None: ...
    def unowned_partitions(self, numbers: Mapping[str, int]) -> None: ...
    def rebalanced(self, event: str) -> None: ...
    def write_aborted(self, cause: str) -> None: ...
    def writes_failing(self, seconds: float) -> None: ...
    def fenced(self) -> None: ...
    def halted(self, cause: str) -> None: ...
    def halted_partitions(self, numbers: Mapping[HaltLabel, int]) -> None: ...
    def paused(self, partitions: Mapping[str, int], applied: int) -> None: ...
    def outages(self, away: Mapping[str, bool], partitions: Mapping[str, int]) -> None: ...


class RecordingObserver(NoOpObserver):
    """An observer that records what it receives."""

    def __init__(self) -> None:
        self.commits: list[Committed] = []
        self.abort_causes: list[str] = []
        self.failing_s = 0.0
        self.halt_causes: list[str] = []
        self.halted_numbers: Mapping[HaltLabel, int] = {}
        self.rebalances: list[str] = []

    def committed(self, details: Committed) -> None:
        """Record it."""
        self.commits.append(details)

    def write_aborted(self, cause: str) -> None:
        """Record it."""
        self.abort_causes.append(cause)

    def writes_failing(self, seconds: float) -> None:
        """Record it."""
        self.failing_s = seconds

    def halted(self, cause: str) -> None:
        """Record it."""
        self.halt_causes.append(cause)

    def halted_partitions(self, numbers: Mapping[HaltLabel, int]) -> None:
        """Record it."""
        self.halted_numbers = numbers

    def rebalanced(self, event: str) -> None:
        """Record it."""
        self.rebalances.append(event)


def no_stops(observer: ProcessObserver | None = None, health: Health | None = None) -> Stops:
    """The stops of a process in which no partition stands still yet."""
    return Stops(observer or NoOpObserver(), health or Health())


@dataclass
class StoredOffsets:
    """A reader of partitions with given committed offsets, bounds and records to fetch."""

    commits: dict[Partition, Checkpoint] = field(default_factory=dict)
    ends: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    fetches: list[list[Message]] = field(default_factory=list)
    deleted: list[PositionDeletedError] = field(default_factory=list)
    """What the next calls of :meth:`fetch` raise."""

    sought: list[tuple[Partition, int]] = field(default_factory=list)
    paused: set[Partition] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    reached: dict[Partition, int] = field(default_factory=dict)
    """The ends that the next call of :meth:`take_reached_ends` returns."""

    forbidden: dict[str, str] = field(default_factory=dict)
    unfetchable: dict[Partition, str] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    """The topics whose committed offsets may not be read."""

    leaderless: set[Partition] = field(default_factory=set)
    written_ms: dict[Partition, dict[int, int]] = field(default_factory=dict)
    """Timestamps of records, by their offsets."""

    asked: list[Partition] = field(default_factory=list)
    """The partitions whose bounds were asked for by :meth:`bounds_now`."""

    waits_s: list[float] = field(default_factory=list)
    """How long each call of :meth:`fetch` may wait."""

    closed: bool = False

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """See :class:`Reader`."""
        self.waits_s.append(timeout_s)
        if self.deleted:
            raise self.deleted.pop(0)
        if not self.fetches:
            return []
        records = self.fetches.pop(0)
        assert len(records) <= maximum
        return records

    def forbid(self, topics: Iterable[str]) -> None:
        """See :class:`Reader`."""
        self.forbidden |= dict.fromkeys(topics, "denied")

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`."""
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`."""
        self.paused -= set(partitions)

    def seek(self, partition: Partition, offset: int) -> None:
        """See :class:`Reader`."""
        self.sought.append((partition, offset))

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """See :class:`Reader`."""
        return {each: self.commits.get(each) for each in partitions if each.topic not in self.unreadable}

    def committed_now(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """See :class:`Reader`."""
        return self.committed(partitions)

    def take_reached_ends(self) -> Mapping[Partition, int]:
        """See :class:`Reader`."""
        reached, self.reached = self.reached, {}
        return reached

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """See :class:`Reader`."""
        return self.ends[partition]

    def bounds_now(self, partition: Partition) -> tuple[int, int] | None:
        """See :class:`Reader`."""
        self.asked.append(partition)
        return None if partition in self.leaderless else self.ends[partition]

    def end_at(self, partition: Partition, time_ms: int, end: int) -> int | None:
        """See :class:`Reader`."""
        later = [at for at, written_ms in self.written_ms.get(partition, {}).items() if written_ms >= time_ms]
        return None if partition in self.leaderless else min(later, default=end)

    def lags(self, next_offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """See :class:`Reader`."""
        return {each: self.ends.get(each, (0, offset))[1] - offset for each, offset in next_offsets.items()}

    def partition_counts(self, topics: Iterable[str] | None = None) -> Mapping[str, int]:
        """See :class:`Reader`."""
        return self.counts if topics is None else {each: self.counts[each] for each in topics if each in self.counts}

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """See :class:`Reader`."""

    def close(self) -> None:
        """See :class:`Reader`."""
        self.closed = True


@dataclass
class Clock:
    """A monotonic clock that a test advances."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self.now_s += seconds
