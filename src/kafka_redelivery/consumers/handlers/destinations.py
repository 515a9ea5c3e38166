"""The topics to which handlers may emit: all that exist, except those of the group itself."""

from __future__ import annotations

from contextlib import suppress

from kafka_redelivery.consumers.handlers.outputs import MAX_PARTITIONS
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.topic_metadata import TopicMetadataCache
from kafka_redelivery.transport.errors import TransportError


class Destinations:
    """The :class:`TopicMetadata` for the checks of outputs. Thread-safe."""

    def __init__(self, settings: Settings, topics: TopicMetadataCache) -> None:
        """Take the names from the configuration.

        Args:
            settings: the configuration.
            topics: the topics of the cluster.
        """
        self._topics = topics
        self._naming = naming = settings.naming()
        self._listed = frozenset(output.topic for output in settings.outputs)
        self._internal = set(naming.internal_topics())
        for source in settings.sources:
            self._internal.add(naming.ready_topic(source.topic))
            for template in settings.entry(source.topic).dead_letter_strategy.templates:
                self._internal.add(naming.dead_letter_topic(template, source.topic))
        self._allowed: set[str] = set()
        """Existing topics that have been found not to be internal."""

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """See :class:`TopicMetadata`. A listed topic counts as one that exists: the write finds out whether it does.

        Raises:
            ValueError: the topic is an internal one of the group.
            TransportError: the cluster does not answer.
        """
        if topic in self._allowed:  # the most frequent case comes first: this runs for every output
            return self._topics.partitions(topic, wanted)
        if topic in self._listed:
            return self._partitions_of_listed(topic, wanted)
        if topic in self._internal or self._naming.tiers_among((topic,)):
            raise ValueError(
                f"{topic}, to which an output was sent, is a topic of group {self._naming.group} itself; emit to "
                "another topic"
            )
        count = self._topics.partitions(topic, wanted)
        if count is not None:
            self._allowed.add(topic)
        return count

    def note_missing(self, topic: str) -> bool:
        """Note that the cluster has said that a topic does not exist; return whether the configuration lists it."""
        if topic in self._listed:
            return True
        self._topics.forget(topic)
        return False

    def _partitions_of_listed(self, topic: str, wanted: int) -> int:
        count = None
        if wanted:
            with suppress(TransportError):
                count = self._topics.partitions(topic, wanted)
        return MAX_PARTITIONS if count is None else count
