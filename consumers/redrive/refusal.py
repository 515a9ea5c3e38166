"""What a refused write says to the person who runs a command."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, grant
from kafka_redelivery.transport.protocols import ProducerRecord


def refusal(refused: RefusedRecord, records: Sequence[ProducerRecord]) -> str:
    """Return which topic cannot be written, why, and the right to grant if one is missing.

    Args:
        refused: a record that Kafka refuses.
        records: those of the write.
    """
    topic = records[refused.index].topic
    right = grant(f"Write on topic {topic}") if refused.cause is RefusalCause.FORBIDDEN else ""
    return f"{topic} cannot be written: {refused.reason}{right}"
