"""Which errors of Kafka pass by themselves."""

import pytest
from confluent_kafka import KafkaError

from kafka_redelivery.transport.kafka_errors import is_transient, is_transient_for_consumer

_ELECTION = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
]


@pytest.mark.parametrize("code", _ELECTION)
def test_the_election_of_a_leader_is_waited_for(code: int) -> None:
    """A broker that has just started answers with each of these."""
    assert is_transient(KafkaError(code))
    assert is_transient_for_consumer(KafkaError(code))


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION])
def test_a_refusal_is_reported(code: int) -> None:
    """Waiting would not help."""
    assert not is_transient(KafkaError(code))
    assert not is_transient_for_consumer(KafkaError(code))
