"""Tells when a group has committed the whole of a topic."""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.scenarios.cluster import Cluster

_ANSWER_S = 5.0
_LOOK_S = 0.002


class Commits:
    """Asks the broker again and again. Made before it is needed, so that the first answer comes at once."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        """Find out where the topic ends; nothing more may be written into it."""
        self._ends = {place: end for place, end in cluster.ends(topic).items() if end}
        self._places = [TopicPartition(*place) for place in self._ends]
        self._consumer = Consumer({"bootstrap.servers": cluster.servers, "group.id": group, "log_level": 0})
        self._complete()

    def wait(self, within_s: float = 60) -> float:
        """Wait until all is committed; when that was seen (monotonic).

        Raises:
            RuntimeError: the time is over.
        """
        deadline = time.monotonic() + within_s
        while not self._complete():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all is committed after {within_s:g} s")
            time.sleep(_LOOK_S)
        return time.monotonic()

    def close(self) -> None:
        """Let go of the client."""
        self._consumer.close()

    def _complete(self) -> bool:
        try:
            found = self._consumer.committed(self._places, _ANSWER_S)
        except KafkaException:
            return False
        return all(entry.offset >= self._ends[entry.topic, entry.partition] for entry in found)
