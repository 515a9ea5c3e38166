"""The log lines of the dead-letter monitor, and how shares divide the partitions."""

import logging
from typing import cast

import pytest

from kafka_redelivery.consumers.dead_letters.monitor import DeadLetterMonitor, PartitionShare
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.topology.cluster.facts import Bounds, TopicFacts
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.assigned_reader import AssignedReader
from kafka_redelivery.transport.errors import PartitionUnfetchableError, ReaderError, TopicForbiddenError, Unfetchable
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import NoOpObserver
from tests.unit.consumers.records import NOW


class AtItsEnd:
    """A reader that has read all of partition 0, and nothing of the others."""

    def __init__(self) -> None:
        self.errors: dict[Partition, ReaderError] = {}

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
    monitor = DeadLetterMonitor(
        settings, NoOpObserver(), Health(), lambda: PartitionShare(frozenset({0}), 2), tuple, lambda: NOW
    )
    monitor._current_share = monitor._share()
    bounds = {number: Bounds(0, 1_000_000) for number in range(2)}
    monitor._topics = {
        "DLQ.orders": TopicFacts(name="DLQ.orders", partitions=2, replication_factor=1, configs={}, bounds=bounds)
    }
    with caplog.at_level(logging.INFO):
        monitor._report(cast("AssignedReader", AtItsEnd()))
    assert caplog.text == ""


def test_what_cannot_be_read_is_a_halted_partition() -> None:
    """Each partition by topic and cause, until it can be read."""
    settings = load_settings("""
        group: billing
        kafka: {bootstrap.servers: "localhost:9092"}
        sources: [{topic: orders}]
    """)
    observer, health = Measurements(Build("1", "scheduler", "billing", "s1")), Health()
    monitor = DeadLetterMonitor(
        settings, observer, health, lambda: PartitionShare(frozenset({0}), 1), tuple, lambda: NOW
    )
    observer.halted_partitions({HaltLabel("billing.retry.1s", HaltCause.DELETED): 1})
    reader = AtItsEnd()
    damaged = [
        PartitionUnfetchableError("DLQ.orders", number, 7, "bad checksum", Unfetchable.DAMAGED) for number in range(2)
    ]
    denied = TopicForbiddenError("DLQ.bills", "denied")
    reader.errors = {Partition("DLQ.orders", each.number): each for each in damaged} | {
        Partition("DLQ.bills", 0): denied
    }
    monitor._report(cast("AssignedReader", reader))
    halted = next(family for family in observer.collect() if family.name == "redelivery_halted_partitions").samples
    assert {(each.labels["refused_by"], each.labels["cause"]): each.value for each in halted} == {
        ("billing.retry.1s", "deleted"): 1,
        ("DLQ.orders", "unfetchable"): 2,
        ("DLQ.bills", "forbidden"): 1,
    }
    health.joined()
    assert "DLQ.orders-1 is halted: it cannot be fetched at offset 7" in health.ready().reason
    assert "grant the right Read on topic DLQ.bills" in health.ready().reason
    reader.errors = {}
    monitor._report(cast("AssignedReader", reader))
    assert health.ready() == (True, "ready")


def test_shares_divide_any_number_of_partitions() -> None:
    """A topic may have more partitions than the tier whose assignment makes the shares."""
    shares = [PartitionShare(frozenset({0, 2}), 3), PartitionShare(frozenset({1}), 3)]
    assert [[share.has(number) for share in shares].count(True) for number in range(7)] == [1] * 7
