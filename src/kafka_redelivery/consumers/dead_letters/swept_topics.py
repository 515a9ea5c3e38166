"""Which topics a sweep is about: of one that was deleted and created again, the same offsets are other letters.

Up to where letters were moved is committed with the ids of cluster and topic as metadata. So it is believed of that
topic alone. In another cluster, a mirror, it holds: the mirror or an operator has translated it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.identities import topic_ids
from kafka_redelivery.transport.protocols import Partition


class SweptTopics:
    """The ids of the topics that a sweeper reads."""

    def __init__(self, calls: AdminCalls | None) -> None:
        """Take the client that asks; without one no id is known."""
        self._calls = calls
        self._read = TopicIds()

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Note the ids of topics before their offsets are asked for, which may be those of a later topic."""
        now = self._ask({partition.topic for partition in partitions})
        self._read = TopicIds(cluster=now.cluster, ids={**self._read.ids, **now.ids})

    def created_again(self, partitions: Iterable[Partition]) -> list[str]:
        """Ask which of the topics are others now."""
        topics = {partition.topic for partition in partitions}
        return self._read.only(topics).created_again(self._ask(topics))

    def _ask(self, topics: Iterable[str]) -> TopicIds:
        if self._calls is None:
            return TopicIds()
        return topic_ids(self._calls, topics, cluster=self._read.cluster or None)

    def checkpoint(self, partition: Partition, offset: int) -> Checkpoint:
        """Return what is committed when letters are moved up to ``offset``."""
        known = self._read.ids.get(partition.topic)
        return Checkpoint(offset, f"{self._read.cluster} {known}" if known else "")

    def moved_to(self, partition: Partition, committed: Checkpoint | None) -> int | None:
        """Return up to where letters of the topic were moved; ``None`` if that is not known."""
        if committed is None:
            return None
        cluster, _, known = committed.metadata.partition(" ")
        before = TopicIds(cluster=cluster, ids={partition.topic: known})
        return committed.offset if before.elsewhere(self._read) or before.holds(partition.topic, self._read) else None
