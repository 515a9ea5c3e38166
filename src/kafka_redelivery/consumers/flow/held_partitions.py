"""Partitions whose next record cannot be handled yet, because something outside it does not answer.

That is a schema registry, Kafka when it is asked whether the topic of an output exists, or what a process of the
handler needs at its start. No delivery is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.observers import HaltLabel
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""A partition goes on at most this long after the cause is gone."""

_CAUSE = "unavailable"
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class _Held:
    offset: int
    """The record that has held the partition first."""

    problem: str
    pause_s: float
    until_s: float
    """When the record is tried again (monotonic)."""


class HeldPartitions:
    """Pauses each such partition alone; after growing pauses it is tried again. Only the polling thread uses it.

    Args:
        clock_s: monotonic seconds.
    """

    def __init__(self, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._clock_s = clock_s
        self._held: dict[Partition, _Held] = {}

    def __bool__(self) -> bool:
        """Whether a partition is held or tried again."""
        return bool(self._held)

    def hold(self, partition: Partition, offset: int, cause: str) -> None:
        """Hold a partition at the offset of its next record."""
        before, now_s = self._held.get(partition), self._clock_s()
        if before is not None and now_s < before.until_s:
            return  # another record of the same partition
        pause_s = FIRST_PAUSE_S if before is None else min(2 * before.pause_s, LONGEST_PAUSE_S)
        first = offset if before is None else before.offset
        problem = f"{partition} waits at offset {first}, uncounted: {cause}"
        _log.warning("%s; it is tried again in %g s", problem, pause_s)
        self._held[partition] = _Held(first, problem, pause_s, now_s + pause_s)

    def waiting(self) -> frozenset[Partition]:
        """Return the partitions of which no record may start now."""
        now_s = self._clock_s()
        return frozenset(partition for partition, held in self._held.items() if now_s < held.until_s)

    def left_s(self, max_s: float = LONGEST_PAUSE_S) -> float:
        """Return the seconds until a partition may be tried again, at most ``max_s``."""
        now_s = self._clock_s()
        return min((max(0.0, held.until_s - now_s) for held in self._held.values()), default=max_s)

    def progressed(self, partition: Partition, offsets: Container[int]) -> None:
        """Records of the partition have got their outcomes. If the one that holds it is among them, it goes on."""
        held = self._held.get(partition)
        if held is not None and held.offset in offsets:
            del self._held[partition]
            _log.info("%s-%d goes on", *partition)

    def forget(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned."""
        self._held.pop(partition, None)

    def labels(self) -> Counter[HaltLabel]:
        """Return the numbers of held partitions for the metric."""
        return Counter(HaltLabel(partition.topic, _CAUSE) for partition in self._held)

    def problem(self) -> str:
        """Return lines for the readiness probe; empty if no partition is held."""
        lines = [held.problem for held in self._held.values()]
        more = len(lines) - _MAX_LISTED
        return "\n".join([*lines[:_MAX_LISTED], *([f"and {more} more partitions wait"] if more > 0 else [])])
