"""Counts the records of a topic while they arrive, polling seldom, so that counting costs next to nothing."""

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE
from kafka_redelivery.transport.client_config import consumer_config
from tests.bench.tally import NUMBER_DIGITS

_LOOK_S = 0.02
_TAKE = 10_000
_AFTERWARDS_S = 1.0
_WEIGHED = 100


def count(servers: str, topic: str, partitions: int, n: int, within_s: float) -> dict[str, Any]:
    """Read until ``n`` records have come, and one second longer.

    Returns:
        ``last_s``, monotonic time of the last record; the counts ``lost`` and ``doubled``; the greatest
        ``header_bytes`` and ``cause_bytes`` among the first records.
    """
    consumer = Consumer(consumer_config({"bootstrap.servers": servers}, group=f"tail-{topic}", instance=None))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    seen = bytearray(n)
    came = header_bytes = cause_bytes = 0
    last_s = 0.0
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        time.sleep(_LOOK_S)
        for message in consumer.consume(_TAKE, 0):
            if message.error() is not None:
                continue
            seen[int((message.value() or b"")[:NUMBER_DIGITS])] += 1
            came += 1
            if came <= _WEIGHED:
                headers: Any = message.headers() or []
                sizes = {name: len(name) + len(value or b"") for name, value in headers}
                header_bytes = max(header_bytes, sum(sizes.values()))
                cause_bytes = max(cause_bytes, sizes.get(FAILURE_CAUSE, 0))
        if came >= n and not last_s:
            last_s = time.monotonic()
            end_s = min(end_s, last_s + _AFTERWARDS_S)
    consumer.close()
    lost = seen.count(0)
    return {
        "last_s": last_s,
        "lost": lost,
        "doubled": sum(seen) - (n - lost),
        "header_bytes": header_bytes,
        "cause_bytes": cause_bytes,
    }
