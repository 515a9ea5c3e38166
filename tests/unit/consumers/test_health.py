from dataclasses import dataclass
from datetime import timedelta

import pytest

from consumers.health import Health


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """At some time."""
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    """Of a process that has just started, with a bound of 5 s."""
    return Health(timedelta(seconds=5), clock)


class TestAlive:
    def test_a_turn_within_the_bound_is_alive(self, health: Health, clock: Clock) -> None:
        """However long the process has been running."""
        for _ in range(3):
            clock.now_s += 4.9
            assert health.alive().good
            health.turned()

    def test_a_thread_that_does_not_turn_is_stalled(self, health: Health, clock: Clock) -> None:
        """From the bound on, and the answer tells for how long; a turn heals it."""
        clock.now_s += 5.5
        assert health.alive() == (False, "the polling thread has not turned for 5.5 s, 5 s are allowed")
        health.turned()
        assert health.alive().good

    def test_neither_halts_nor_a_missing_group_are_a_reason_to_kill(self, health: Health) -> None:
        """A restart would not help."""
        health.halted(3)
        health.left()
        assert health.alive().good

    def test_a_shutdown_counts_anew(self, health: Health, clock: Clock) -> None:
        """The last turn before it may have been long ago."""
        clock.now_s += 4
        health.stopping()
        clock.now_s += 4
        assert health.alive().good


class TestReady:
    def test_not_before_the_group_has_answered(self, health: Health) -> None:
        """However often the thread turns."""
        health.turned()
        assert health.ready() == (False, "waiting for the group to assign partitions")
        health.joined()
        assert health.ready().good

    def test_not_while_the_group_has_given_it_up(self, health: Health) -> None:
        """Until it is in the group again."""
        health.joined()
        health.left()
        assert not health.ready().good
        health.joined()
        assert health.ready().good

    def test_not_with_a_halted_partition(self, health: Health) -> None:
        """It waits for a person."""
        health.joined()
        health.halted(1)
        assert health.ready() == (False, "1 halted partitions; the log says why")
        health.halted(0)
        assert health.ready().good

    def test_not_while_stopping(self, health: Health) -> None:
        """Whatever else is true."""
        health.joined()
        health.stopping()
        assert health.ready() == (False, "stopping")

    def test_not_while_stalled(self, health: Health, clock: Clock) -> None:
        """For the reason that it is not alive."""
        health.joined()
        clock.now_s += 6
        assert health.ready() == health.alive() != (True, "alive")
