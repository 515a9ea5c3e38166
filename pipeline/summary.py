"""What a task tells the driver: one row, the same as a worker would tell its observer."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from consumers.observer import Committed
from transport.protocols import Partition


class Ended(StrEnum):
    """How a task ended. What is not among these ends it with an error."""

    DONE = "done"
    HALTED = "halted"
    """A decision says so, or the broker refuses what may not be lost."""

    REPLACED = "replaced"
    """Another driver has taken this one's place in the group."""

    OUTDATED = "outdated"
    """The group has changed: the micro-batch is to be run once more, with the membership of then."""

    SUPERSEDED = "superseded"
    """Another task has this partition: the micro-batch is to be run once more."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What one task did."""

    place: Partition | None
    ended: Ended
    cause: str
    runner: str
    """The Python worker it ran in: it still holds the partition's producer."""

    writes: Sequence[Committed] = field(default=())
    undone: Sequence[str] = ()
    """Of each write that was undone and made again: why."""

    def packed(self) -> bytes:
        """As a row holds it."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpacked(cls, row: bytes) -> Summary:
        """The opposite."""
        found: Summary = pickle.loads(row)  # noqa: S301 - written by our own task
        return found


def together(writes: Iterable[Committed]) -> Committed:
    """Several writes as one."""
    outcomes: Counter[object] = Counter()
    redeliveries: Counter[object] = Counter()
    dead_letters: Counter[object] = Counter()
    recoveries: Counter[object] = Counter()
    discarded: Counter[object] = Counter()
    lateness: list[int] = []
    seconds: list[float] = []
    took = 0.0
    for write in writes:
        outcomes.update(write.outcomes)
        redeliveries.update(write.redeliveries)
        dead_letters.update(write.dead_letters)
        recoveries.update(write.recoveries)
        discarded.update(write.discarded)
        lateness += write.lateness_ms
        seconds += write.handler_seconds
        took += write.seconds
    return Committed(took, outcomes, redeliveries, dead_letters, lateness, seconds, recoveries, discarded)  # type: ignore[arg-type]
