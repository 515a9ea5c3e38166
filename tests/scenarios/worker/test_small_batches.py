"""A topic takes smaller batches than the client makes: it makes smaller ones from then on, and refuses no record."""

import os
from logging import Logger

import pytest
from confluent_kafka import Producer

from kafka_redelivery.transport.admin.write_rights import WriteRights
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.errors import WriteRefusedError
from kafka_redelivery.transport.opening import open_producer
from kafka_redelivery.transport.protocols import ProducerRecord, Writer
from tests.scenarios.cluster import Cluster

_LIMIT = 20_000
_NUMBER = 1000
_WRITES = 8


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Return the settings of the producers that are opened from now on."""
    found: list[Config] = []

    def recording(config: Config, log: Logger = client_log) -> Producer:
        found.append(config)
        return open_producer(config, log)

    for module in ("takeover", "auto_writer"):
        monkeypatch.setattr(f"kafka_redelivery.transport.clients.{module}.open_producer", recording)
    return found


def _records(topic: str, *sizes: int) -> list[ProducerRecord]:
    return [ProducerRecord(topic, 0, None, os.urandom(size), []) for size in sizes]


def test_one_new_producer_is_enough(cluster: Cluster, unique: str, writer: Writer, opened: list[Config]) -> None:
    """The next writes need none. A record that is too large by itself is found among the others."""
    cluster.alter(unique, max_message_bytes=str(_LIMIT))
    written = []
    for _ in range(2):
        records = _records(unique, *[1000] * _NUMBER)
        writer.write(records, {})
        written += records
    assert len(opened) == 1
    assert sorted(each.value or b"" for each in cluster.read(unique)) == sorted(each.value or b"" for each in written)
    with pytest.raises(WriteRefusedError) as refused:
        writer.write(_records(unique, *[1000] * 30, 2 * _LIMIT, *[1000] * 30, 2 * _LIMIT), {})
    assert [each.index for each in refused.value.refused] == [30, 61]


def test_a_user_who_may_not_read_the_limit(
    cluster: Cluster, unique: str, writer: Writer, opened: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer tries smaller batches, at the latest in the next write, and keeps the size that the broker takes."""
    monkeypatch.setattr(WriteRights, "smallest_limit", lambda *_: None)
    monkeypatch.setattr("kafka_redelivery.transport.clients.delivery._SEARCH_S", 0.02)  # several transactions
    cluster.alter(unique, max_message_bytes=str(_LIMIT))
    for _ in range(_WRITES):
        number = len(opened)
        writer.write(_records(unique, *[1000] * 100), {})
    assert len(opened) == number
    assert len(cluster.read(unique)) == _WRITES * 100
