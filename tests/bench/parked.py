"""Writes retry records into a tier at a steady rate, as a worker would."""

import time
from typing import Any, cast

from confluent_kafka import Producer

from kafka_redelivery.consumers.routes import TierPlacement
from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import retry_headers
from kafka_redelivery.transport.client_config import producer_config
from tests.bench.feed import Values

_BEHIND_S = 0.001


def park(  # noqa: PLR0913
    servers: str,
    topic: str,
    source: str,
    *,
    n: int,
    rate: float,
    delay_ms: int,
    origins: int,
    partitions: int,
    value_bytes: int,
) -> dict[str, float]:
    """Write ``n`` retry records, each due ``delay_ms`` after it is written.

    They come from ``origins`` source partitions in turn. They wait where a worker puts them that owns all of these, in
    a tier with this number of ``partitions``.
    """
    producer = Producer(producer_config({"bootstrap.servers": servers}, transactional_id=None))
    values = Values(value_bytes)
    owned = frozenset(range(origins))
    placement = TierPlacement(lambda: owned)
    begun = time.monotonic()
    for number in range(n):
        while number > (time.monotonic() - begun) * rate:
            producer.poll(0)
            time.sleep(_BEHIND_S)
        now_ms = time.time_ns() // 1_000_000 + 1
        origin = number % origins
        lineage = Lineage(source, origin, number, now_ms, 1)
        producer.produce(
            topic,
            values.value(number),
            b"k%d" % number,
            placement.number_for(origin) % partitions,
            timestamp=now_ms,
            headers=cast("Any", retry_headers(lineage, "bench", (), Retry(delay_ms, now_ms + delay_ms))),
        )
    if producer.flush(30):
        raise RuntimeError(f"{topic} could not be written")
    return {"seconds": time.monotonic() - begun}
