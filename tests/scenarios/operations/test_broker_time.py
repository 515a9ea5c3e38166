"""The partition of the offsets topic that keeps a group's commits is the one that Kafka chooses."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_redelivery.topology.cluster.facts import OFFSETS_TOPIC
from kafka_redelivery.transport.admin.broker_time import partition_of
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster


@pytest.mark.kafka
@pytest.mark.parametrize("prefix", ["orders", "payments", "b"])
def test_a_commit_goes_to_the_computed_partition(kafka: EmbeddedKafka, unique: str, prefix: str) -> None:
    """Nine groups, some of them with a negative hash code: the end of the computed partition grows with each commit."""
    Cluster(kafka.bootstrap_servers).create(unique, partitions=1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(3):
        group = f"{prefix}.{unique}.{number}"
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        try:
            consumer.commit(offsets=[TopicPartition(unique, 0, 0)], asynchronous=False)
            count = len(admin.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions)
            partition = TopicPartition(OFFSETS_TOPIC, partition_of(group, count))
            before = _end(admin, partition)
            consumer.commit(offsets=[TopicPartition(unique, 0, 0)], asynchronous=False)
            assert _end(admin, partition) > before
        finally:
            consumer.close()


def _end(admin: AdminClient, partition: TopicPartition) -> int:
    offset: int = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(30).offset
    return offset
