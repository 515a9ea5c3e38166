"""A topic that is deleted while a process starts, or while a command describes the topics, is left out."""

from typing import Any

import pytest

from kafka_redelivery.transport.admin import partition_offsets, topics
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster


@pytest.mark.parametrize("detailed", [False, True])
@pytest.mark.parametrize("moment", ["described", "offsets are asked for"])
def test_topics_are_described_again(
    kafka: EmbeddedKafka, cluster: Cluster, unique: str, monkeypatch: pytest.MonkeyPatch, moment: str, *, detailed: bool
) -> None:
    """Once it is described, the questions for its configuration, or those for its offsets, find no such topic."""
    kept, deleted = f"{unique}.kept", f"{unique}.deleted"
    cluster.create(kept, deleted)

    def delete() -> None:
        if deleted in cluster.topics():
            cluster.delete(deleted)

    def describe_topics(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - as it is called
        found = topics.describe_topics(*arguments, **options)
        if moment == "described":
            delete()
        return found

    def list_offsets(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - as it is called
        delete()
        return partition_offsets.list_offsets(*arguments, **options)

    monkeypatch.setattr("kafka_redelivery.transport.admin.cluster_admin.describe_topics", describe_topics)
    monkeypatch.setattr("kafka_redelivery.transport.admin.cluster_admin.list_offsets", list_offsets)
    admin = ClusterAdmin({"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=5)
    found = (
        admin.topic_facts([kept, deleted], [kept, deleted])
        if detailed
        else admin.describe([kept, deleted], {kept: [unique], deleted: [unique]}).topics
    )
    assert set(found) == {kept}
    assert found[kept].bounds[0].end == 0
