"""A bare read-committed reader that measures how late each record becomes visible."""

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kafka_redelivery.topology.wire.headers import read_due
from kafka_redelivery.transport.client_config import consumer_config
from tests.bench.tally import NUMBER_DIGITS

_QUIET_S = 10.0
_AFTERWARDS_S = 1.0
_TAKE = 1000


def watch(servers: str, topic: str, partitions: int, n: int, warm_up: int, within_s: float) -> dict[str, Any]:
    """Read until ``n`` records have come, and one second longer; block for the first record, then take all available.

    Returns:
        ``late_ms`` of each record but the first ``warm_up`` numbers; the counts ``early``, ``lost`` and ``doubled``.
    """
    consumer = Consumer(consumer_config({"bootstrap.servers": servers}, group=f"watch-{topic}", instance=None))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    seen = bytearray(n)
    late: list[float] = []
    came = early = 0
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        first = consumer.poll(0.2)
        if first is None:
            continue
        for message in [first, *consumer.consume(_TAKE, 0)]:
            if message.error() is not None:
                continue
            now_ms = time.time() * 1000
            number = int((message.value() or b"")[:NUMBER_DIGITS])
            seen[number] += 1
            came += 1
            headers: Any = message.headers() or []
            late_ms = now_ms - (read_due(headers) or 0)
            early += late_ms < 0
            if number >= warm_up:
                late.append(late_ms)
        if came >= n:
            end_s = min(end_s, time.monotonic() + _AFTERWARDS_S)
    consumer.close()
    lost = seen.count(0)
    return {"late_ms": late, "early": early, "lost": lost, "doubled": sum(seen) - (n - lost)}
