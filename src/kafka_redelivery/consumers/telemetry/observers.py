"""What the parts of a process report about themselves: one narrow protocol per sender, and the details that it sends.

A sender calls its observer once per write, or once per second, never once per record. A call comes on the polling
thread unless its protocol names another one. It must be quick and must not raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.transport.errors import WriterFencedError


class OutcomeLabel(NamedTuple):
    """One kind of outcome: source topic, ``acked`` / ``retried`` / ..., and the acknowledgement type."""

    topic: str
    outcome: str
    ack_type: AckType


class HaltCause(StrEnum):
    """Why a partition stands still: a :class:`RefusalCause` of a record, or what keeps the partition from being read.

    ``docs/runbooks/RedeliveryWorkerHalted.md`` explains each.
    """

    TOO_LARGE = "too_large"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
    OFFLINE = "offline"
    CLOCK = "clock"
    CONFIGURATION = "configuration"
    UNAVAILABLE = "unavailable"
    UNFETCHABLE = "unfetchable"
    TRUNCATED = "truncated"
    DELETED = "deleted"
    EXPIRED = "expired"
    METADATA = "metadata"
    CONTROL = "control"


class HaltLabel(NamedTuple):
    """Why partitions are halted, with the topic that refuses a record or cannot be read."""

    refused_by: str
    cause: HaltCause


class ProcessObserver(Protocol):
    """Receives the events that every process can meet which writes for a group."""

    def write_aborted(self, cause: str) -> None:
        """A write was aborted. The process repeats the outcomes that it kept, or rewinds to the committed offsets."""

    def writes_failing(self, seconds: float) -> None:
        """About once a second: how long all writes have been aborted."""

    def fenced(self) -> None:
        """Another process has taken over this process's transactional id. Only a query ends."""

    def halted(self, cause: str) -> None:
        """The process stops, or stops reading a partition, to protect data."""

    def halted_partitions(self, numbers: Mapping[HaltLabel, int]) -> None:
        """About once a second: how many partitions are halted."""

    def paused(self, partitions: Mapping[str, int], applied: int) -> None:
        """About once a second: how many partitions of each topic are paused, and which control offset is applied."""


class MemberObserver(ProcessObserver, Protocol):
    """Receives also what changes the partitions of a process."""

    def rebalanced(self, event: str) -> None:
        """Partitions were ``assigned``, ``revoked`` or ``lost``."""


@contextmanager
def report_halts(observer: ProcessObserver) -> Iterator[None]:
    """Report to ``observer`` if the block ends with an error that protects data; the error is raised on.

    Prometheus may not scrape the process again before it ends.
    """
    try:
        yield
    except WriterFencedError as error:
        observer.fenced()
        observer.halted(str(error))
        raise
    except HaltedError as error:
        observer.halted(str(error))
        raise


class OutageObserver(Protocol):
    """Receives what handlers depend on and find away."""

    def outages(self, away: Mapping[str, bool], partitions: Mapping[str, int]) -> None:
        """About once a second, if handlers depend on anything.

        Args:
            away: whether each dependency is away.
            partitions: by topic, how many partitions wait because one is.
        """


@dataclass(frozen=True, slots=True)
class Committed:
    """One confirmed write of a worker."""

    seconds: float
    """Duration of the write."""

    outcomes: Mapping[OutcomeLabel, int]
    redeliveries: Mapping[tuple[str, int], int]
    """By source topic and attempt (the delivery that failed, from 1)."""

    dead_letters: Mapping[tuple[str, str], int]
    """By source topic and reason."""

    lateness_ms: Sequence[int] = ()
    """For each redelivery handed out: the time since it was due. Negative = early."""

    handler_seconds: Sequence[float] = ()
    recoveries: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Redeliveries that succeeded, by source topic and attempt. First deliveries that succeed are in ``outcomes``."""

    discarded: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By source topic and reason."""

    redriven: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Records sent again from a dead-letter topic that have ended, by source topic and outcome."""

    redriven_arrived: Mapping[str, int] = field(default_factory=dict)
    """Records sent again from a dead-letter topic whose first delivery since is over, by source topic."""

    outage_lateness_ms: Sequence[int] = ()
    """As ``lateness_ms``, of the redeliveries that were due before the outage of a dependency was over."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A snapshot of a worker."""

    assigned: int
    in_flight: int
    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic, for the partitions assigned to this worker."""

    unacknowledged: int = 0
    """Records whose handler has returned without acknowledging them."""


class OutcomeObserver(ProcessObserver, Protocol):
    """Receives the outcomes of records."""

    def committed(self, details: Committed) -> None:
        """A write was confirmed."""


class WorkerObserver(MemberObserver, OutcomeObserver, OutageObserver, Protocol):
    """Receives the outcomes and the state of a worker."""

    def worker_state(self, details: WorkerState) -> None:
        """About once a second."""


@dataclass(frozen=True, slots=True)
class Released:
    """One confirmed write of a scheduler."""

    seconds: float
    lateness_ms: Sequence[int]
    """For each record that became ready: the time between its due time and the confirmation."""

    moved: int
    """Records that went to a shorter tier."""

    clock_faults: int = 0
    outcomes: Mapping[OutcomeLabel, int] = field(default_factory=dict)
    """Outcomes of the records that could not be released."""

    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Records that were dead-lettered because they could not be released, by source topic and reason."""

    discarded: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Records that were discarded because they could not be released, by source topic and reason."""

    redriven: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """As for :class:`Committed`."""


@dataclass(frozen=True, slots=True)
class TierBacklog:
    """The records that wait in one tier, in the partitions assigned to this scheduler."""

    tier: str
    pending: int
    oldest_ms: int | None
    """Append time of the oldest record (epoch ms), ``None`` if no record waits."""

    delay_ms: int
    partitions: int
    """Number of the tier's partitions that are assigned to this scheduler."""


class SchedulerObserver(MemberObserver, Protocol):
    """Receives the releases and the backlog of a scheduler."""

    def released(self, details: Released) -> None:
        """A write was confirmed."""

    def backlog(self, details: Sequence[TierBacklog]) -> None:
        """About once a second."""


class DeadLetterLabel(NamedTuple):
    """One kind of dead letter: source topic and reason. A value that is not configured is ``(unknown)``."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """The dead letters of one kind, in the partitions that this scheduler counts."""

    depth: int
    """Dead letters that have not expired."""

    expired: int
    oldest_ms: int | None
    """Append time of the oldest dead letter that has not expired (epoch ms), ``None`` if there is none."""


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """One dead-letter topic, in the partitions that this scheduler counts."""

    unread: int
    """Records that are not counted yet."""

    retention_ms: int | None
    """Retention time of the topic, ``None`` = unlimited."""

    loss_ms: int | None
    """When retention may first delete a dead letter before its own expiration (epoch ms), ``None`` = never."""


@dataclass(frozen=True, slots=True)
class DeadLetterCounts:
    """The contents of all dead-letter topics."""

    kinds: Mapping[DeadLetterLabel, DeadLetterCount] = field(default_factory=dict)
    topics: Mapping[str, DeadLetterTopic] = field(default_factory=dict)
    halted: Mapping[HaltLabel, int] = field(default_factory=dict)
    """The number of partitions that cannot be read, so that their dead letters are not counted."""


class DeadLetterObserver(Protocol):
    """Receives the contents of the dead-letter topics, every few seconds, on the thread of the dead-letter monitor."""

    def dead_letter_counts(self, details: DeadLetterCounts) -> None:
        """What the dead-letter topics hold."""

    def unowned_partitions(self, numbers: Mapping[str, int]) -> None:
        """By topic: the number of partitions that no process of the group reads."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweeper did, by dead-letter topic."""

    removed: Mapping[str, int] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """How often Kafka refused to move or to remove something."""

    clock_faults: int = 0
    """How often the wall clock was found ahead."""


@dataclass(frozen=True, slots=True)
class SweeperState:
    """What a sweeper waits for, in the partitions assigned to it."""

    next_ms: Mapping[str, int] = field(default_factory=dict)
    """By dead-letter topic: when the next first record of a partition expires (epoch ms)."""

    paused: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By dead-letter topic and reason: the number of partitions that are paused."""


class SweeperObserver(Protocol):
    """Receives the work and the state of a sweeper, on the sweeper's thread."""

    def swept(self, details: Swept) -> None:
        """Expired dead letters were moved or removed, or Kafka refused it."""

    def sweeper_state(self, details: SweeperState) -> None:
        """About once a second."""


class NoOpSweeperObserver:
    """Does nothing. For a sweep whose caller reports the result."""

    def swept(self, details: Swept) -> None:
        """See :meth:`SweeperObserver.swept`."""

    def sweeper_state(self, details: SweeperState) -> None:
        """See :meth:`SweeperObserver.sweeper_state`."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One finished micro-batch of a streaming query."""

    seconds: float
    """From its trigger to its end."""

    records: int
    """Records that were read. A replayed micro-batch reads records that it then skips."""

    behind_latest: Mapping[str, int] = field(default_factory=dict)
    """By topic: offsets that were known and left to later micro-batches."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """A snapshot of a streaming query."""

    assigned: int
    idle: bool
    """Whether no micro-batch is running."""

    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic: the distance from the end of the last finished micro-batch to the end of the topic."""


class QueryObserver(MemberObserver, OutcomeObserver, OutageObserver, Protocol):
    """Receives the outcomes, the progress and the state of a streaming query."""

    def micro_batch(self, details: MicroBatch) -> None:
        """A micro-batch has finished."""

    def query_state(self, details: QueryState) -> None:
        """About once a second."""

    def table_progress(self) -> None:
        """The query of ``pipeline.sink`` was started, has appended to its table, or has nothing to append."""
