"""A run that settles goes on as long as something can still happen in its time."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_redelivery.pipeline.stream import settling
from kafka_redelivery.pipeline.stream.settling import WaitingRecords, settle

_START_MS = 1_780_000_000_000
NOTHING = WaitingRecords(0)


class Run:
    """A run on a simulated clock: handling takes two seconds, and records wait as a list says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: WaitingRecords, asked_after: float = 1e9) -> None:
        self.now_s = 0.0
        self.handled_s: list[float] = []
        self._looks = list(looks)
        self._asked_after_s = asked_after
        monkeypatch.setattr(settling, "monotonic_s", lambda: self.now_s)
        monkeypatch.setattr(settling, "wall_clock_ms", lambda: _START_MS + round(self.now_s * 1000))

    def settle(self, minutes: float) -> WaitingRecords | None:
        """Settle within some minutes."""
        return settle(self._handle, self._look(), self._pause, timedelta(minutes=minutes))

    def _handle(self) -> None:
        self.handled_s.append(self.now_s)
        self.now_s += 2

    def _look(self) -> Callable[[], WaitingRecords]:
        return lambda: self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    def _pause(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.now_s < self._asked_after_s


def due(number: int, first_s: float, last_s: float) -> WaitingRecords:
    """Return records that are due so many seconds after the start."""
    return WaitingRecords(number, _START_MS + round(first_s * 1000), _START_MS + round(last_s * 1000))


def test_records_are_handled_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done until then."""
    run = Run(monkeypatch, due(5, 60, 90), due(3, 90, 90), NOTHING)
    assert run.settle(10) == NOTHING
    assert run.handled_s == pytest.approx([0, 60.2, 90.2])


def test_a_run_does_not_wait_for_records_that_are_due_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at once and returns them."""
    run = Run(monkeypatch, due(5, 60, 90), due(3, 700, 900))
    assert run.settle(10) == due(3, 700, 900)
    assert run.now_s == pytest.approx(62.2)


def test_records_that_are_not_released_are_looked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while no scheduler runs. After the time has passed the run ends."""
    run = Run(monkeypatch, due(5, -3, 5))
    assert run.settle(1) == due(5, -3, 5)
    pauses = [round(later - before - 2) for before, later in zip(run.handled_s, run.handled_s[1:], strict=False)]
    assert pauses == [1, 2, 4, 8, 10, 10, 10]
    assert run.now_s == 61  # a handling that has begun is finished


def test_a_shutdown_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What still waits is not asked for."""
    run = Run(monkeypatch, due(5, 60, 90), asked_after=30)
    assert run.settle(10) is None
    assert run.handled_s == [0]
