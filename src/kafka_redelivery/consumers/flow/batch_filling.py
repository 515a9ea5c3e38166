"""Which lanes have a batch that waits for more records, and which of their records must not be part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.config.settings import BatchSection
from kafka_redelivery.transport.protocols import Message


class BatchFilling:
    """The batches that are being filled, one in each lane. Only the polling thread uses it."""

    def __init__(
        self, section: BatchSection, *, one_per_key: bool = False, monotonic_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Start without lanes.

        Args:
            section: how many records make a batch full, and how long one that is not full waits.
            one_per_key: whether a batch has at most one record of a key, because one that fails blocks those behind it.
            monotonic_s: the clock.
        """
        self.records = section.records
        self.one_per_key = one_per_key
        self._wait_s = section.wait.total_seconds()
        self._monotonic_s = monotonic_s
        self._until_s: dict[Lane, float] = {}
        """The lanes whose batch waits, with the time at which it ends. All wait equally long: the first ends first."""

        self._over: set[Lane] = set()
        """The lanes whose batch has waited for long enough."""

        self._single: dict[Lane, set[int]] = {}
        """Offsets of the waiting records that must not be part of a batch: a call with a batch decided about none."""

    def waits(self, lane: Lane) -> bool:
        """Whether the next batch of a lane waits for more records. Its first record starts the wait."""
        available = lane.waiting - lane.blocked
        if not available or available >= self.records or lane in self._over:
            self._until_s.pop(lane, None)
            return False
        if lane not in self._until_s:
            self._until_s[lane] = self._monotonic_s() + self._wait_s
        return self._wait_s > 0

    def take_over(self) -> Iterator[Lane]:
        """Yield each lane whose batch has now waited for long enough."""
        while self._until_s:
            lane, until_s = next(iter(self._until_s.items()))
            if until_s > self._monotonic_s():
                return
            del self._until_s[lane]
            self._over.add(lane)
            yield lane

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until the next batch has waited for long enough, but at most ``max_s``."""
        first_s = next(iter(self._until_s.values()), None)
        return max_s if first_s is None else min(max_s, max(0.0, first_s - self._monotonic_s()))

    def taken(self, lane: Lane, messages: Sequence[Message]) -> bool:
        """Begin with the next batch of a lane, and return whether the records that were taken may be a batch."""
        self._until_s.pop(lane, None)
        self._over.discard(lane)
        single = self._single.get(lane)
        if not single:
            return True
        offsets = {message.offset() for message in messages}
        may_be = single.isdisjoint(offsets)
        single -= offsets
        return may_be

    def put_back(self, item: WorkItem, rest: Sequence[Message]) -> None:
        """Records of an item are put back without an outcome. They have waited before."""
        self._until_s.pop(item.lane, None)
        self._over.add(item.lane)
        if not item.batch:
            self._single.setdefault(item.lane, set()).update(message.offset() for message in rest)

    def close(self, lane: Lane) -> None:
        """Forget a lane."""
        self._until_s.pop(lane, None)
        self._over.discard(lane)
        self._single.pop(lane, None)
