"""Counts the records of a topic at the end of a run, as a read-committed reader sees them."""

from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.bench.bed import Bed
from tests.bench.tally import NUMBER_DIGITS


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers that are missing, and records beyond the first of each number."""

    lost: int
    doubled: int


def numbers_in(bed: Bed, topic: str, n: int) -> Counted:
    """Read a topic to its end and count the records' numbers."""
    seen = bytearray(n)
    consumer = Consumer(
        {
            "bootstrap.servers": bed.servers,
            "group.id": "bystander",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    open_ends = set(range(bed.cluster.partitions(topic)))
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in open_ends])
        while open_ends:
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    seen[int((message.value() or b"")[:NUMBER_DIGITS])] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(message.partition() or 0)
    finally:
        consumer.close()
    lost = seen.count(0)
    return Counted(lost, sum(seen) - (n - lost))
