"""Writes source records whose values begin with their number; the rest hardly compresses."""

import os
import time
from collections.abc import Sequence

from confluent_kafka import Producer

from kafka_redelivery.transport.client_config import producer_config
from tests.bench.tally import NUMBER_DIGITS

_POOL_BYTES = 2**16
_BEHIND_S = 0.002


class Values:
    """Makes values of a fixed number of bytes."""

    def __init__(self, size: int) -> None:
        self._padding = max(0, size - NUMBER_DIGITS)
        self._pool = os.urandom(_POOL_BYTES + self._padding)

    def value(self, number: int) -> bytes:
        """Return the value of a record."""
        start = number * 7919 % _POOL_BYTES
        return b"%010d" % number + self._pool[start : start + self._padding]


def feed(
    servers: str, topic: str | Sequence[str], n: int, *, value_bytes: int, keys: int, rate: float | None = None
) -> float:
    """Write ``n`` records, at ``rate`` per second if it is given; to several topics in turn.

    Returns:
        the seconds that it took.
    """
    producer = Producer(
        producer_config({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 3}, transactional_id=None)
    )
    values = Values(value_bytes)
    names: Sequence[bytes] = [b"k%d" % number for number in range(keys)]
    topics = [topic] if isinstance(topic, str) else topic
    begun = time.monotonic()
    for number in range(n):
        while rate is not None and number > (time.monotonic() - begun) * rate:
            producer.poll(0)
            time.sleep(_BEHIND_S)
        while True:
            try:
                producer.produce(topics[number % len(topics)], values.value(number), names[number % keys])
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError(f"{topics[0]} could not be written")
    return time.monotonic() - begun


def feed_actor(**parameters: object) -> dict[str, float]:
    """Run :func:`feed` in its own process."""
    return {"seconds": feed(**parameters)}  # type: ignore[arg-type]
