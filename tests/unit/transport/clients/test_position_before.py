"""Where a partition goes on after an error, and which positions are lost, whatever the error says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_redelivery.transport.clients.reader import judge_position, position_before
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.protocols import Partition

DAMAGED = KafkaError(KafkaError._BAD_MSG)


@dataclass(frozen=True)
class Fetched:
    """A record, or an error."""

    number: int
    at: int
    failure: KafkaError | None = None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return self.failure


@dataclass
class Positions:
    """A client behind what it has returned, with a committed offset."""

    position_offset: int
    committed_offset: int | None = 3

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, self.position_offset) for each in partitions]

    def committed(self, partitions: Sequence[TopicPartition], _timeout_s: float) -> list[TopicPartition]:
        if self.committed_offset is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(each.topic, each.partition, self.committed_offset) for each in partitions]

    def get_watermark_offsets(self, _partition: TopicPartition, _timeout_s: float) -> tuple[int, int]:
        return 4, 10


def before(client: Positions, *messages: Fetched) -> int:
    """The position before the only error of partition 0, which was started at offset 1."""
    index = next(index for index, each in enumerate(messages) if each.number == 0 and each.failure is not None)
    return position_before(cast("Consumer", client), cast("Sequence[Message]", messages), index, 1)


@pytest.mark.parametrize(("refused", "end"), [(12, 10), (10, 10), (9, 10), (4, 10), (3, None), (0, None)], ids=str)
def test_a_refused_position_that_the_log_has_again(refused: int, end: int | None) -> None:
    """The log was shorter when it was refused, so its records are others. Below the log start, it was deleted."""
    judged = judge_position(cast("Consumer", Positions(refused)), Partition("orders", 0), refused, 0, "out of range")
    assert isinstance(judged, PositionDeletedError)
    assert (judged.offset, judged.end) == (refused, end)


def test_behind_the_last_record_of_the_same_fetch() -> None:
    """Other partitions, and what the client returns behind the error, do not count."""
    messages = [Fetched(0, 6), Fetched(1, 80), Fetched(0, 40, DAMAGED), Fetched(0, 41)]
    assert before(Positions(42), *messages) == 7


def test_at_the_position_of_the_client_if_nothing_of_the_partition_is_in_the_fetch() -> None:
    """Before its first record the partition is where it was started."""
    error = Fetched(0, 40, DAMAGED)
    assert before(Positions(7), Fetched(1, 80), error) == 7
    assert before(Positions(-1001), error) == 1


@pytest.mark.parametrize(("committed", "position"), [(5, 5), (0, 1), (-1001, 1), (None, 1)])
def test_at_the_committed_offset_if_the_client_went_on_behind_the_error(committed: int | None, position: int) -> None:
    """Its position is that of records behind the error. What is fetched twice is recognized."""
    assert before(Positions(42, committed), Fetched(0, 40, DAMAGED), Fetched(0, 41)) == position
