"""Reports the topics that a process may not read at present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel
from kafka_redelivery.transport.errors import RefusalCause
from kafka_redelivery.transport.protocols import Partition, Reader


def forbidden_labels(reader: Reader, owned: Iterable[Partition], health: Health) -> Counter[HaltLabel]:
    """Note the topics in the readiness probe, and return their owned partitions by label of the metric.

    The group assigns no partition of a topic that may not even be described; such a topic counts as one partition.
    """
    problems = reader.forbidden
    health.note("forbidden", "\n".join(problems.values()))
    if not problems:
        return Counter()
    counts = Counter(partition.topic for partition in owned)
    return Counter({HaltLabel(topic, str(RefusalCause.FORBIDDEN)): max(1, counts[topic]) for topic in problems})
