"""Which errors of Kafka pass by themselves."""

import pytest
from confluent_kafka import KafkaError

from kafka_redelivery.transport.errors import (
    ConsumerError,
    PartitionUnfetchableError,
    TopicForbiddenError,
)
from kafka_redelivery.transport.kafka_errors import consumer_error, is_transient, is_transient_for_consumer

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


_DAMAGED = [KafkaError.INVALID_MSG, KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION]


@pytest.mark.parametrize("code", [*_DAMAGED, KafkaError.UNKNOWN, KafkaError.KAFKA_STORAGE_ERROR])
def test_an_error_of_one_partition_is_its_own(code: int) -> None:
    """It names partition and offset, and says what to do about a damaged batch, or about the broker."""
    error = KafkaError(code)
    assert not is_transient_for_consumer(error)
    found = consumer_error(error, "orders", "billing", 3, 17)
    assert isinstance(found, PartitionUnfetchableError)
    assert (found.topic, found.number, found.offset) == ("orders", 3, 17)
    assert "orders-3 is halted: it cannot be fetched at offset 17" in str(found)
    assert ("--accept-loss" in str(found)) is (code in _DAMAGED)
    assert ("repair its storage" in str(found)) is (code not in _DAMAGED)


def test_an_unknown_format_is_not_called_damaged() -> None:
    """Nothing may be deleted for it: a newer client can read the records."""
    found = str(consumer_error(KafkaError(KafkaError._NOT_IMPLEMENTED), "orders", "billing", 3, 17))
    assert "install a version of confluent-kafka that knows their format" in found
    assert "--accept-loss" not in found


@pytest.mark.parametrize(("topic", "number"), [("", -1), ("orders", -1)])
def test_an_error_without_a_partition_is_not(topic: str, number: int) -> None:
    """Such an error concerns the whole consumer."""
    found = consumer_error(KafkaError(KafkaError.UNKNOWN), topic, "billing", number)
    assert isinstance(found, ConsumerError)
    assert not found.fatal


def test_fatal_errors_and_missing_rights_stay_what_they_are() -> None:
    """Also if they come with a partition."""
    fatal = KafkaError(KafkaError._BAD_MSG, "broken", fatal=True)
    found = consumer_error(fatal, "orders", "billing", 3)
    assert isinstance(found, ConsumerError)
    assert found.fatal
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert type(consumer_error(denied, "orders", "billing", 3)) is TopicForbiddenError
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    found = consumer_error(denied, "orders", "billing", 3)
    assert isinstance(found, ConsumerError)
    assert not found.fatal


def test_brokers_without_the_consumer_protocol_are_named() -> None:
    """The client reports that with a text alone; other fatal errors keep theirs."""
    text = "Fatal error: ConsumerGroupHeartbeat fatal error: Broker: API version not supported"
    found = consumer_error(KafkaError(KafkaError._FATAL, text), "", "billing")
    assert isinstance(found, ConsumerError)
    assert found.fatal
    assert "these brokers do not offer the consumer protocol (Kafka 4.0)" in str(found)
    assert "protocol" not in str(consumer_error(KafkaError(KafkaError._FATAL, "fenced"), "", "billing"))
