"""Partitions that a query leaves out, each alone, because Kafka does not have the offset to read from."""

from collections.abc import Iterable
from typing import Any

import pytest

from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.pipeline.stream import lost_positions
from kafka_redelivery.pipeline.stream.lost_positions import LostPositions
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import RecordingObserver

GOOD, DELETED, TRUNCATED, EXPIRED = (Partition("orders", number) for number in range(4))
DOCUMENT = "{group: g, kafka: {bootstrap.servers: nowhere}, sources: [{topic: orders}]}"


class Offsets:
    """Partitions with the offsets from 10 to 20."""

    def __init__(self, _kafka: object) -> None:
        """Connect to nothing."""

    def log_start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """See :class:`PartitionOffsets`."""
        return dict.fromkeys(partitions, 10)

    def high_watermarks(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """See :class:`PartitionOffsets`."""
        return dict.fromkeys(partitions, 20)


def test_each_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is shorter than the committed offset, as of a source that was made again, ends no query."""
    monkeypatch.setattr(lost_positions, "PartitionOffsets", Offsets)
    observer: Any = RecordingObserver()
    lost = LostPositions(load_settings(DOCUMENT), observer, Health())

    assert lost.leave_out({GOOD: 20, DELETED: 9, TRUNCATED: 21}, [EXPIRED]) == {GOOD: 20}
    for text in (
        "orders-1 is halted, other partitions are not: its next offset 9 does not exist any more",
        "orders-2 is halted, other partitions are not: its next offset 21 was beyond the end of the log, which is 20",
        "orders-3 is halted, other partitions are not: its committed offset has expired",
    ):
        assert text in lost.problem

    assert lost.leave_out({GOOD: 20, DELETED: 10, TRUNCATED: 20}, []) == {GOOD: 20, DELETED: 10, TRUNCATED: 20}
    assert not lost.problem
