"""A record that its producer compressed better than we usually do is retried and dead-lettered like any other."""

import os
import re
from logging import Logger

import pytest
from confluent_kafka import Producer

from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.errors import RefusalCause, WriteRefusedError
from kafka_redelivery.transport.opening import open_producer
from kafka_redelivery.transport.protocols import ProducerRecord, Writer
from tests.scenarios.cluster import Cluster
from tests.scenarios.redriving import dlq
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import until
from tests.scenarios.words import LARGE, script_with_text, text

_LIMIT = 1_048_588
"""The default limit of a topic."""


@pytest.mark.parametrize("mode", ["transacted", "auto"])
@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_its_copies_fit(group: Group, mode: str, compression: str) -> None:
    """It goes through its tier and its ready topic to the dead letters, unchanged, and is sent again from there."""
    group.prepare(1, mode=mode)
    sent = [script_with_text(0, ["raise", "ok"]), script_with_text(1, ["raise", "reject"])]
    upstream = Cluster(group.cluster.servers, {"compression.type": compression})
    upstream.produce(group.source, [*sent, *(script(n, ["ok"]) for n in range(2, 10))])
    group.scheduler()
    group.worker()
    group.settle()

    assert group.outputs() == exactly([0, *range(2, 10)])
    (letter,) = group.cluster.read(group.dead_letters)
    assert (number(letter), letter.value) == (1, sent[1].value)
    assert letter.header("JMSXDeliveryCount") == "2"
    done = dlq(group, "redrive", "--yes")
    assert done.code == 0, done
    group.settle()
    group.stop()
    assert [record.value for record in group.cluster.read(group.dead_letters)] == [sent[1].value] * 2


def test_what_does_not_fit_halts_its_partition(group: Group) -> None:
    """The log names the size of the record and the limit. The partition goes on as soon as the limit lets zstd pass."""
    group.prepare(1)
    upstream = Cluster(group.cluster.servers, {"compression.type": "zstd"})
    worker = group.worker()
    until(lambda: " reads " in worker.log, "the worker runs")
    group.cluster.alter(group.dead_letters, max_message_bytes="2000")
    upstream.produce(group.source, [script_with_text(0, ["reject"]), script(1, ["ok"])])
    (line,) = until(lambda: re.findall(".*is halted at offset.*", worker.log)[:1], "the partition halts")

    (size,) = re.findall(r"its (\d+) bytes", line)
    assert LARGE < int(size) < LARGE + 2000, "with headers"
    assert "limit" in line
    assert "2000 bytes" in line
    assert "compression" in line
    group.cluster.alter(group.dead_letters, max_message_bytes=str(_LIMIT))
    group.settle()
    group.stop()
    assert group.outputs() == exactly([1])
    assert group.dead() == exactly([0])


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


def test_only_that_write_is_compressed_so(cluster: Cluster, unique: str, writer: Writer, opened: list[Config]) -> None:
    """Writes before and after it pay nothing. Of several large records those are named that no compression helps."""
    words = ProducerRecord(unique, 0, b"words", text().encode(), [])
    noise = ProducerRecord(unique, 0, b"noise", os.urandom(_LIMIT + 1), [])
    small = [ProducerRecord(unique, 0, b"small", b"%d" % n, []) for n in range(10)]

    writer.write(small, {})
    assert not opened
    writer.write([*small, words, *small], {})
    used = [each["compression.type"] for each in opened]
    assert used.count("zstd") == 1
    writer.write(small, {})
    assert [each["compression.type"] for each in opened] == used
    with pytest.raises(WriteRefusedError) as refused:
        writer.write([*small, words, noise, words, noise], {})
    assert [each.index for each in refused.value.refused] == [11, 13]
    assert {each.cause for each in refused.value.refused} == {RefusalCause.TOO_LARGE}
    assert f"its {_LIMIT + 6} bytes exceed the limit, max.message.bytes of {unique}, {_LIMIT} bytes" in str(
        refused.value
    )
    assert writer.trial(words, 1.0).seconds == 0
    assert [record.value for record in cluster.read_written(unique)].count(words.value) >= 1


def test_the_limit_of_the_client(cluster: Cluster, unique: str, writer: Writer) -> None:
    """The client counts bytes before compression, so the error names its setting."""
    cluster.alter(unique, max_message_bytes=str(2 * _LIMIT))
    with pytest.raises(
        WriteRefusedError, match=r"before compression exceed the limit of the client, message\.max\.bytes="
    ):
        writer.write([ProducerRecord(unique, 0, None, bytes(100_000_001), [])], {})
