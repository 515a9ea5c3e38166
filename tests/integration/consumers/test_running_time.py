"""Time in which a process is frozen does not count."""

from kafka_redelivery.consumers.running_time import FROZEN_S, TICK_S, RunningTime
from tests.unit.consumers.freezing import outcome


class Clock:
    """Seconds that pass on request."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def run(running: RunningTime, clock: Clock, seconds: float) -> None:
    """Let the process run for a multiple of :data:`TICK_S`."""
    for _ in range(round(seconds / TICK_S)):
        clock.now_s += TICK_S
        running.tick()


def test_a_process_that_runs_has_run_all_the_time() -> None:
    """A tick that is a little late does not matter."""
    clock = Clock()
    running = RunningTime(clock, lambda: 0.0)
    run(running, clock, 2)
    clock.now_s += FROZEN_S
    running.tick()
    assert running.seconds_ago(2.0) == clock.now_s - 2.0


def test_freezes_are_left_out() -> None:
    """Whether or not the thread has noticed the last one yet. A freeze counts as one tick."""
    clock = Clock()
    running = RunningTime(clock, lambda: 0.0)
    run(running, clock, 1)
    first_s = clock.now_s
    clock.now_s += 50
    running.tick()
    thawed_s = clock.now_s
    run(running, clock, 1)
    second_s = clock.now_s
    clock.now_s += 30
    for _ in range(2):
        assert running.seconds_ago(TICK_S) == second_s
        assert running.seconds_ago(TICK_S + 0.5) == second_s - 0.5
        assert running.seconds_ago(TICK_S + 1) == thawed_s
        assert running.seconds_ago(TICK_S + 1 + TICK_S) == first_s
        assert running.seconds_ago(TICK_S + 1 + TICK_S + 0.5) == first_s - 0.5
        running.tick()
    run(running, clock, 1)
    assert running.seconds_ago(0.5) == clock.now_s - 0.5


def test_a_handler_that_keeps_the_lock_of_python_is_no_freeze() -> None:
    """It delays the ticks, too, but it uses the processor."""
    clock = Clock()
    running = RunningTime(clock, clock)
    clock.now_s += 50
    assert running.seconds_ago(30.0) == clock.now_s - 30
    running.tick()
    assert running.seconds_ago(30.0) == clock.now_s - 30


def test_an_asynchronous_handler_is_not_cancelled_after_a_freeze() -> None:
    """Its own timer and that of the deadline are due at the same time."""
    assert outcome("asynchronous") == "in time"


def test_a_child_of_the_pool_is_not_killed_after_a_freeze() -> None:
    """The whole container was frozen."""
    assert outcome("pool") == "in time"
