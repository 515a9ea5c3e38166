"""What a watch says of itself."""

import logging
from typing import cast

import pytest

from consumers.dead_letter_watch import Watch
from consumers.observer import Silent
from consumers.scheduler import Share
from tests.unit.consumers.records import NOW
from topology.configuration import load_settings
from topology.facts import Bounds, TopicFacts
from transport.assigned_reader import AssignedReader
from transport.protocols import Partition


class AtItsEnd:
    """A reader that has read all of partition 0, and nothing of others."""

    def unread(self, partition: Partition, end: int) -> int:
        """See :class:`transport.assigned_reader.AssignedReader`."""
        return end if partition.number else 0


def test_what_another_scheduler_counts_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """However much of it there is: this one has counted its own."""
    settings = load_settings("""
        group: billing
        kafka: {bootstrap.servers: "localhost:9092"}
        sources: [{topic: orders}]
    """)
    watch = Watch(settings, Silent(), lambda: Share(frozenset({0}), 2), lambda: NOW)
    watch._shared = watch._share()
    bounds = {number: Bounds(0, 1_000_000) for number in range(2)}
    watch._topics = {
        "DLQ.orders": TopicFacts(name="DLQ.orders", partitions=2, replication_factor=1, configs={}, bounds=bounds)
    }
    with caplog.at_level(logging.INFO):
        watch._tell(cast("AssignedReader", AtItsEnd()))
    assert caplog.text == ""
