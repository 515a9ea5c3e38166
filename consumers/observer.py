"""What workers and schedulers tell about themselves: frozen details, given to a hook once a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from topology.decision import AckType


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
    """By source topic and reason; discarded ones are among the outcomes only."""

    lateness_ms: Sequence[int] = ()
    """For each redelivery handed out: how long after it was due. Negative = early."""

    handler_seconds: Sequence[float] = ()


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


@dataclass(frozen=True, slots=True)
class TierBacklog:
    """What waits in one tier, as far as this scheduler owns it."""

    tier: str
    pending: int
    oldest_ms: int | None
    """Since when the oldest one waits (epoch ms), ``None`` if nothing does."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker between two turns."""

    assigned: int
    in_flight: int
    halted: int
    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic, as far as this worker owns it."""


class Observer(Protocol):
    """Receives the details. Called on the polling thread: must be quick and must not raise."""

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

    def undone(self, cause: str) -> None:
        """A write was undone and will be done again."""
        ...

    def rebalanced(self, event: str) -> None:
        """Partitions were ``assigned``, ``revoked`` or ``lost``."""
        ...

    def halted(self, cause: str) -> None:
        """The process stops, or a partition does, to protect data."""
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

    def undone(self, cause: str) -> None:
        """Nothing."""

    def rebalanced(self, event: str) -> None:
        """Nothing."""

    def halted(self, cause: str) -> None:
        """Nothing."""
