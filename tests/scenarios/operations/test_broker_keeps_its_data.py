"""A broker that is restarted on its data directory has its topics and records, after a stop and after a crash."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

# After a crash, a broker can register again only when its former session has expired. A broker whose heartbeats are
# late by more than the difference of the two is taken for dead, and no topic can be created then.
_QUICK = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}


@pytest.mark.kafka
@pytest.mark.parametrize("end", [EmbeddedKafka.stop, EmbeddedKafka.kill], ids=["stop", "kill"])
def test_a_restart_keeps_topics_records_and_the_port(tmp_path: Path, end: object) -> None:
    """Records confirmed before the end are read after the next start, at the same address."""
    broker = EmbeddedKafka(data_dir=tmp_path / "kafka", properties=_QUICK)
    with broker:
        address = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        admin.create_topics([NewTopic("kept", 1)])["kept"].result()
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        producer.produce("kept", b"value")
        assert producer.flush(30) == 0

        assert callable(end)
        end(broker)
        assert not broker.running
        broker.start()

        assert broker.bootstrap_servers == address
        consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
        consumer.assign([TopicPartition("kept", 0, 0)])
        record = consumer.poll(30)
        consumer.close()
        assert record is not None
        assert record.value() == b"value"
    assert (tmp_path / "kafka" / "data" / "kept-0").is_dir()
