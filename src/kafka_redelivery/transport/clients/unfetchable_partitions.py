"""Partitions for which Kafka returns an error, or damaged records, and when each of them is fetched again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from time import monotonic

from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class UnfetchablePartitions:
    """Halts each such partition alone, and has it fetched again after growing pauses. Used by one thread.

    A partition stays in :attr:`errors` until a record of it, or its end, is fetched.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self._errors: dict[Partition, ReaderError] = {}
        self._pauses_s: dict[Partition, float] = {}
        self._next_s: dict[Partition, float] = {}
        """When each halted partition is fetched again (monotonic). One that is being tried is not here."""

    @property
    def errors(self) -> Mapping[Partition, ReaderError]:
        """The partitions, each with what is wrong and how to fix it."""
        return self._errors

    def is_halted(self, partition: Partition) -> bool:
        """Whether the partition is not fetched at present."""
        return partition in self._next_s

    def add(self, partition: Partition, error: ReaderError) -> None:
        """Halt a partition, and log the cause if it is a new one."""
        before = self._pauses_s.get(partition)
        pause_s = _FIRST_PAUSE_S if before is None else min(2 * before, _LONGEST_PAUSE_S)
        self._pauses_s[partition], self._next_s[partition] = pause_s, monotonic() + pause_s
        if str(self._errors.get(partition)) != str(error):
            _log.error("%s; it is tried again after pauses of up to 30 s, other partitions go on", error)
        self._errors[partition] = error

    def take_due(self) -> list[Partition]:
        """Return the partitions that are to be fetched again now. They are no longer halted."""
        now_s = monotonic()
        due = [partition for partition, next_s in self._next_s.items() if next_s <= now_s]
        for partition in due:
            del self._next_s[partition]
        return due

    def fetched(self, partitions: AbstractSet[Partition]) -> None:
        """Drop those of the partitions, of which a record or the end was fetched, that are not halted."""
        for partition in (partitions & self._errors.keys()) - self._next_s.keys():
            self.forget(partition)
            _log.info("%s-%d goes on: it can be fetched again", *partition)

    def forget(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned, is assigned anew, or is halted for another cause."""
        self._errors.pop(partition, None)
        self._pauses_s.pop(partition, None)
        self._next_s.pop(partition, None)

    def clear(self) -> None:
        """Drop all partitions."""
        for partition in list(self._errors):
            self.forget(partition)
