"""The topics that a query reads, by more than their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_redelivery.consumers.flow.control import Topics
from kafka_redelivery.pipeline.stream.lost_positions import RecordsDeletedError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.topic_mark import is_other_topic
from kafka_redelivery.transport.clients.topic_watch import FoundTopic, TopicWatch


class ReadTopics:
    """The topics as they were when the query was started.

    Spark knows them by their names. The driver's main thread uses this between two queries, and the thread that starts
    the micro-batches while a query runs.
    """

    def __init__(self, names: Sequence[str], watch: Topics) -> None:
        """Know nothing yet."""
        self.watch = watch
        self.found: Mapping[str, FoundTopic] = {}
        """The topics as the last start found them."""

        self.named_in_commits = False
        """Whether commits name their topic, because all members of the group can read that."""

        self._names = names

    @classmethod
    def of(cls, settings: Settings, names: Sequence[str] | None = None) -> ReadTopics:
        """Return topics of the cluster of a configuration; without names its sources and ready topics."""
        return cls(topics_of(settings) if names is None else names, TopicWatch(settings.kafka))

    @property
    def marks(self) -> dict[str, str]:
        """The mark of each topic; empty if it is unknown."""
        return {name: each.mark for name, each in self.found.items()}

    def look(self) -> None:
        """Find out which topics these are now. Waits for Kafka.

        Raises:
            ReaderError: Kafka does not answer.
        """
        self.found = self.watch.look(self._names)

    def poll(self) -> bool:
        """Return whether a topic was created again. Kafka is asked every five seconds, and not waited for."""
        return bool(self._changed(self.watch.poll(self._names, self.found) or {}))

    def created_again(self) -> dict[str, FoundTopic]:
        """Return the topics that were created again since the query was started. Waits for Kafka, for a minute.

        Raises:
            ReaderError: Kafka does not answer.
        """
        return self._changed(self.watch.look(self._names))

    def _changed(self, now: Mapping[str, FoundTopic]) -> dict[str, FoundTopic]:
        return {name: each for name, each in now.items() if is_other_topic(self.marks.get(name, ""), each.mark)}

    def refuse_created_again(self) -> None:
        """Refuse to read topics at offsets of older ones of their names.

        Raises:
            RecordsDeletedError: a topic was created again.
            ReaderError: Kafka does not answer.
        """
        if names := self.created_again():
            raise RecordsDeletedError(f"{', '.join(names)} was deleted and created again while the query ran")


def topics_of(settings: Settings) -> list[str]:
    """Return the sources and their ready topics."""
    naming = settings.naming()
    return [name for each in settings.sources for name in (each.topic, naming.ready_topic(each.topic))]
