"""The log lines of the dead-letter monitor, and how shares divide the partitions."""

import logging
from typing import cast

import pytest

from kafka_redelivery.consumers.dead_letters.monitor import DeadLetterMonitor, PartitionShare
from kafka_redelivery.topology.cluster.facts import Bounds, TopicFacts
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.clients.assigned_reader import AssignedReader
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import NoOpObserver
from tests.unit.consumers.records import NOW


class AtItsEnd:
    """A reader that has read all of partition 0, and nothing of the others."""

    def lag(self, partition: Partition, end: int) -> int:
        """See :class:`AssignedReader`."""
        return end if partition.number else 0


def test_the_log_ignores_partitions_that_another_scheduler_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Their unread records do not delay the end of the count."""
    settings = load_settings("""
        group: billing
        kafka: {bootstrap.servers: "localhost:9092"}
        sources: [{topic: orders}]
    """)
    monitor = DeadLetterMonitor(settings, NoOpObserver(), lambda: PartitionShare(frozenset({0}), 2), lambda: NOW)
    monitor._current_share = monitor._share()
    bounds = {number: Bounds(0, 1_000_000) for number in range(2)}
    monitor._topics = {
        "DLQ.orders": TopicFacts(name="DLQ.orders", partitions=2, replication_factor=1, configs={}, bounds=bounds)
    }
    with caplog.at_level(logging.INFO):
        monitor._report(cast("AssignedReader", AtItsEnd()))
    assert caplog.text == ""


def test_shares_divide_any_number_of_partitions() -> None:
    """A topic may have more partitions than the tier whose assignment makes the shares."""
    shares = [PartitionShare(frozenset({0, 2}), 3), PartitionShare(frozenset({1}), 3)]
    assert [[share.has(number) for share in shares].count(True) for number in range(7)] == [1] * 7
