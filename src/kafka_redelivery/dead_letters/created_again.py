"""Refuses to go on where a dead-letter topic is another one than the one that was read.

The ids are asked for before letters are read, and again as late as possible before something is done with them. An id
never comes back. So letters that were read between two equal answers are those of the topic with this id. What is left
is the time that Kafka takes to tell all its brokers of a new topic, and that of a request by name, such as the removal
of records.
"""

from __future__ import annotations

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import letter_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.identities import topic_ids


def letter_topic_ids(settings: Settings, calls: AdminCalls) -> TopicIds:
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
