"""The records that wait in the tiers of a scheduler, counted for its metrics."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.observers import TierBacklog
from kafka_redelivery.transport.protocols import Partition, Reader


def backlog(tiers: Mapping[Partition, TierPartition], reader: Reader) -> list[TierBacklog]:
    """Return the backlog of each tier.

    Args:
        tiers: the assigned partitions. The topic of one that is about to be revoked may be deleted already.
        reader: knows how many records of a partition are not fetched.
    """
    backlogs: dict[str, TierBacklog] = {}
    lags = reader.lags({partition: tier.progress.next_offset for partition, tier in tiers.items()})
    for partition, tier in tiers.items():
        topic = partition.topic
        pending = len(tier) + lags[partition]
        oldest_ms = tier.oldest_ms
        before = backlogs.get(topic)
        if before is not None:
            pending += before.pending
            oldest_ms = min((ms for ms in (oldest_ms, before.oldest_ms) if ms is not None), default=None)
        owned = 1 if before is None else before.partitions + 1
        backlogs[topic] = TierBacklog(topic, pending, oldest_ms, tier.delay_ms, owned)
    return list(backlogs.values())
