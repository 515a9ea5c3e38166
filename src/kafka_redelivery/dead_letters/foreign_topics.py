"""The topics for the jobs over another system's dead letters: created when a person asks for it."""

from __future__ import annotations

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.cluster.changes import Changes, CreateTopic
from kafka_redelivery.topology.cluster.plan import PlannedTopic, redrive_topics
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin


def missing_topics(settings: OtherSystem) -> tuple[PlannedTopic, ...]:
    """Return the topics that do not exist yet, as they should be created.

    Raises:
        RedriveError: there is no such dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """
    name = settings.dead_letter_topic
    topics = ClusterAdmin(settings.kafka).describe([name, *settings.naming().internal_topics()], {}).topics
    if name not in topics:
        raise RedriveError(f"there is no topic {name}, or it may not be described; grant Describe and Read")
    return tuple(each for each in redrive_topics(settings.naming(), [topics[name]]) if each.name not in topics)


def create_topics(settings: OtherSystem, topics: tuple[PlannedTopic, ...]) -> None:
    """Create these topics.

    Raises:
        TransportError: Kafka does not answer, refuses or denies it.
    """
    ClusterAdmin(settings.kafka).apply(Changes(create=tuple(map(CreateTopic, topics))))
