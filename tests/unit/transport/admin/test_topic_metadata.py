"""What counts as a topic that does not exist: only one of which Kafka has said so."""

import time
from collections.abc import Iterable

import pytest
from confluent_kafka import KafkaError

from kafka_redelivery.transport.admin import topics
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topics import TopicMetadataCache
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.errors import BrokerUnavailableError

KAFKA: dict[str, ConfigValue] = {"bootstrap.servers": "localhost:1", "log_level": 0}


class Cluster:
    """Answers after some time that no topic exists, or does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answers: bool) -> None:
        self.answers = answers
        self.asked = 0
        self.now_s = 100.0
        monkeypatch.setattr(topics, "describe_topics", self._describe)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def _describe(self, _: AdminCalls, topics: Iterable[str], *, operations: bool) -> dict[str, int]:
        assert not operations
        self.asked += 1
        self.now_s += 10
        if not self.answers:
            raise BrokerUnavailableError("no answer")
        return dict.fromkeys(topics, KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_without_an_answer_no_topic_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor while Kafka is not asked again, for 5 s after the attempt. Then its answer counts."""
    topics = TopicMetadataCache(KAFKA)
    cluster = Cluster(monkeypatch, answers=False)
    for _ in range(3):
        with pytest.raises(BrokerUnavailableError):
            topics.partitions("audit")
        cluster.now_s += 1
    assert cluster.asked == 1
    cluster.answers = True
    cluster.now_s += 5
    assert topics.partitions("audit") is None


def test_a_missing_topic_is_not_asked_for_with_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the answer takes longer than it holds."""
    topics = TopicMetadataCache(KAFKA)
    cluster = Cluster(monkeypatch, answers=True)
    assert [topics.partitions("audit") for _ in range(3)] == [None] * 3
    assert cluster.asked == 1
