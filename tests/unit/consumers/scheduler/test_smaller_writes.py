"""A scheduler whose write was aborted makes smaller ones."""

from itertools import chain

from kafka_redelivery.transport.errors import WriteAbortedError
from tests.unit.consumers.scheduler.test_scheduler import QUICK, Running, due


def test_the_next_write_is_half_as_large() -> None:
    """Fast writes make the limit grow again, and no record is left out."""
    running = Running(WriteAbortedError("timed out"))
    records = due(QUICK, *range(40))
    running.turn(records, (), records, *[()] * 12)
    assert len(running.writer.tried[0][0]) == 40
    written = running.values()
    assert len(written[0]) == 20
    assert list(chain(*written)) == [b"%d" % n for n in range(40)]
