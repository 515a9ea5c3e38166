"""Where a query starts to read a partition without a committed offset."""

import pytest

from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.pipeline.stream.start_offsets import first_progress
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import StoredOffsets

ORDERS = Partition("orders", 0)


def test_latest_skips_no_record_that_comes_while_it_waits_for_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that no leader answers takes up to five seconds, so it may be back for so long."""
    reader = StoredOffsets(ends={ORDERS: (3, 90)}, leaderless={ORDERS}, written_ms={ORDERS: {87: 999, 88: 1_000}})
    first = FirstOffsets(reader, "latest", clock=lambda: 1_000)

    def answered_later(partition: Partition) -> tuple[int, int]:
        reader.leaderless.clear()
        return reader.ends[partition]

    monkeypatch.setattr(reader, "bounds", answered_later)
    started = first_progress(first, reader, ORDERS, internal=False)
    assert started is not None
    assert started.watermark == 88
    assert reader.asked == [ORDERS], "the leader may answer late, so it is not asked again for a moment"
