"""A reader of a range ends where the range ends, or says why it cannot."""

import pytest
from confluent_kafka import Producer

from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.cluster import Cluster


def test_an_open_transaction_in_the_range(kafka: EmbeddedKafka, unique: str) -> None:
    """It holds the reader up for the time that the caller allows, and no longer; the error says what to look for."""
    Cluster(kafka.bootstrap_servers).create(unique, partitions=1)
    settings, partition = {"bootstrap.servers": kafka.bootstrap_servers}, Partition(unique, 0)
    producer = Producer({**settings, "transactional.id": unique})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(unique, b"open", partition=0)
    producer.flush(60)
    with pytest.raises(ReaderError, match="sent nothing for 1 s; is a transaction open there"):
        list(read_between(settings, unique, {}, {partition: 1}, stalled_s=1.0))
    producer.commit_transaction(60)
    assert [each.value() for each in read_between(settings, unique, {}, {partition: 1})] == [b"open"]
