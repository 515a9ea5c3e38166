"""How long a member waits for leaders of partitions that do not answer."""

from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock

ORDERS = [Partition("orders", number) for number in range(4)]


class Leaders:
    """A client whose partitions have the offsets 3 to 9, have no leader, or one that is silent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.without: set[int] = set()
        self.silent: set[int] = set()
        self.known_late: set[int] = set()
        """Partitions that the client knows once it has asked for their topic."""

        self.refused: set[int] = set()
        """Partitions whose leader changes between two questions."""

        self.timeouts_s: list[float] = []

    def get_watermark_offsets(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int] | None:
        self.timeouts_s.append(timeout_s)
        if partition.partition in self.silent:
            self._clock.advance(timeout_s)
            return None
        if partition.partition in self.without | self.known_late:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 3, 9

    def offsets_for_times(self, asked: list[TopicPartition], _timeout_s: float) -> list[TopicPartition]:
        """A record was written at 100 ms."""
        [each] = asked
        if each.partition in self.refused:
            return [Mock(error=KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))]
        return [TopicPartition(each.topic, each.partition, 7 if each.offset <= 100 else OFFSET_END)]

    def list_topics(self, _topic: str, _timeout_s: float) -> None:
        self.known_late.clear()

    def poll(self, _timeout_s: float) -> None:
        """Nothing has arrived."""

    def pause(self, _partitions: list[TopicPartition]) -> None:
        """Nothing is assigned."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of the next reader."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.transport.clients.reader.monotonic", clock)
    return clock


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Leaders:
    """The client of the next reader."""
    client = Leaders(clock)
    monkeypatch.setattr("kafka_redelivery.transport.clients.reader.open_consumer", lambda *_, **__: client)
    return client


@pytest.fixture
def reader(leaders: Leaders) -> Iterator[GroupReader]:
    """A reader with that client."""
    del leaders
    reader = GroupReader(consumer_config({"bootstrap.servers": "127.0.0.1:1"}, group="billing", instance=None))
    yield reader
    reader.close()


def test_a_partition_without_a_leader_is_not_waited_for(reader: GroupReader, leaders: Leaders) -> None:
    """One that was added a moment ago is asked again."""
    leaders.without, leaders.known_late = {1}, {0}
    assert [reader.bounds_now(each) for each in ORDERS] == [(3, 9), None, (3, 9), (3, 9)]


def test_silent_leaders_take_five_seconds_altogether(reader: GroupReader, leaders: Leaders) -> None:
    """And a little more for each. The next partition is asked nevertheless."""
    leaders.silent = {0, 1, 2}
    assert [reader.bounds_now(each) for each in ORDERS] == [None, None, None, (3, 9)]
    assert leaders.timeouts_s == [5.0, 0.2, 0.2, 0.2]


def test_a_silent_leader_that_is_asked_again_takes_a_fiftieth_of_the_time(
    reader: GroupReader, leaders: Leaders, clock: Clock
) -> None:
    """However often it is asked, the others are fetched for most of the time; later it has its five seconds again."""
    leaders.silent = {0}
    began_s = clock()
    for pause_s in (0, 1, 2, 4, 8, 16, *[30] * 20):
        clock.advance(pause_s)
        assert reader.bounds_now(ORDERS[0]) is None
        reader.fetch(10, 0)
    assert sum(leaders.timeouts_s) < 5 + 0.03 * (clock() - began_s)
    assert leaders.timeouts_s[-1] == pytest.approx(0.6, abs=0.05)
    clock.advance(600)
    assert reader.bounds_now(ORDERS[0]) is None
    assert leaders.timeouts_s[-1] == 5.0


def test_the_end_at_a_time_is_the_next_record_or_the_end(reader: GroupReader, leaders: Leaders) -> None:
    """Unless a question about the partition is not answered."""
    leaders.refused = {2}
    assert [reader.end_at(each, 100, 9) for each in ORDERS] == [7, 7, None, 7]
    assert reader.end_at(ORDERS[0], 101, 9) == 9
