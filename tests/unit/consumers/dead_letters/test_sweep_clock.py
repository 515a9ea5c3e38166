"""The sweep clock is never ahead of the brokers, and never follows a jump ahead."""

from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from tests.unit.consumers.doubles import Clock

NOW = 1_780_000_000_000
HOUR = 3_600_000


class Wall:
    """A wall clock that differs from a steady one by ``wrong_ms``."""

    def __init__(self, steady: Clock) -> None:
        self.steady = steady
        self.wrong_ms = 0

    def __call__(self) -> int:
        return NOW + self.true_ms + self.wrong_ms

    @property
    def true_ms(self) -> int:
        return round((self.steady.now_s - 1000) * 1000)


def clocks() -> tuple[Wall, SweepClock]:
    """A wall clock, and the sweep clock that reads it."""
    wall = Wall(Clock())
    return wall, SweepClock(wall, wall.steady)


def test_it_follows_the_wall_clock() -> None:
    """A slewing clock, too."""
    wall, clock = clocks()
    wall.steady.advance(5)
    wall.wrong_ms = 400
    assert clock.now_ms() == NOW + 5400
    assert clock.faults == 0


def test_a_jump_ahead_is_not_followed() -> None:
    """Time goes on from before the jump."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    assert clock.now_ms() == NOW
    wall.steady.advance(7)
    assert clock.now_ms() == NOW + 7000
    assert clock.faults == 1


def test_a_jump_that_is_undone_leaves_no_trace() -> None:
    """The sweep clock follows the wall clock again."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    clock.now_ms()
    wall.wrong_ms = 0
    assert clock.now_ms() == NOW


def test_a_clock_set_back_is_followed() -> None:
    """Removing late is harmless."""
    wall, clock = clocks()
    wall.wrong_ms = -HOUR
    assert clock.now_ms() == NOW - HOUR


def test_the_brokers_reveal_a_clock_that_was_ahead_from_the_start() -> None:
    """Such a clock shows no jump."""
    wall, clock = clocks()
    clock.compare(NOW - HOUR)
    assert clock.now_ms() == NOW - HOUR
    wall.steady.advance(7)
    assert clock.now_ms() == NOW - HOUR + 7000
    clock.compare(NOW - HOUR + 7000)
    assert clock.faults == 1, "one fault counts once"


def test_the_brokers_confirm_a_jump() -> None:
    """The clock had been behind before the jump."""
    wall, clock = clocks()
    wall.wrong_ms = HOUR
    clock.now_ms()
    clock.compare(NOW + HOUR - 5)
    assert clock.now_ms() == NOW + HOUR


def test_brokers_that_are_ahead_are_not_followed() -> None:
    """The earlier of both clocks decides."""
    _, clock = clocks()
    clock.compare(NOW + HOUR)
    assert clock.now_ms() == NOW
