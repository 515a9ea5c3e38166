"""The partitions that have dead letters, and their ends.

Refuses to go on where a dead-letter topic is another one than the one that was read.

The ids are asked for before letters are read, and again as late as possible before something is done with them. An id
never comes back. So letters that were read between two equal answers are those of the topic with this id. What is left
is the time that Kafka takes to tell all its brokers of a new topic, and that of a request by name, such as the removal
of records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import letter_topics
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.identities import topic_ids
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Partition


def letter_topic_ids(settings: LetterSource, calls: AdminCalls) -> TopicIds:
    """Return the present ids of the dead-letter topics.

    Raises:
        TransportError: Kafka does not answer, or refuses for another reason than rights on a topic.
    """
    return topic_ids(calls, letter_topics(settings))


def refuse_created_again(before: TopicIds, now: TopicIds, undone: str = "sent", since: str = "the preview") -> None:
    """Refuse to go on if what was read is about other letters now.

    Args:
        before: the ids before the letters were read.
        now: the present ids.
        undone: what was not done with them.
        since: when the letters were read.

    Raises:
        RedriveError: a topic was deleted and created again, or the cluster is another one.
    """
    problem = before.difference(now, since)
    if problem:
        raise RedriveError(f"{problem}; nothing was {undone}; preview again")


_log = logging.getLogger(__name__)


def letter_ends(
    settings: LetterSource, partition_counts: Mapping[str, int], offsets: PartitionOffsets | None = None
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


def letter_partitions(settings: LetterSource, partition_counts: Mapping[str, int]) -> list[Partition]:
    """Return the partitions of the dead-letter topics, and log a warning that names those that are not shown.

    Raises:
        RedriveError: the cluster shows none of them.
    """
    topics = letter_topics(settings)
    hidden = [topic for topic in topics if topic not in partition_counts]
    right = grant(f"Read on topic {', '.join(hidden)}")
    if len(hidden) == len(topics):
        fix = "correct --topic" if isinstance(settings, OtherSystem) else "see `redelivery topology check`"
        raise RedriveError(f"there is no dead-letter topic {', '.join(topics)}, or none may be described; {fix}{right}")
    if hidden:
        _log.warning(
            "dead letters in %s are left out: it does not exist, or may not be described%s", ", ".join(hidden), right
        )
    return [Partition(topic, number) for topic in topics for number in range(partition_counts.get(topic, 0))]
