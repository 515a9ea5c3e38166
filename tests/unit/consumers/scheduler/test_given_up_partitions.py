"""Partitions that the group takes away while a write of a scheduler is in flight."""

import pytest

from kafka_redelivery.transport.errors import WriteAbortedError
from tests.unit.consumers.records import NOW
from tests.unit.consumers.scheduler.test_scheduler import MIXED, QUICK, SLOW, Running, due


@pytest.mark.parametrize("event", ["revoked", "lost"])
def test_a_partition_is_given_up_after_the_write_in_flight(event: str) -> None:
    """Its next owner reads the commit, which must not change any more."""
    running = Running()
    running.writer.slow = True
    running.turn(due(QUICK, 0))
    getattr(running.scheduler, event)([QUICK])
    assert running.values() == [[b"0"]]
    assert not running.writer.busy


def test_a_partition_given_up_during_an_aborted_write_stays_closed() -> None:
    """The other partitions rewind to their committed offsets."""
    running = Running(WriteAbortedError("no"))
    running.writer.slow = True
    running.turn(due(QUICK, 0))
    running.scheduler.revoked([QUICK])
    assert running.reader.sought == [(SLOW, 0), (MIXED, 0)]


def test_a_partition_that_was_revoked_is_not_released() -> None:
    """Another scheduler releases its records."""
    running = Running()
    running.turn(due(QUICK, 0, due_ms=NOW + 900))
    running.scheduler.revoked([QUICK])
    running.now_ms += 1000
    running.turn(due(QUICK, 1))
    assert running.writer.tried == []
