"""The partitions that have dead letters, and their ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import letter_topics
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)


def letter_ends(
    settings: Settings, partition_counts: Mapping[str, int], offsets: PartitionOffsets | None = None
) -> dict[Partition, int]:
    """Return the present ends of the dead-letter topics, without open transactions.

    Args:
        settings: how to reach Kafka, and the names of topics.
        partition_counts: the topics of the cluster.
        offsets: asks for the ends; without it a new client does.

    Raises:
        RedriveError: the cluster shows none of them.
        TransportError: Kafka does not answer or denies access.
    """
    offsets = offsets or PartitionOffsets(settings.kafka)
    return offsets.last_stable_offsets(letter_partitions(settings, partition_counts))


def letter_partitions(settings: Settings, partition_counts: Mapping[str, int]) -> list[Partition]:
    """Return the partitions of the dead-letter topics, and log a warning that names those that are not shown.

    Raises:
        RedriveError: the cluster shows none of them.
    """
    topics = letter_topics(settings)
    hidden = [topic for topic in topics if topic not in partition_counts]
    right = grant(f"Read on topic {', '.join(hidden)}")
    if len(hidden) == len(topics):
        fix = "correct --topic" if isinstance(settings, ForeignTopic) else "see `redelivery topology check`"
        raise RedriveError(f"there is no dead-letter topic {', '.join(topics)}, or none may be described; {fix}{right}")
    if hidden:
        _log.warning(
            "dead letters in %s are left out: it does not exist, or may not be described%s", ", ".join(hidden), right
        )
    return [Partition(topic, number) for topic in topics for number in range(partition_counts.get(topic, 0))]
