"""A group that a broker does not know yet has committed nothing, whatever the broker says about it."""

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.assigned_reader import committed_of


class Refused:
    """A client whose request is answered with an error."""

    def __init__(self, code: int) -> None:
        self._code = code

    def committed(self, _partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        del timeout
        raise KafkaException(KafkaError(self._code))


def test_an_unknown_group_has_no_offset() -> None:
    """Apache Kafka says so of each partition; other systems refuse the whole request."""
    client = cast("Consumer", Refused(KafkaError.GROUP_ID_NOT_FOUND))
    [found] = committed_of(client, [TopicPartition("orders", 3, 7)], 1.0)
    assert (found.topic, found.partition, found.offset < 0, found.error) == ("orders", 3, True, None)


def test_other_errors_are_raised() -> None:
    """Such as a missing right."""
    with pytest.raises(KafkaException):
        committed_of(
            cast("Consumer", Refused(KafkaError.GROUP_AUTHORIZATION_FAILED)), [TopicPartition("orders", 3)], 1.0
        )
