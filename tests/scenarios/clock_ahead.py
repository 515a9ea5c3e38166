"""The command line in a process whose wall clock is 1.5 s ahead."""

import time
from collections.abc import Sequence

AHEAD_S = 1.5

_time_ns = time.time_ns
time.time_ns = lambda: _time_ns() + round(AHEAD_S * 1e9)  # before any import takes it

from confluent_kafka import Producer  # noqa: E402

from kafka_redelivery.cli.main import app  # noqa: E402
from kafka_redelivery.transport.clients import auto_writer, delivery, writer  # noqa: E402
from kafka_redelivery.transport.clients.delivery import DeliveryReports  # noqa: E402
from kafka_redelivery.transport.protocols import ProducerRecord  # noqa: E402


def _produce(
    producer: Producer, records: Sequence[ProducerRecord], reports: DeliveryReports, timestamp_ms: int = 0
) -> None:
    """Set the timestamp that the client takes from the system's clock."""
    delivery.produce(producer, records, reports, timestamp_ms or time.time_ns() // 1_000_000)


if __name__ == "__main__":
    for module in (writer, auto_writer):
        module.produce = _produce  # type: ignore[attr-defined] # imported by that module, not exported
    app()
