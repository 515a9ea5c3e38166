"""Partitions that a query leaves out because the offset they have to be read from was deleted, or has expired."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.lost_position import LostPosition
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel, QueryObserver
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 30.0
_DATA_LOSS: Final = "data may have been lost because they are not available in Kafka"
"""A part of the message of Spark's Kafka source (its condition ``KAFKA_DATA_LOSS``)."""


class RecordsDeletedError(PipelineError):
    """Kafka deleted records that a micro-batch had to read. The query starts again at the group's offsets."""


def is_data_loss(error: BaseException) -> bool:
    """Whether Spark's Kafka source found that records were deleted."""
    return _DATA_LOSS in str(error)


class LostPositions:
    """The partitions that are left out until their committed offset is moved. Only the main thread uses it.

    As in a worker (:mod:`kafka_redelivery.consumers.flow.lost_positions`), no partition goes on by itself: whether
    deleted offsets held records, and which records are finished if the committed offset has expired, is unknown. So an
    operator decides, with ``redelivery topology apply --accept-loss`` or ``--accept-repeats``.
    """

    def __init__(self, settings: Settings, observer: QueryObserver, health: Health) -> None:
        self._group = settings.group
        self._offsets = PartitionOffsets(settings.kafka)
        self._observer = observer
        self._health = health
        self._halted: dict[Partition, LostPosition] = {}
        """The position of each partition that is left out."""

        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0
        """When the committed offsets are read again (monotonic)."""

    @property
    def problem(self) -> str:
        """What is left out and how to go on; empty if nothing is."""
        return "\n".join(str(lost) for _, lost in sorted(self._halted.items()))

    def leave_out(self, starts: Mapping[Partition, int], expired: Collection[Partition]) -> dict[Partition, int]:
        """Return the start offsets that still exist. The other partitions are halted.

        Args:
            starts: the committed offsets.
            expired: the partitions whose committed offset has expired.

        Raises:
            TransportError: Kafka does not answer.
        """
        first = self._offsets.log_start_offsets([*starts, *expired])
        ends = self._offsets.high_watermarks(expired)
        lost = [LostPosition.expired(each, ends[each] - first[each], "handled") for each in expired]
        lost += [LostPosition.deleted(each, at) for each, at in starts.items() if at < first[each]]
        before, self._halted = self._halted, {each.partition: each for each in lost}
        for partition in before.keys() - self._halted.keys():
            _log.warning("%s-%d goes on: its committed offset was moved", *partition)
            before[partition].withdraw(self._health)
        for each in lost:
            known = before.get(each.partition)
            if known is None or known.offset != each.offset:
                each.report(self._observer, self._health)
        self._observer.halted_partitions(Counter(HaltLabel(each.partition.topic, each.label) for each in lost))
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = monotonic_s() + self._pause_s
        return {each: at for each, at in starts.items() if each not in self._halted}

    def moved(self) -> bool:
        """Return whether a partition can go on, because its committed offset was moved. Asks after growing pauses."""
        if not self._halted or monotonic_s() < self._next_s:
            return False
        try:
            committed = self._offsets.committed(self._group, self._halted)
        except TransportError as error:
            _log.info("the committed offsets of halted partitions are unknown: %s", error)
            committed = {}
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        self._next_s = monotonic_s() + self._pause_s
        return any(point.offset > self._halted[partition].offset for partition, point in committed.items())
