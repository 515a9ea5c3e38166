"""The upper limit: a bare client without retry logic, with a worker's client settings, in its own process.

``consume`` commits once per batch; ``copy`` also writes each record to another topic and waits for the broker's
acknowledgement; ``txcopy`` writes records and offsets in one transaction per batch.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kafka_redelivery.transport.client_config import consumer_config, producer_config
from tests.bench.tally import Tally

_WAIT_S = 0.05
_QUIET: dict[str, str | int | float | bool] = {"log_level": 3}
"""Suppresses the client's warnings about a broker that has just started."""

_GIVE_UP_S = 120.0

Write = Callable[[Sequence[Message], list[TopicPartition]], None]


def consume(servers: str, source: str, n: int, batch: int) -> dict[str, Any]:
    """Consume and commit."""
    consumer = _consumer(servers, f"bare-consume-{time.time_ns()}")

    def write(_messages: Sequence[Message], offsets: list[TopicPartition]) -> None:
        consumer.commit(offsets=offsets, asynchronous=False)

    return _run(consumer, source, n, batch, write)


def copy(servers: str, source: str, target: str, n: int, batch: int) -> dict[str, Any]:
    """Consume, produce, flush and commit."""
    consumer = _consumer(servers, f"bare-copy-{time.time_ns()}")
    producer = Producer(producer_config({"bootstrap.servers": servers, **_QUIET}, transactional_id=None))

    def write(messages: Sequence[Message], offsets: list[TopicPartition]) -> None:
        for message in messages:
            producer.produce(target, message.value(), message.key(), message.partition() or 0)
        if producer.flush(60):
            raise RuntimeError("the broker does not acknowledge the records")
        consumer.commit(offsets=offsets, asynchronous=False)

    return _run(consumer, source, n, batch, write)


def txcopy(servers: str, source: str, target: str, n: int, batch: int) -> dict[str, Any]:
    """Begin a transaction, produce, send the offsets and commit."""
    name = f"bare-txcopy-{time.time_ns()}"
    consumer = _consumer(servers, name)
    producer = Producer(producer_config({"bootstrap.servers": servers, **_QUIET}, transactional_id=name))
    producer.init_transactions(60)

    def write(messages: Sequence[Message], offsets: list[TopicPartition]) -> None:
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), message.key(), message.partition() or 0)
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()

    return _run(consumer, source, n, batch, write)


def _consumer(servers: str, group: str) -> Consumer:
    # A start position without committed offsets; all other settings are a worker's.
    config = consumer_config({"bootstrap.servers": servers}, group=group, instance=None)
    return Consumer(config | {"auto.offset.reset": "earliest"})


def _run(consumer: Consumer, source: str, n: int, batch: int, write: Write) -> dict[str, Any]:
    tally = Tally(n)
    consumer.subscribe([source])
    handled = 0
    give_up_s = time.monotonic() + _GIVE_UP_S
    while handled < n:
        messages = [message for message in consumer.consume(batch, _WAIT_S) if message.error() is None]
        if not messages:
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"only {handled} of {n} records came")
            continue
        offsets = {}
        for message in messages:
            tally.note(message.value())  # type: ignore[arg-type]
            offsets[message.partition()] = message.offset()
        ends = [TopicPartition(source, partition or 0, (offset or 0) + 1) for partition, offset in offsets.items()]
        write(messages, ends)
        handled += len(messages)
    seconds = time.monotonic() - tally.first_s
    cpu_s = time.process_time() - tally.first_cpu_s
    consumer.close()
    return {"records_per_s": n / seconds, "seconds": seconds, "cpu_us": cpu_s * 1e6 / n, **tally.as_json()}
