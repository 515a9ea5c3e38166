"""What a sweeper tells: numbers to the observer, and to the log what somebody has to mend, but not again and again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from consumers.clock import monotonic_s
from consumers.observer import Observer, SweepStanding, Swept
from consumers.sweep_clock import SweepClock
from consumers.sweep_head import Head, Rest
from transport.protocols import Partition

_log = logging.getLogger(__name__)

_TELL_S = 1.0
_LOG_S = 60.0


class Tally:
    """Counts for one sweeper."""

    def __init__(self, observer: Observer, clock: SweepClock) -> None:
        self._observer = observer
        self._clock = clock
        self.moved_in_all: Counter[Partition] = Counter()
        self.removed_in_all: Counter[Partition] = Counter()
        self._removed: Counter[str] = Counter()
        self._told_s = self._logged_s = 0.0
        self._problems: dict[Partition, tuple[str, float]] = {}
        """What was logged of each partition, and when."""

    def moved(self, numbers: Mapping[Partition, int]) -> None:
        """So many were moved."""
        self.moved_in_all.update(numbers)
        self._observer.swept(Swept(moved=_by_topic(numbers)))

    def removed(self, numbers: Mapping[Partition, int]) -> None:
        """So many were removed."""
        if numbers:
            self.removed_in_all.update(numbers)
            self._removed.update(_by_topic(numbers))
            self._observer.swept(Swept(removed=_by_topic(numbers)))

    def refused(self, problems: Mapping[Partition, str]) -> None:
        """Kafka refuses something of these partitions; what is said of one is logged again after a while."""
        if problems:
            self._observer.swept(Swept(refused=Counter(place.topic for place in problems)))
        now_s = monotonic_s()
        for place, problem in problems.items():
            said, at_s = self._problems.get(place, ("", 0.0))
            if problem != said or now_s - at_s >= _LOG_S:
                self._problems[place] = problem, now_s
                _log.error("%s", problem)

    def forbidden(self, topic: str, problem: str) -> None:
        """A topic may not be read."""
        _log.error("expired dead letters stay: %s", problem)
        self._observer.swept(Swept(refused={topic: 1}))

    def tell(self, heads: Mapping[Partition, Head], forbidden: Iterable[str]) -> None:
        """How everything stands, if that was not told a moment ago."""
        now_s = monotonic_s()
        if now_s - self._told_s < _TELL_S:
            return
        self._told_s = now_s
        faults, self._clock.faults = self._clock.faults, 0
        if faults:
            self._observer.swept(Swept(clock_faults=faults))
        resting = {place: head for place, head in heads.items() if head.rest is not None}
        nexts: dict[str, int] = {}
        for place, head in resting.items():
            if head.rest is Rest.NOT_YET:
                nexts[place.topic] = min(head.expires_ms, nexts.get(place.topic, head.expires_ms))
        reasons = Counter((place.topic, str(head.rest)) for place, head in resting.items())
        reasons.update((topic, str(Rest.REFUSED)) for topic in forbidden)
        self._observer.sweep_stands(SweepStanding(nexts, reasons))
        if self._removed and now_s - self._logged_s >= _LOG_S:
            self._logged_s = now_s
            for topic, number in self._removed.items():
                _log.info("removed %d expired dead letters from %s", number, topic)
            self._removed.clear()


def _by_topic(numbers: Mapping[Partition, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for place, number in numbers.items():
        found[place.topic] += number
    return found
