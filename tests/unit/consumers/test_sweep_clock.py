"""No dead letter is removed by a clock that is ahead."""

from consumers.sweep_clock import SweepClock
from tests.unit.consumers.doubles import Clock

NOW = 1_780_000_000_000
HOUR = 3_600_000


class Wall:
    """A wall clock that goes with a steady one, but for what it is wrong by."""

    def __init__(self, steady: Clock) -> None:
        self.steady = steady
        self.wrong_ms = 0

    def __call__(self) -> int:
        return NOW + self.true_ms + self.wrong_ms

    @property
    def true_ms(self) -> int:
        return round((self.steady.now_s - 1000) * 1000)


def clocks() -> tuple[Wall, SweepClock]:
    """A wall clock, and what looks at it."""
    wall = Wall(Clock())
    return wall, SweepClock(wall, wall.steady)


def test_it_goes_with_the_wall_clock() -> None:
    """Slewing included."""
    wall, clock = clocks()
    wall.steady.advance(5)
    wall.wrong_ms = 400
    assert clock.now_ms() == NOW + 5400
    assert clock.faults == 0


def test_a_jump_ahead_is_not_followed() -> None:
    """Time passes on from before it."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    assert clock.now_ms() == NOW
    wall.steady.advance(7)
    assert clock.now_ms() == NOW + 7000
    assert clock.faults == 1


def test_a_jump_that_is_taken_back_is_forgotten() -> None:
    """Then the clock is as it was."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    clock.now_ms()
    wall.wrong_ms = 0
    assert clock.now_ms() == NOW


def test_a_clock_set_back_is_followed() -> None:
    """Late removes nothing wrongly."""
    wall, clock = clocks()
    wall.wrong_ms = -HOUR
    assert clock.now_ms() == NOW - HOUR


def test_the_brokers_are_believed_where_we_are_ahead_from_the_start() -> None:
    """A clock that was wrong before we began has no jump to show."""
    wall, clock = clocks()
    clock.compare(NOW - HOUR)
    assert clock.now_ms() == NOW - HOUR
    wall.steady.advance(7)
    assert clock.now_ms() == NOW - HOUR + 7000
    clock.compare(NOW - HOUR + 7000)
    assert clock.faults == 1, "one fault is told once"


def test_the_brokers_confirm_a_jump() -> None:
    """It was our clock that had been wrong."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    clock.now_ms()
    clock.compare(NOW + HOUR - 5)
    assert clock.now_ms() == NOW + HOUR


def test_brokers_that_are_ahead_are_not_followed() -> None:
    """The earlier of both counts."""
    _, clock = clocks()
    clock.compare(NOW + HOUR)
    assert clock.now_ms() == NOW
