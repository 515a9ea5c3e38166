"""Waits until a group has committed a whole topic."""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.scenarios.cluster import Cluster

_ANSWER_S = 5.0
_LOOK_S = 0.002


class Commits:
    """Polls the committed offsets. Create it before it is needed, so that the first answer comes without delay."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        """Read the end offsets of the topic; no record may be written to it afterwards."""
        self._ends = {partition: end for partition, end in cluster.ends(topic).items() if end}
        self._partitions = [TopicPartition(*partition) for partition in self._ends]
        self._consumer = Consumer({"bootstrap.servers": cluster.servers, "group.id": group, "log_level": 0})
        self._complete()

    def wait(self, within_s: float = 60) -> float:
        """Wait until all records are committed; return the monotonic time at which that was seen.

        Raises:
            RuntimeError: ``within_s`` is over.
        """
        deadline = time.monotonic() + within_s
        while not self._complete():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all is committed after {within_s:g} s")
            time.sleep(_LOOK_S)
        return time.monotonic()

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _complete(self) -> bool:
        try:
            found = self._consumer.committed(self._partitions, _ANSWER_S)
        except KafkaException:
            return False
        return all(entry.offset >= self._ends[entry.topic, entry.partition] for entry in found)
