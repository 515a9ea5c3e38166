"""The upper limit: a bare client without retry logic, with a worker's client settings, in its own process.

``consume`` commits once per batch; ``copy`` also writes each record to another topic and waits for the broker's
acknowledgement; ``txcopy`` writes records and offsets in one transaction per batch. ``fail_once`` and ``forward``
together are W1 without decisions and without a delay.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kafka_redelivery.topology.policy.decision import Failure, FailureKind, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import retry_headers
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
    consumer, producer = _clients(servers, "txcopy")

    def write(messages: Sequence[Message], offsets: list[TopicPartition]) -> None:
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), message.key(), message.partition() or 0)
        _commit(producer, consumer, offsets)

    return _run(consumer, source, n, batch, write)


def forward(servers: str, source: str, target: str, n: int, batch: int) -> dict[str, Any]:
    """The scheduler's part of W1: like ``txcopy``, with the headers of each record."""
    consumer, producer = _clients(servers, "forward")

    def write(messages: Sequence[Message], offsets: list[TopicPartition]) -> None:
        producer.begin_transaction()
        for message in messages:
            key, value, headers = message.key(), message.value(), message.headers()
            producer.produce(target, value, key, message.partition() or 0, headers=headers)
        _commit(producer, consumer, offsets)

    return _run(consumer, source, n, batch, write)


def fail_once(servers: str, source: str, tier: str, ready: str, n: int, batch: int) -> dict[str, Any]:
    """The worker's part of W1: write each record into a tier, with headers; read the one that it becomes."""
    consumer, producer = _clients(servers, "fail-once")
    now_ms = round(time.time() * 1000)
    failure = Failure(FailureKind.RAISED, "ValueError", str(n))
    headers = retry_headers(Lineage(source, 0, n, now_ms, 1), "fail-once", (), Retry(1000, now_ms), failure)
    tally, handled = Tally(n), 0
    for messages in _batches(consumer, [source, ready], batch):
        tally.begin()
        producer.begin_transaction()
        offsets = {}
        for message in messages:
            topic, partition = message.topic(), message.partition() or 0
            offsets[topic, partition] = (message.offset() or 0) + 1
            if topic == source:
                producer.produce(tier, message.value(), message.key(), partition, headers=headers)  # type: ignore[arg-type] # a list of str is not wanted, only read
            else:
                message.headers()
                tally.note(message.value())  # type: ignore[arg-type]
                handled += 1
        ends = [TopicPartition(topic or "", partition, end) for (topic, partition), end in offsets.items()]
        _commit(producer, consumer, ends)
        if handled >= n:
            break
    return _report(consumer, tally, n)


def _clients(servers: str, name: str) -> tuple[Consumer, Producer]:
    name = f"bare-{name}-{time.time_ns()}"
    producer = Producer(producer_config({"bootstrap.servers": servers, **_QUIET}, transactional_id=name))
    producer.init_transactions(60)
    return _consumer(servers, name), producer


def _commit(producer: Producer, consumer: Consumer, offsets: list[TopicPartition]) -> None:
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()


def _consumer(servers: str, group: str) -> Consumer:
    # A start position without committed offsets; all other settings are a worker's.
    config = consumer_config({"bootstrap.servers": servers}, group=group, instance=None)
    return Consumer(config | {"auto.offset.reset": "earliest"})


def _run(consumer: Consumer, source: str, n: int, batch: int, write: Write) -> dict[str, Any]:
    tally = Tally(n)
    handled = 0
    for messages in _batches(consumer, [source], batch):
        offsets = {}
        for message in messages:
            tally.note(message.value())  # type: ignore[arg-type]
            offsets[message.partition()] = message.offset()
        ends = [TopicPartition(source, partition or 0, (offset or 0) + 1) for partition, offset in offsets.items()]
        write(messages, ends)
        handled += len(messages)
        if handled >= n:
            break
    return _report(consumer, tally, n)


def _batches(consumer: Consumer, topics: list[str], batch: int) -> Iterator[list[Message]]:
    """Yield records until the caller has enough."""
    consumer.subscribe(topics)
    give_up_s = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up_s:
        messages = [message for message in consumer.consume(batch, _WAIT_S) if message.error() is None]
        if messages:
            yield messages
    raise RuntimeError(f"not all records came within {_GIVE_UP_S:.0f} s")


def _report(consumer: Consumer, tally: Tally, n: int) -> dict[str, Any]:
    seconds = time.monotonic() - tally.first_s
    cpu_s = time.process_time() - tally.first_cpu_s
    consumer.close()
    return {"records_per_s": n / seconds, "seconds": seconds, "cpu_us": cpu_s * 1e6 / n, **tally.as_json()}
