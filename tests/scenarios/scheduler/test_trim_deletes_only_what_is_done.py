"""Trimming keeps records that are pending or younger than the audit horizon, and deletes the rest of a topic."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_redelivery.topology.cluster.changes import changes
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.topic_mark import marked
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.preflight import survey
from kafka_redelivery.transport.admin.topics import topic_marks
from kafka_redelivery.transport.admin.trimming import trim
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster

HORIZON_MS = 3_600_000


def test_trim_stops_at_the_commit_and_at_the_horizon(kafka: EmbeddedKafka, unique: str) -> None:
    """Of ten tier records six are committed and the last two of those are young, so four are deleted."""
    settings = _group(kafka, unique)
    now = time.time_ns() // 1_000_000
    tier = f"{unique}.retry.1s"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        age = 2 * HORIZON_MS if number < 4 else 0
        producer.produce(tier, b"%d" % number, partition=0, timestamp=now - age)
        producer.produce(f"{unique}.in", b"%d" % number, partition=0, timestamp=now - 2 * HORIZON_MS)
    ready = f"{unique}.ready.{unique}.in"  # its committed offset is 0
    producer.produce(ready, b"unfinished", partition=0, timestamp=now - 2 * HORIZON_MS)
    producer.flush()
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{unique}.scheduler"})
    reader.commit(offsets=[TopicPartition(tier, 0, 6)], asynchronous=False)

    trimmed = trim(settings, now)

    assert trimmed == {(tier, 0): 4}
    assert reader.get_watermark_offsets(TopicPartition(tier, 0)) == (4, 10)
    assert reader.get_watermark_offsets(TopicPartition(f"{unique}.in", 0)) == (0, 10), (
        "records of a source were deleted"
    )
    assert trim(settings, now) == {}
    assert trim(settings, now + 2 * HORIZON_MS) == {(tier, 0): 6}, "uncommitted records were deleted"
    reader.close()


def test_an_offset_of_an_older_topic_trims_nothing(kafka: EmbeddedKafka, unique: str) -> None:
    """A scheduler that has not noticed the new topic commits by name: its offset says nothing about these records."""
    settings = _group(kafka, unique)
    now = time.time_ns() // 1_000_000
    tier = f"{unique}.retry.1s"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        producer.produce(tier, b"%d" % number, partition=0, timestamp=now - 2 * HORIZON_MS)
    producer.flush()
    present = topic_marks(AdminCalls({"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=10), [tier])[tier]
    older = present[:4] + present[4:][::-1]
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{unique}.scheduler"})
    for mark, trimmed in ((older, {}), (present, {(tier, 0): 6})):
        reader.commit(offsets=[TopicPartition(tier, 0, 6, metadata=marked(mark, ""))], asynchronous=False)
        assert trim(settings, now) == trimmed
    reader.close()


def test_a_damaged_control_topic_does_not_stop_trimming(kafka: EmbeddedKafka, unique: str) -> None:
    """What is finished does not depend on it."""
    settings = _group(kafka, unique)
    now = time.time_ns() // 1_000_000
    tier = f"{unique}.retry.1s"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(settings.naming().control_topic(), b"of another program", b"feature-level")
    producer.produce(tier, b"finished", partition=0, timestamp=now - 2 * HORIZON_MS)
    producer.flush()
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{unique}.scheduler"})
    reader.commit(offsets=[TopicPartition(tier, 0, 1)], asynchronous=False)
    reader.close()
    with pytest.raises(ControlRecordError):
        survey(ClusterAdmin(settings.kafka), settings)

    assert trim(settings, now) == {(tier, 0): 1}


def _group(kafka: EmbeddedKafka, unique: str) -> Settings:
    Cluster(kafka.bootstrap_servers).create(f"{unique}.in")  # waits until the broker knows it
    settings = load_settings(
        f"""
        group: {unique}
        kafka: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}
        sources: [{{topic: {unique}.in}}]
        topics: {{auditHorizon: 1h}}
        """
    )
    admin = ClusterAdmin(settings.kafka)
    admin.apply(changes(*survey(admin, settings)))
    return settings
