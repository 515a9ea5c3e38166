"""The topics of a group that its scheduler knows, and how it notices new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_redelivery.consumers.flow.control import Topics
from kafka_redelivery.consumers.routes import counts_to_produce_with
from kafka_redelivery.topology.cluster.acls import configured_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.protocols import Reader


class KnownTopics:
    """Lists the topics of the cluster once, at the start. From then on it asks for those of the group alone.

    A tier that is created later is in the configuration, or in the control topic, to which `redelivery topology apply`
    adds it. A ready topic that is created later is looked up when a record has to go there.
    """

    def __init__(self, settings: Settings, reader: Reader, watch: Topics) -> None:
        """Know nothing yet.

        Args:
            settings: the configuration.
            reader: lists topics.
            watch: asks again and again.
        """
        self._watch = watch
        self._naming = settings.naming()
        self._reader = reader
        # Brokers may log each request for a topic that the user of a scheduler has no right to.
        others = {output.topic for output in settings.outputs}
        others |= {self._naming.jobs_topic(), self._naming.parking_topic()}
        self._configured = frozenset(topic.name for topic in configured_topics(settings)) - others
        self._found: frozenset[str] = frozenset()
        """Tiers and ready topics that were found, configured or not."""

        self.counts: Mapping[str, int] = {}
        """The partition counts of those that exist."""

        self.found: Mapping[str, FoundTopic] = {}
        """Those that exist, as the watch has found them."""

    @property
    def names(self) -> frozenset[str]:
        """All that may exist. Safe from any thread."""
        return self._configured | self._found

    def list(self) -> None:
        """Find all topics of the group, which needs a list of all topics of the cluster."""
        listed = self._reader.partition_counts()
        self.found = {topic: FoundTopic(count, "") for topic, count in listed.items()}
        self._note(listed)
        self._count(listed)

    def refresh(self, named: Iterable[str]) -> bool:
        """Return whether there are new :attr:`counts`. Does not wait.

        Args:
            named: the tiers that the control topic names.
        """
        self._note(named)
        answer = self._watch.poll(self.names, self.found)
        if answer is not None:
            self.found = answer
            self._count({topic: each.partitions for topic, each in answer.items()})
        return answer is not None

    def look_up(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the partition counts of a few topics; wait until Kafka answers."""
        found = self._reader.partition_counts(topics)
        self._note(found)
        return found

    def _note(self, topics: Iterable[str]) -> None:
        topics = set(topics)
        found = {*self._naming.tiers_among(topics), *self._naming.ready_topics_among(topics)}
        found |= {self._naming.mixed_topic()} & topics
        if not found <= self._found:
            self._found |= found

    def _count(self, found: Mapping[str, int]) -> None:
        ours = {topic: count for topic, count in found.items() if topic in self.names}
        self.counts = counts_to_produce_with(self.counts, ours)
