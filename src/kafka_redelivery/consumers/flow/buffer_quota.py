"""Limits on buffered records: in total, per kind of topic, and per partition."""

from __future__ import annotations

from kafka_redelivery.consumers.flow.lane import Buffered
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.transport.protocols import Partition

_REDELIVERY_DIVISOR = 4
"""Redeliveries get a quarter of the buffer and first deliveries the rest."""

_MAX_MULTIPLE_OF_FREE = 2
"""A partition may buffer twice as much as is free: one alone gets 2/3 of the buffer, each of eight gets 2/17."""

_MAX_BATCH_BYTES = 16 * 2**20


def batch_bytes(limits: LimitsSection) -> int:
    """Return how many bytes make a batch full. Two batches exist at a time: one fills while the other is written."""
    return min(_MAX_BATCH_BYTES, limits.buffer_bytes // 8)


class BufferQuota:
    """Decides which partitions may be fetched. Only the polling thread uses it.

    Source topics and ready topics each have their own share of the buffer, so neither keeps the other from being
    fetched. Within a share, a partition may buffer twice as much as is free. A partition that is alone gets most of
    the share, and there is always room for a partition that has buffered nothing so far.

    A record is buffered from its fetch until its outcome is written. The buffer may exceed its limits by one fetch,
    because the size of a record is not known before it is fetched.
    """

    def __init__(self, limits: LimitsSection, lanes: Lanes) -> None:
        self._lanes = lanes
        share = Buffered(
            max(1, limits.buffer_records // _REDELIVERY_DIVISOR), limits.buffer_bytes // _REDELIVERY_DIVISOR
        )
        self._limits = {
            True: share,
            False: Buffered(max(1, limits.buffer_records - share.records), limits.buffer_bytes - share.bytes),
        }
        """Share of the buffer, by whether it is for redeliveries."""

        self._max_fetch = limits.batch_records
        self._paused: dict[Partition, Buffered] = {}
        """What each paused partition had buffered when it was paused."""

    def max_records_to_fetch(self) -> int:
        """Return how many records may be fetched now. At least one, since the client's membership needs fetches."""
        free = max(
            limit.records - self._lanes.buffered(redelivered=redelivered).records
            for redelivered, limit in self._limits.items()
        )
        return max(1, min(free, self._max_fetch))

    def partitions_to_pause(self, unwritten_bytes: int) -> set[Partition]:
        """Return the partitions that must not be fetched now.

        A paused partition is resumed when its buffered records have halved, because each pause costs a new fetch.

        Args:
            unwritten_bytes: size of the batches that are not written yet.
        """
        free = {redelivered: self._free(unwritten_bytes, redelivered=redelivered) for redelivered in (False, True)}
        # No partition has buffered more than all of its kind. This is decided without a look at each of them, because
        # there can be hundreds and the question is asked in every turn.
        if not self._paused and not any(
            _exceeds(self._lanes.buffered(redelivered=redelivered), left) for redelivered, left in free.items()
        ):
            return set()
        paused = {}
        for partition, lane in self._lanes.all():
            left, buffered = free[lane.assigned.redelivered], lane.buffered
            before = self._paused.get(partition)
            if _exceeds(buffered, left):
                paused[partition] = Buffered(buffered.records, buffered.bytes) if before is None else before
            elif before is not None and (buffered.records * 2 > before.records or buffered.bytes * 2 > before.bytes):
                paused[partition] = before
        self._paused = paused
        return set(paused)

    def _free(self, unwritten_bytes: int, *, redelivered: bool) -> Buffered:
        limit, buffered = self._limits[redelivered], self._lanes.buffered(redelivered=redelivered)
        # Batches contain records of both kinds, so each share is charged in proportion to its size.
        charged = unwritten_bytes // _REDELIVERY_DIVISOR * (1 if redelivered else _REDELIVERY_DIVISOR - 1)
        return Buffered(limit.records - buffered.records, limit.bytes - buffered.bytes - charged)


def _exceeds(buffered: Buffered, free: Buffered) -> bool:
    return (
        buffered.records >= _MAX_MULTIPLE_OF_FREE * free.records or buffered.bytes >= _MAX_MULTIPLE_OF_FREE * free.bytes
    )
