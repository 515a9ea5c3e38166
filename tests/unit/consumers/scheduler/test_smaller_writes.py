"""A scheduler whose write was aborted makes smaller ones, and large records make smaller writes."""

from itertools import chain

from kafka_redelivery.transport.errors import WriteAbortedError
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
