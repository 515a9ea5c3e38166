"""What the processes of a group tell about themselves: frozen details, given to a hook once a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from consumers.errors import HaltedError
from topology.decision import AckType
from transport.errors import WriterFencedError


class OutcomeLabel(NamedTuple):
    """One kind of outcome: source topic, ``acked`` / ``retried`` / ..., and the acknowledgement type."""

    topic: str
    outcome: str
    ack_type: AckType


@dataclass(frozen=True, slots=True)
class Committed:
    """One write of a worker, after it was confirmed."""

    seconds: float
    """How long the write took."""

    outcomes: Mapping[OutcomeLabel, int]
    redeliveries: Mapping[tuple[str, int], int]
    """By source topic and attempt (the delivery that failed, from 1)."""

    dead_letters: Mapping[tuple[str, str], int]
    """By source topic and reason."""

    lateness_ms: Sequence[int] = ()
    """For each redelivery handed out: how long after it was due. Negative = early."""

    handler_seconds: Sequence[float] = ()
    recoveries: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By source topic and attempt: what a redelivery brought to success; the first attempts' are outcomes only."""

    discarded: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By source topic and reason."""


@dataclass(frozen=True, slots=True)
class Released:
    """One write of a scheduler, after it was confirmed."""

    seconds: float
    lateness_ms: Sequence[int]
    """For each record that became ready: confirmed minus due."""

    moved: int
    """Records that went on to a lower tier."""

    clock_faults: int = 0
    outcomes: Mapping[OutcomeLabel, int] = field(default_factory=dict)
    """Of records that could not be released."""

    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Those among them that were dead-lettered, by source topic and reason."""

    discarded: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The same of those that were dropped."""


@dataclass(frozen=True, slots=True)
class TierBacklog:
    """What waits in one tier, as far as this scheduler owns it."""

    tier: str
    pending: int
    oldest_ms: int | None
    """Since when the oldest one waits (epoch ms), ``None`` if nothing does."""

    delay_ms: int
    partitions: int
    """How many of the tier's it owns."""


class DeadLetterLabel(NamedTuple):
    """One kind of dead letters: source topic and reason, each ``(unknown)`` if it is none of those configured."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetterStanding:
    """What is kept of one kind of dead letters, as far as this scheduler watches it."""

    depth: int
    """Without the expired ones."""

    expired: int
    oldest_ms: int | None
    """Since when the oldest one that has not expired is kept (epoch ms), ``None`` if there is none."""


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """One dead-letter topic, as far as this scheduler watches it."""

    unread: int
    """Records not counted yet."""

    retention_ms: int | None
    """How long the topic keeps a record, ``None`` = for ever."""

    loss_ms: int | None
    """From when on retention may delete one before its own expiration (epoch ms), ``None`` = never."""


@dataclass(frozen=True, slots=True)
class DeadLettersKept:
    """What is kept of all dead letters."""

    kinds: Mapping[DeadLetterLabel, DeadLetterStanding] = field(default_factory=dict)
    topics: Mapping[str, DeadLetterTopic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweeper did, by dead-letter topic."""

    removed: Mapping[str, int] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """How often Kafka refused to move or to remove something."""

    clock_faults: int = 0
    """How often the clock was found ahead."""


@dataclass(frozen=True, slots=True)
class SweepStanding:
    """What a sweeper waits for, as far as it owns the partitions."""

    next_ms: Mapping[str, int] = field(default_factory=dict)
    """By dead-letter topic: when the next head expires (epoch ms)."""

    resting: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By dead-letter topic and reason: how many partitions are not swept on."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker between two turns."""

    assigned: int
    in_flight: int
    halted: int
    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic, as far as this worker owns it."""

    unacknowledged: int = 0
    """Records that their handlers returned from without a word."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of a streaming query, after it ended."""

    seconds: float
    """From its trigger to its end."""

    records: int
    """That were read; a replayed one reads again what it then skips."""

    behind_latest: Mapping[str, int] = field(default_factory=dict)
    """By topic: offsets that it knew of and left for later ones."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """A streaming query, once a second."""

    assigned: int
    resting: bool
    """Whether it is between two micro-batches."""

    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic: behind what the last micro-batch finished."""


class Observer(Protocol):
    """Receives the details. Called on the polling thread unless it says otherwise: must be quick and must not raise."""

    def committed(self, details: Committed) -> None:
        """A worker's write was confirmed."""
        ...

    def released(self, details: Released) -> None:
        """A scheduler's write was confirmed."""
        ...

    def backlog(self, details: Sequence[TierBacklog]) -> None:
        """What waits, told about once a second."""
        ...

    def state(self, details: WorkerState) -> None:
        """How the worker stands, told about once a second."""
        ...

    def dead_letters_kept(self, details: DeadLettersKept) -> None:
        """What the dead-letter topics hold, told every few seconds by a thread of its own."""
        ...

    def swept(self, details: Swept) -> None:
        """Expired dead letters were moved or removed, or could not be; told by the sweeper's thread."""
        ...

    def sweep_stands(self, details: SweepStanding) -> None:
        """What the sweeper waits for, told about once a second by the same thread."""
        ...

    def unowned(self, partitions: Mapping[str, int]) -> None:
        """How many partitions of each topic nobody has, told every few seconds by the thread of the dead letters."""
        ...

    def fenced(self) -> None:
        """Another process has taken this one's name; this one ends."""
        ...

    def undone(self, cause: str) -> None:
        """A write was undone and will be done again."""
        ...

    def rebalanced(self, event: str) -> None:
        """Partitions were ``assigned``, ``revoked`` or ``lost``."""
        ...

    def halted(self, cause: str) -> None:
        """The process stops, or a partition does, to protect data."""
        ...

    def micro_batch(self, details: MicroBatch) -> None:
        """A micro-batch of a streaming query ended."""
        ...

    def query(self, details: QueryState) -> None:
        """How a streaming query stands, told about once a second."""
        ...


class Silent:
    """An observer that nobody listens to."""

    def committed(self, details: Committed) -> None:
        """Nothing."""

    def released(self, details: Released) -> None:
        """Nothing."""

    def backlog(self, details: Sequence[TierBacklog]) -> None:
        """Nothing."""

    def state(self, details: WorkerState) -> None:
        """Nothing."""

    def dead_letters_kept(self, details: DeadLettersKept) -> None:
        """Nothing."""

    def swept(self, details: Swept) -> None:
        """Nothing."""

    def sweep_stands(self, details: SweepStanding) -> None:
        """Nothing."""

    def unowned(self, partitions: Mapping[str, int]) -> None:
        """Nothing."""

    def fenced(self) -> None:
        """Nothing."""

    def undone(self, cause: str) -> None:
        """Nothing."""

    def rebalanced(self, event: str) -> None:
        """Nothing."""

    def halted(self, cause: str) -> None:
        """Nothing."""

    def micro_batch(self, details: MicroBatch) -> None:
        """Nothing."""

    def query(self, details: QueryState) -> None:
        """Nothing."""


@contextmanager
def telling_halts(observer: Observer) -> Iterator[None]:
    """Tell if the block ends because the process must not go on; the endpoint is scraped a last time, or it is not."""
    try:
        yield
    except WriterFencedError as error:
        observer.fenced()
        observer.halted(str(error))
        raise
    except HaltedError as error:
        observer.halted(str(error))
        raise
