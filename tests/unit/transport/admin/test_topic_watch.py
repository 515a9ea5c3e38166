"""What a running process takes for the topics that exist."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription

from kafka_redelivery.transport.admin.topic_watch import TopicWatch


@pytest.mark.parametrize(
    ("code", "found"), [(KafkaError.TOPIC_AUTHORIZATION_FAILED, {"t": 3}), (KafkaError.UNKNOWN_TOPIC_OR_PART, {})]
)
def test_a_known_topic_that_may_not_be_described_still_exists(code: int, found: dict[str, int]) -> None:
    """Also if that is the first answer: the topics were listed before. One that was never known does not."""
    watch = TopicWatch({"bootstrap.servers": "localhost:1"})
    for known, expected in (({"t": 3}, found), ({}, {})):
        refused: Future[TopicDescription] = Future()
        refused.set_exception(KafkaException(KafkaError(code)))
        watch._pending = {"t": refused}
        assert watch.poll([], known) == expected
