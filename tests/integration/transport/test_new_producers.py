"""What a new transactional producer does on a real broker before its first write."""

import json
import logging
from typing import cast

import pytest

from kafka_redelivery.consumers.process.clients import Instance, open_writer
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config, consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import GroupMember, ProducerRecord

PRODUCERS = 12
UNABLE = "Unable to query for transaction coordinator"


def test_most_look_for_their_coordinator_when_they_are_connected(
    kafka: EmbeddedKafka, unique: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others may try again only after half a second, by which the first releases are late.

    A connection can be replaced just at that moment, so not all of them do.
    """
    # The client's own log: the one that it usually gets leaves messages out.
    monkeypatch.setattr("kafka_redelivery.transport.clients.takeover.client_log", logging.getLogger(unique))
    caplog.set_level(logging.DEBUG, unique)
    servers: Config = {"bootstrap.servers": kafka.bootstrap_servers}
    reader = GroupReader(consumer_config(servers, group=unique, instance=None))
    unable = 0
    try:
        for n in range(PRODUCERS):
            caplog.clear()
            config = producer_config(servers, transactional_id=f"{unique}.{n}") | {"debug": "eos", "log_level": 7}
            TransactionalWriter(config, reader).close()
            assert "Querying for transaction coordinator" in caplog.text
            unable += UNABLE in caplog.text
    finally:
        reader.close()
    assert unable < PRODUCERS / 2


def test_none_asks_for_all_topics_of_the_cluster(
    kafka: EmbeddedKafka, unique: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the first one nor one that replaces another: the cluster may be large, and may be in trouble."""
    monkeypatch.setattr("kafka_redelivery.transport.clients.takeover.client_log", logging.getLogger(unique))
    caplog.set_level(logging.DEBUG, unique)
    kafka.create_topics({unique: 1})
    client = {"bootstrap.servers": kafka.bootstrap_servers, "producer.debug": "metadata", "log_level": 7}
    settings = load_settings(json.dumps({"group": unique, "kafka": client, "sources": [{"topic": unique}]}))
    instance, no_group = Instance("one", stable=True), cast("GroupMember", None)
    older = open_writer(settings, "worker", instance, no_group, lambda *_, **__: None)
    newer = open_writer(settings, "worker", instance, no_group)
    with pytest.raises(WriteAbortedError, match=f"goes on with transactional.id {unique}.worker.random"):
        older.write([ProducerRecord(unique, 0, None, b"", [])], {})
    older.close()
    newer.close()
    assert caplog.text.count("application requested") >= 3
    assert "for all topics" not in caplog.text
