"""Offsets of tiers expire neither early nor unnoticed."""

import pytest

from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.flow.test_first_offsets import Known
from tests.unit.consumers.scheduler.test_scheduler import MIXED, QUICK, SLOW, Running, due


def test_idle_tiers_are_committed_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise their offsets would expire earlier than those of the others."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.scheduler.monotonic_s", clock)
    running = Running()
    running.turn()
    assert running.writer.tried == []
    clock.advance(KEEP_EVERY_S + 1)
    running.turn()
    assert running.writer.tried == [([], dict.fromkeys((QUICK, SLOW, MIXED), Checkpoint(0, "")))]
    running.turn()
    assert len(running.writer.tried) == 1


def test_an_expired_tier_is_halted_until_it_has_an_offset() -> None:
    """The others are released. The partition goes on where an operator has set it."""
    running = Running()
    known = Known(ControlState(exists=True, births={QUICK: 4}))
    running.scheduler._first_offsets = FirstOffsets(running.reader, "billing.scheduler", control=known)
    del running.reader.commits[QUICK]
    running.reader.ends[QUICK] = (3, 9)
    running.scheduler.revoked([QUICK])
    running.scheduler.assigned([QUICK])
    running.turn([*due(QUICK, 3), *due(SLOW, 0)])
    assert running.values() == [[b"0"]]
    assert QUICK in running.reader.paused
    assert running.observer.halt_causes == [
        "billing.retry.1s-0: its committed offset has expired; up to 6 records would be released again"
    ]
    running.scheduler._refresh()
    assert running.reader.sought == []
    running.reader.commits[QUICK] = Checkpoint(5, "")
    running.scheduler._refresh()
    assert running.reader.sought == [(QUICK, 5)]
    running.turn(due(QUICK, 5))
    assert running.values()[1:] == [[b"5"]]
    assert QUICK not in running.reader.paused
