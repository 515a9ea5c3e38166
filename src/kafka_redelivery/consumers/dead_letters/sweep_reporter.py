"""Reports a sweep to the metrics and to the log; a problem is logged once a minute, not at every attempt."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
from kafka_redelivery.consumers.telemetry.observers import SweeperObserver, SweeperState, Swept
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_REPORT_INTERVAL_S = 1.0
_LOG_INTERVAL_S = 60.0


class SweepReporter:
    """Counts what one sweeper does, and reports it."""

    def __init__(self, observer: SweeperObserver, clock: SweepClock) -> None:
        self._observer = observer
        self._clock = clock
        self.total_moved: Counter[Partition] = Counter()
        self.total_removed: Counter[Partition] = Counter()
        self._removed_since_log: Counter[str] = Counter()
        self._reported_s = self._logged_s = 0.0
        self._problems: dict[Partition, tuple[str, float]] = {}
        """The problem of each partition that was logged last, and when."""

    def moved(self, numbers: Mapping[Partition, int]) -> None:
        """Count dead letters that were moved."""
        self.total_moved.update(numbers)
        self._observer.swept(Swept(moved=_by_topic(numbers)))

    def removed(self, numbers: Mapping[Partition, int]) -> None:
        """Count dead letters that were removed."""
        if numbers:
            self.total_removed.update(numbers)
            self._removed_since_log.update(_by_topic(numbers))
            self._observer.swept(Swept(removed=_by_topic(numbers)))

    def not_moved(self, refused: Mapping[Partition, tuple[int, str]]) -> None:
        """Count and log the first dead letter of each partition that Kafka refused to move, with the reason."""
        self._refused(
            {
                partition: f"the expired dead letter {partition}@{offset} cannot be moved, so it stays, and so does "
                f"every dead letter behind it: {reason}"
                for partition, (offset, reason) in refused.items()
            }
        )

    def not_removed(self, failed: Mapping[Partition, str]) -> None:
        """Count and log the partitions whose dead letters Kafka refused to remove, with the reason."""
        self._refused(
            {
                partition: f"expired dead letters of {partition} cannot be removed, so they stay until the next "
                f"attempt: {reason}"
                for partition, reason in failed.items()
            }
        )

    def _refused(self, problems: Mapping[Partition, str]) -> None:
        """Count refusals by Kafka, and log each problem if it is new or was last logged a minute ago."""
        if problems:
            self._observer.swept(Swept(refused=Counter(partition.topic for partition in problems)))
        now_s = monotonic_s()
        for partition, problem in problems.items():
            logged, logged_s = self._problems.get(partition, ("", 0.0))
            if problem != logged or now_s - logged_s >= _LOG_INTERVAL_S:
                self._problems[partition] = problem, now_s
                _log.error("%s", problem)

    def forbidden(self, topic: str, problem: str) -> None:
        """Count and log a topic that the user may not read."""
        _log.error("expired dead letters stay: %s", problem)
        self._observer.swept(Swept(refused={topic: 1}))

    def report(self, cursors: Mapping[Partition, SweepCursor], forbidden: Iterable[str]) -> None:
        """Report the state of all partitions, at most once a second."""
        now_s = monotonic_s()
        if now_s - self._reported_s < _REPORT_INTERVAL_S:
            return
        self._reported_s = now_s
        faults, self._clock.faults = self._clock.faults, 0
        if faults:
            self._observer.swept(Swept(clock_faults=faults))
        next_ms: dict[str, int] = {}
        paused: Counter[tuple[str, str]] = Counter()
        for partition, cursor in cursors.items():
            if cursor.pause_reason is None:
                continue
            paused[partition.topic, str(cursor.pause_reason)] += 1
            if cursor.pause_reason is PauseReason.NOT_YET:
                next_ms[partition.topic] = min(cursor.expires_ms, next_ms.get(partition.topic, cursor.expires_ms))
        paused.update((topic, str(PauseReason.REFUSED)) for topic in forbidden)
        self._observer.sweeper_state(SweeperState(next_ms, paused))
        if self._removed_since_log and now_s - self._logged_s >= _LOG_INTERVAL_S:
            self._logged_s = now_s
            for topic, number in self._removed_since_log.items():
                _log.info("removed %d expired dead letters from %s", number, topic)
            self._removed_since_log.clear()


def _by_topic(numbers: Mapping[Partition, int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for partition, number in numbers.items():
        totals[partition.topic] += number
    return totals
