"""Positions of the group's consumer on a real broker: a pause never undoes a seek.

The client resumes a paused partition behind the last record that it has returned. Up to version 1.8 it did so also if a
seek had moved the position since then (librdkafka#3471), which skipped the records between the two.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Message, Partition
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

RECORDS = 400
"""Records of each of the two partitions."""


class FromStart:
    """Starts every partition at offset 0, or at another one."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, self.start)

    def revoked(self, partitions: Iterable[Partition]) -> None:
        pass

    def lost(self, partitions: Iterable[Partition]) -> None:
        pass


@pytest.fixture
def partition(unique: str) -> Partition:
    """The partition that is paused."""
    return Partition(unique, 0)


@pytest.fixture(params=["plain", "transactions"])
def reader(
    request: pytest.FixtureRequest, kafka: EmbeddedKafka, cluster: Cluster, partition: Partition
) -> Iterator[GroupReader]:
    """A consumer of two partitions, written without transactions, or in several of them."""
    cluster.create(partition.topic, partitions=2)
    records = [Sent(b"%d" % n, partition=n % 2) for n in range(2 * RECORDS)]
    if request.param == "plain":
        cluster.produce(partition.topic, records)
    else:
        for first in range(0, len(records), 200):
            cluster.transact(partition.topic, records[first : first + 200])
    config = consumer_config({"bootstrap.servers": kafka.bootstrap_servers}, group=partition.topic, instance=None)
    reader = GroupReader(config)
    try:
        reader.subscribe([partition.topic], FromStart())
        yield reader
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("target", [0, 7, 300])
@pytest.mark.parametrize("pause_first", [False, True])
def test_a_paused_partition_goes_on_where_it_was_sought(
    reader: GroupReader, partition: Partition, target: int, *, pause_first: bool
) -> None:
    """In either order of seek and pause, backward and forward, while the other partition is fetched."""
    until(lambda: _of(partition, reader.fetch(50, 0.2)), "records are fetched")
    if pause_first:
        reader.pause([partition])
    reader.seek(partition, target)
    if not pause_first:
        reader.pause([partition])
    for _ in range(5):
        assert _of(partition, reader.fetch(20, 0.1)) == []
    reader.resume([partition])
    fetched = until(lambda: _of(partition, reader.fetch(50, 0.2)), "the partition goes on")
    assert fetched[0].offset() == target


def test_records_that_are_given_back_are_fetched_again(reader: GroupReader, partition: Partition) -> None:
    """A caller that has no room takes part of each fetch, seeks back to the first of the rest, and pauses."""
    taken: list[bytes] = []

    def take_part() -> bool:
        found = _of(partition, reader.fetch(30, 0.2))
        part = found[: max(1, len(found) // 2)]
        taken.extend(record.value() or b"" for record in part)
        if len(part) < len(found):
            reader.seek(partition, found[len(part)].offset())
            reader.pause([partition])
            reader.fetch(10, 0)
            reader.resume([partition])
        return len(taken) >= RECORDS

    until(take_part, "all records are taken")
    assert taken == [b"%d" % n for n in range(0, 2 * RECORDS, 2)]


def test_a_position_beyond_the_end_is_not_a_deleted_one(
    kafka: EmbeddedKafka, cluster: Cluster, partition: Partition
) -> None:
    """The error names the end of the log."""
    cluster.create(partition.topic)
    cluster.produce(partition.topic, [Sent(b"%d" % n) for n in range(9)])
    cluster.delete_before(partition.topic, 0, 5)
    config = consumer_config({"bootstrap.servers": kafka.bootstrap_servers}, group=partition.topic, instance=None)
    for start, end in ((30, 9), (3, None)):
        reader = GroupReader(config)
        try:
            reader.subscribe([partition.topic], FromStart(start))
            with pytest.raises(PositionDeletedError) as raised:
                until(lambda: reader.fetch(9, 0.2), "the position is refused")  # noqa: B023 - called at once
        finally:
            reader.close()
        assert (raised.value.offset, raised.value.end) == (start, end)


@pytest.mark.long
def test_a_log_that_is_truncated_under_its_consumer(tmp_path: Path, partition: Partition) -> None:
    """The client compares leader epochs and stops without an offset. The error names the position and the end."""
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        cluster = Cluster(kafka.bootstrap_servers)
        cluster.create(partition.topic)
        segment = tmp_path / "data" / f"{partition.topic}-0" / f"{0:020}.log"
        cluster.produce(partition.topic, [Sent(b"%d" % n) for n in range(5)])
        kept = segment.stat().st_size
        cluster.produce(partition.topic, [Sent(b"%d" % n) for n in range(5, 9)])
        reader = GroupReader(consumer_config({"bootstrap.servers": kafka.bootstrap_servers}, group="g", instance=None))
        try:
            reader.subscribe([partition.topic], FromStart())
            until(lambda: any(each.offset() == 8 for each in reader.fetch(9, 0.2)), "all records are fetched")
            kafka.stop()
            os.truncate(segment, kept)
            kafka.start()
            with pytest.raises(PositionDeletedError) as raised:
                until(lambda: reader.fetch(9, 0.2), "the position is refused")
        finally:
            reader.close()
    assert (raised.value.offset, raised.value.end) == (9, 5)


def _of(partition: Partition, messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if message.partition() == partition.number]


def test_a_new_position_ends_what_was_found_about_the_one_before() -> None:
    """The partition may have been sought to the start of a topic that was created again, before the next fetch."""
    reader = GroupReader(
        consumer_config({"bootstrap.servers": "localhost:1", "log_level": 0}, group="g", instance=None)
    )
    first, other = Partition("t", 0), Partition("t", 1)
    reader._deleted |= {each: PositionDeletedError(*each, 50, "") for each in (first, other)}
    with suppress(KafkaException):  # nothing is assigned
        reader.seek(first, 0)
    assert list(reader._deleted) == [other]
    reader.close()
