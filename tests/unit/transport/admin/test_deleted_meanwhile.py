"""A topic that is deleted while a process starts, or while a command describes the topics, is left out."""

from collections.abc import Iterable

import pytest
from confluent_kafka.admin import TopicDescription

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.topic_rights import describe_topics
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster


@pytest.mark.parametrize("detailed", [False, True])
def test_topics_are_described_again(
    kafka: EmbeddedKafka, cluster: Cluster, unique: str, monkeypatch: pytest.MonkeyPatch, *, detailed: bool
) -> None:
    """The cluster answers the questions that follow the first description as one without the topic."""
    kept, deleted = f"{unique}.kept", f"{unique}.deleted"
    cluster.create(kept, deleted)

    def describe_and_delete(
        calls: AdminCalls, names: Iterable[str], *, operations: bool
    ) -> dict[str, TopicDescription | int]:
        found = describe_topics(calls, names, operations=operations)
        if not isinstance(found[deleted], int):
            cluster.delete(deleted)
        return found

    monkeypatch.setattr("kafka_redelivery.transport.admin.cluster_admin.describe_topics", describe_and_delete)
    admin = ClusterAdmin({"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=5)
    topics = (
        admin.topic_facts([kept, deleted], [kept, deleted])
        if detailed
        else admin.describe([kept, deleted], {kept: [unique], deleted: [unique]}).topics
    )
    assert set(topics) == {kept}
    assert topics[kept].bounds[0].end == 0
