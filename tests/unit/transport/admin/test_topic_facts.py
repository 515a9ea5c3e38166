"""What is known of topics when one of their partitions has no leader."""

from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import TopicDescription

from kafka_redelivery.topology.cluster.facts import Bounds
from kafka_redelivery.transport.admin import cluster_admin
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.protocols import Partition

_DEAD, _LEADERLESS = "DLQ.orders", Partition("DLQ.orders", 1)


def test_a_partition_without_a_leader_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka says nothing of its offsets. Without those of the others no scheduler would count any dead letter."""
    node, nobody = Node(1, "localhost", 9092), None
    leaders: list[Any] = [node, nobody, node]
    partitions = [TopicPartitionInfo(number, leader, [node], [node]) for number, leader in enumerate(leaders)]
    described = {_DEAD: TopicDescription(_DEAD, Uuid(0, 1), False, partitions)}  # noqa: FBT003 - the client's own

    def list_offsets(_: object, asked: Collection[Partition], *__: object, **___: object) -> dict[Partition, int]:
        if _LEADERLESS in asked:
            raise AdminError("read the offsets of partitions", "Broker: Leader not available")
        return dict.fromkeys(asked, 7)

    monkeypatch.setattr(cluster_admin, "describe_topics", lambda *_, **__: described)
    monkeypatch.setattr(cluster_admin, "topic_config_entries", lambda *_: {})
    monkeypatch.setattr(cluster_admin, "list_offsets", list_offsets)
    monkeypatch.setattr(cluster_admin, "cluster_id", lambda _: "cluster")
    found = ClusterAdmin({"bootstrap.servers": "localhost:1"}).topic_facts([_DEAD], [_DEAD])[_DEAD]
    assert found.bounds == {0: Bounds(7, 7), 2: Bounds(7, 7)}
    assert (found.partitions, found.leaderless) == (3, (1,))
