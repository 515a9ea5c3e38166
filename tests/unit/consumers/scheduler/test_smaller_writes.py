"""A scheduler whose write was aborted makes smaller ones, and large records make smaller writes."""

from itertools import chain

import pytest

from kafka_redelivery.transport.errors import MembershipOutdatedError, WriteAbortedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.scheduler.test_scheduler import QUICK, SLOW, Running, due


def test_the_next_write_is_half_as_large() -> None:
    """Fast writes make the limit grow again, and no record is left out."""
    running = Running(WriteAbortedError("timed out"))
    records = due(QUICK, *range(40))
    running.turn(records, (), records, *[()] * 12)
    assert len(running.writer.tried[0][0]) == 40
    written = running.values()
    assert len(written[0]) == 20
    assert list(chain(*written)) == [b"%d" % n for n in range(40)]


@pytest.mark.parametrize(
    "error", [WriteAbortedError("fenced", fenced=True), MembershipOutdatedError("left")], ids=["fenced", "outdated"]
)
def test_an_abort_for_another_cause_than_its_size_changes_no_limit(error: Exception) -> None:
    """A smaller write would have failed, too."""
    running = Running(error)
    records = due(QUICK, *range(40))
    running.turn(records, (), records)
    assert [len(write) for write in running.values()] == [40]


def test_an_aborted_write_without_records_changes_no_limit() -> None:
    """It has only committed an offset. Otherwise the next write would have one record."""
    running = Running(WriteAbortedError("timed out"))
    added = Partition(QUICK.topic, 1)
    running.reader.ends[added] = (3, 3)
    running.scheduler.assigned([added])
    running.turn()
    assert {len(records) for records, _ in running.writer.tried} == {0}
    running.turn(due(QUICK, *range(40)))
    assert [len(write) for write in running.values() if write] == [40]


def test_large_records_are_written_a_few_at_a_time() -> None:
    """A quarter of ``limits.bufferBytes`` makes a write full, whichever tiers its records come from."""
    running = Running(limit="bufferBytes: 100000")
    records = [*due(QUICK, *range(6)), *due(SLOW, *range(6))]
    for message in records:
        message.value_bytes = bytes(10_000)  # type: ignore[attr-defined]
    running.turn(records, *[()] * 12)
    sizes = [len(write) for write, _ in running.writer.confirmed]
    assert max(sizes) == 3
    assert sum(sizes) == len(records)
