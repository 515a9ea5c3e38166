"""Partitions that a query leaves out: the offset they have to be read from was deleted, expired, or does not exist."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from kafka_redelivery.consumers.flow.stops import LostPosition, Stops
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_DATA_LOSS: Final = "data may have been lost because they are not available in Kafka"
"""A part of the message of Spark's Kafka source (its condition ``KAFKA_DATA_LOSS``)."""


class RecordsDeletedError(PipelineError):
    """Kafka deleted records that a micro-batch had to read. The query starts again at the group's offsets."""


def is_data_loss(error: BaseException) -> bool:
    """Whether Spark's Kafka source found that records were deleted."""
    return _DATA_LOSS in str(error)


class LostPositions:
    """The partitions that are left out until their committed offset is moved; see :class:`LostPosition`.

    Only the main thread uses it.
    """

    def __init__(self, settings: Settings, observer: QueryObserver, health: Health) -> None:
        self._group = settings.group
        self._kafka = settings.kafka
        self._offsets = PartitionOffsets(self._kafka)
        self._stops = Stops(observer, health)

    @property
    def problem(self) -> str:
        """What is left out and how to go on; empty if nothing is."""
        return self._stops.problem

    def leave_out(self, starts: Mapping[Partition, int], expired: Collection[Partition]) -> dict[Partition, int]:
        """Return the start offsets that still exist. The other partitions are halted.

        Args:
            starts: the committed offsets.
            expired: the partitions whose committed offset has expired.

        Raises:
            TransportError: Kafka does not answer.
        """
        self._offsets = PartitionOffsets(self._kafka)  # an older client does not know partitions that were added since
        first = self._offsets.log_start_offsets([*starts, *expired])
        ends = self._offsets.high_watermarks([*starts, *expired])
        deleted = {each for each, at in starts.items() if at < first[each]}
        truncated = {each for each, at in starts.items() if at > ends[each]}
        for partition in self._stops.lost - deleted - truncated - set(expired):
            self._stops.drop(partition)
        for each in expired:
            self._stops.lose(LostPosition.expired(each, ends[each] - first[each], "handled"))
        for each in deleted:
            self._stops.lose(LostPosition.deleted(each, starts[each]))
        for each in truncated:
            self._stops.lose(LostPosition.truncated(each, starts[each], ends[each]))
        self._stops.report()
        return {each: at for each, at in starts.items() if each not in deleted | truncated}

    def moved(self) -> bool:
        """Return whether a partition can go on, because its committed offset was moved. Asks after growing pauses."""
        return bool(self._stops.moved(self._committed))

    def _committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Checkpoint]:
        try:
            return self._offsets.committed(self._group, partitions)
        except TransportError as error:
            _log.info("the committed offsets of halted partitions are unknown: %s", error)
            return {}
