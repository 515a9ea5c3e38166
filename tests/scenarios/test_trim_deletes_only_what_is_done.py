"""Internal topics keep what is pending and what is younger than the audit horizon; the rest is deleted."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from topology.changes import changes
from topology.configuration import load_settings
from topology.settings import Settings
from transport.admin import ClusterAdmin
from transport.embedded import EmbeddedKafka
from transport.preflight import survey
from transport.trim import trim

HORIZON_MS = 3_600_000


def test_trim_stops_at_the_commit_and_at_the_horizon(kafka: EmbeddedKafka, unique: str) -> None:
    """Ten records in a tier, six of them committed, the last two of those young: four are deleted."""
    settings = _group(kafka, unique)
    now = time.time_ns() // 1_000_000
    tier = f"{unique}.retry.1s"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        age = 2 * HORIZON_MS if number < 4 else 0
        producer.produce(tier, b"%d" % number, partition=0, timestamp=now - age)
        producer.produce(f"{unique}.in", b"%d" % number, partition=0, timestamp=now - 2 * HORIZON_MS)
    producer.flush()
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{unique}.scheduler"})
    reader.commit(offsets=[TopicPartition(tier, 0, 6)], asynchronous=False)

    trimmed = trim(settings, now)

    assert trimmed == {(tier, 0): 4}
    assert reader.get_watermark_offsets(TopicPartition(tier, 0)) == (4, 10)
    assert reader.get_watermark_offsets(TopicPartition(f"{unique}.in", 0)) == (0, 10), "a source is never touched"
    assert trim(settings, now) == {}
    assert trim(settings, now + 2 * HORIZON_MS) == {(tier, 0): 6}, "never past the commit"
    reader.close()


def _group(kafka: EmbeddedKafka, unique: str) -> Settings:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    client.create_topics([NewTopic(f"{unique}.in", 1, 1)])[f"{unique}.in"].result()
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
