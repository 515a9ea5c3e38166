"""What a refused write says to the person who runs a command."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, grant
from kafka_redelivery.transport.protocols import ProducerRecord


def refusal(refused: RefusedRecord, records: Sequence[ProducerRecord]) -> str:
    """Return which topic cannot be written, why, and what to do about a cause outside the record.

    Args:
        refused: a record that Kafka refuses.
        records: those of the write.
    """
    topic = records[refused.index].topic
    fix = ""
    if refused.cause is RefusalCause.FORBIDDEN:
        fix = grant(f"Write on topic {topic}")
    elif refused.cause is RefusalCause.CLOCK:
        fix = "; correct the clock of this machine"
    return f"{topic} cannot be written: {refused.reason}{fix}"
