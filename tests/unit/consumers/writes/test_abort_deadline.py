import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.writes.engine import GIVE_UP_AFTER_S, AbortDeadline
from tests.unit.consumers.doubles import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the deadline."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    return clock


def test_a_process_that_does_not_endure_gives_up(clock: Clock) -> None:
    """After a time, not after a number of aborted writes."""
    deadline = AbortDeadline()
    for number in range(7):
        deadline.aborted(f"no {number}")
        clock.advance(GIVE_UP_AFTER_S / 6)
    with pytest.raises(HaltedError, match="every write of the last 60 s was aborted, the last one because: no 7"):
        deadline.aborted("no 7")


@pytest.mark.parametrize(("endures", "gap_s"), [(False, 31), (True, 121)])
def test_a_time_without_an_aborted_write_ends_a_series(clock: Clock, *, endures: bool, gap_s: float) -> None:
    """It also ends the pauses, and what is reported."""
    deadline = AbortDeadline(endures=endures)
    for _ in range(9):
        deadline.aborted("no")
        deadline.pause()
        assert deadline.pause_left_s == 0
        assert deadline.problem is None
        clock.advance(gap_s)


def test_writes_that_time_out_are_one_series(clock: Clock) -> None:
    """A write that times out takes longer than half a minute."""
    deadline = AbortDeadline(endures=True)
    for _ in range(4):
        deadline.aborted("timed out")
        clock.advance(45)
    assert deadline.problem == "every write of the last 135 s was aborted, because: timed out"
    clock.advance(120)
    assert deadline.problem is None


def test_however_long_writes_take_they_are_one_series(clock: Clock) -> None:
    """Only a time without a write ends it, as long as none is committed."""
    deadline = AbortDeadline()
    for _ in range(2):
        deadline.begins()
        clock.advance(40)
        deadline.aborted("no")
    deadline.begins()
    clock.advance(40)
    with pytest.raises(HaltedError, match="the last one because: no"):
        deadline.aborted("no")


def test_a_time_without_a_write_ends_a_series_of_long_ones(clock: Clock) -> None:
    """Such as a time in which the process had nothing to write."""
    deadline = AbortDeadline()
    for _ in range(9):
        deadline.begins()
        clock.advance(40)
        deadline.aborted("no")
        assert deadline.failing_s == 0
        clock.advance(31)


def test_how_long_writes_have_failed(clock: Clock) -> None:
    """From the first aborted one to now, until one is committed or none is made."""
    deadline = AbortDeadline(endures=True)
    assert deadline.failing_s == 0
    for _ in range(3):
        deadline.aborted("no")
        clock.advance(100)
    assert deadline.failing_s == 300
    clock.advance(21)
    assert deadline.failing_s == 0
    deadline.aborted("no")
    clock.advance(7)
    assert deadline.failing_s == 7
    deadline.succeeded()
    assert deadline.failing_s == 0


def test_what_is_left_of_a_pause(clock: Clock) -> None:
    """Nothing once it is over, however long ago that was."""
    deadline = AbortDeadline(endures=True)
    left_s = []
    for _ in range(3):
        deadline.aborted("no")
        deadline.pause()
        left_s.append(deadline.pause_left_s)
        clock.advance(0.25)
    assert left_s == [0, pytest.approx(0.2), pytest.approx(0.4)]
    assert deadline.pause_left_s == pytest.approx(0.15)
    clock.advance(5)
    assert deadline.pause_left_s == 0
