"""A partition for which a process knows no start is not read, and costs nothing; the others are."""

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Message as KafkaMessage

from kafka_redelivery.transport.client_config import Config, consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.protocols import Message, Partition
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until


class _Listener:
    def __init__(self) -> None:
        self.assigned_once = False

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        self.assigned_once = True
        return {each: 0 for each in partitions if each.number == 0}

    def revoked(self, partitions: Iterable[Partition]) -> None: ...
    def lost(self, partitions: Iterable[Partition]) -> None: ...


class _Reader(GroupReader):
    errors = 0

    def _on_error(self, messages: Sequence[KafkaMessage], index: int) -> None:
        self.errors += 1
        super()._on_error(messages, index)


def test_it_is_paused(cluster: Cluster, unique: str) -> None:
    """It used to be sought again and again, because it had no position."""
    cluster.create(unique, partitions=2)
    cluster.produce(unique, [Sent(b"%d" % number, partition=number % 2) for number in range(100)])
    kafka: Config = {"bootstrap.servers": cluster.servers, "log_level": 0}
    reader, listener = _Reader(consumer_config(kafka, group=unique, instance=None)), _Listener()
    reader.subscribe([unique], listener)
    found: list[Message] = []

    def read() -> bool:
        found.extend(reader.fetch(100, 0.1))
        return len(found) >= 50

    until(read, "the other partition is read")
    for _ in range(10):
        found += reader.fetch(100, 0.1)
    reader.close()
    assert listener.assigned_once
    assert {message.partition() for message in found} == {0}
    assert reader.errors <= 2, "at most the ends of partitions"
