"""The straightforward release loop: consume, wait until due, produce, send the offsets, commit.

The client settings are a scheduler's. ``tuned`` blocks for the first record or the next due one instead of filling a
batch, which is the first improvement one would make.
"""

import time
from collections import deque
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kafka_redelivery.topology.wire.headers import read_due
from kafka_redelivery.transport.client_config import consumer_config, producer_config

Parked = tuple[int, Message, Any]
"""Due time in epoch milliseconds, the record and its headers."""

_BATCH = 1000
_WAIT_S = 0.05


def release(servers: str, tier: str, ready: str, n: int, mode: str, *, tuned: bool, within_s: float) -> dict[str, Any]:
    """Release ``n`` records of ``tier`` into ``ready``; mode ``auto`` commits after the broker's acknowledgement."""
    name = f"naive-{time.time_ns()}"
    config = consumer_config({"bootstrap.servers": servers}, group=name, instance=None)
    consumer = Consumer(config | {"auto.offset.reset": "earliest"})
    transacted = mode == "transacted"
    producer = Producer(producer_config({"bootstrap.servers": servers}, transactional_id=name if transacted else None))
    if transacted:
        producer.init_transactions(60)
    consumer.subscribe([tier])
    waiting: deque[Parked] = deque()
    released = 0
    end_s = time.monotonic() + within_s
    while released < n and time.monotonic() < end_s:
        for message in _tuned_fetch(consumer, waiting) if tuned else consumer.consume(_BATCH, _WAIT_S):
            if message.error() is None:
                headers: Any = message.headers() or []
                waiting.append((read_due(headers) or 0, message, headers))
        now_ms = time.time_ns() // 1_000_000
        offsets: dict[int, int] = {}
        if transacted and waiting and waiting[0][0] <= now_ms:
            producer.begin_transaction()
        while waiting and waiting[0][0] <= now_ms:
            _, message, headers = waiting.popleft()
            producer.produce(ready, message.value(), message.key(), message.partition() or 0, headers=headers)
            offsets[message.partition() or 0] = (message.offset() or 0) + 1
            released += 1
        if not offsets:
            continue
        ends = [TopicPartition(tier, partition, offset) for partition, offset in offsets.items()]
        if transacted:
            producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata())
            producer.commit_transaction()
        else:
            producer.flush()
            consumer.commit(offsets=ends, asynchronous=False)
    consumer.close()
    return {"released": released}


def _tuned_fetch(consumer: Consumer, waiting: deque[Parked]) -> list[Message]:
    due_s = waiting[0][0] / 1000 - time.time() if waiting else _WAIT_S
    first = consumer.poll(min(_WAIT_S, max(0.0, due_s)))
    return [] if first is None else [first, *consumer.consume(_BATCH - 1, 0)]
