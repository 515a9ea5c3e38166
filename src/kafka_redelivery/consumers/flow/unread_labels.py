"""Reports what the consumer of a process may not read, or cannot fetch, at present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel
from kafka_redelivery.transport.errors import RefusalCause
from kafka_redelivery.transport.protocols import Partition, Reader


def unread_labels(reader: Reader, owned: Iterable[Partition], health: Health) -> Counter[HaltLabel]:
    """Note topics and partitions in the readiness probe, and return the number of partitions by label of the metric.

    The group assigns no partition of a topic that may not even be described; such a topic counts as one partition.
    """
    forbidden, unfetchable = reader.forbidden, reader.unfetchable
    health.note("forbidden", "\n".join(forbidden.values()))
    health.note("unfetchable", "\n".join(unfetchable.values()))
    labels = Counter(HaltLabel(partition.topic, "unfetchable") for partition in unfetchable)
    if forbidden:
        counts = Counter(partition.topic for partition in owned)
        labels += Counter({HaltLabel(topic, str(RefusalCause.FORBIDDEN)): max(1, counts[topic]) for topic in forbidden})
    return labels
