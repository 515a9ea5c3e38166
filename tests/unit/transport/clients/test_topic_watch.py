"""What a running process takes for the topics that exist."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import DescribeClusterResult, TopicDescription

from kafka_redelivery.transport.clients.topic_watch import FoundTopic, TopicWatch, _Answers

KNOWN = {"t": FoundTopic(3, "")}


@pytest.mark.parametrize(
    ("code", "found"), [(KafkaError.TOPIC_AUTHORIZATION_FAILED, KNOWN), (KafkaError.UNKNOWN_TOPIC_OR_PART, {})]
)
def test_a_known_topic_that_may_not_be_described_still_exists(code: int, found: dict[str, FoundTopic]) -> None:
    """Also if that is the first answer: the topics were listed before. One that was never known does not."""
    watch = TopicWatch({"bootstrap.servers": "localhost:1"})
    cluster: Future[DescribeClusterResult] = Future()
    cluster.set_result(Mock(spec=DescribeClusterResult, cluster_id="here"))
    for known, expected in ((KNOWN, found), ({}, {})):
        refused: Future[TopicDescription] = Future()
        refused.set_exception(KafkaException(KafkaError(code)))
        watch._pending = _Answers(cluster, {"t": refused})
        assert watch.poll([], known) == expected
