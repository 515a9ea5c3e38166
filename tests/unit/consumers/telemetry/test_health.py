from dataclasses import dataclass
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.telemetry.health import Health


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock at 100 s."""
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    """Health of a process that has just started, stalled after 5 s."""
    return Health(timedelta(seconds=5), clock)


class TestAlive:
    def test_turns_within_the_limit_are_alive(self, health: Health, clock: Clock) -> None:
        """Whatever the age of the process."""
        for _ in range(3):
            clock.now_s += 4.9
            assert health.alive().ok
            health.turned()

    def test_a_thread_that_does_not_turn_is_stalled(self, health: Health, clock: Clock) -> None:
        """The reason has the time since the last turn. Another turn ends it."""
        clock.now_s += 5.5
        assert health.alive() == (False, "the polling thread has not turned for 5.5 s, 5 s are allowed")
        health.turned()
        assert health.alive().ok

    def test_a_write_that_does_not_end_is_stalled(self, health: Health, clock: Clock) -> None:
        """However often the polling thread turns. The end of the write ends it, and many short writes are none."""
        for _ in range(15):
            health.turned(100.0)
            assert health.alive().ok
            clock.now_s += 1
        clock.now_s += 0.5
        health.turned(100.0)
        assert health.alive() == (False, "the write in progress has not ended for 15.5 s, 15 s are allowed")
        health.turned(clock.now_s)
        assert health.alive().ok

    def test_a_write_that_waits_for_kafka_is_not_stalled(self, health: Health, clock: Clock) -> None:
        """A turn that names no write says that none hangs."""
        for _ in range(30):
            clock.now_s += 1
            health.turned()
            health.turned(100.0)
            assert health.alive().ok

    def test_halts_and_a_lost_membership_do_not_affect_liveness(self, health: Health) -> None:
        """A restart would not help."""
        health.note("halted", "orders-0 is halted")
        health.left()
        assert health.alive().ok

    def test_an_attempt_to_reach_kafka_is_a_turn(self, health: Health, clock: Clock) -> None:
        """The polling thread may wait with its client; a client that makes no attempt hangs."""
        clock.now_s += 4
        health.waiting("writer", "no broker answers")
        clock.now_s += 4
        assert health.alive().ok
        clock.now_s += 4
        assert not health.alive().ok

    def test_a_write_that_waits_for_kafka_does_not_hang(self, health: Health, clock: Clock) -> None:
        """Its client reports each attempt. That writes are not aborted is no sign that the one under way goes on."""
        began_s = clock.now_s
        for _ in range(5):
            clock.now_s += 4
            health.waiting("writer", "no broker answers")
            health.turned(began_s)
            assert health.alive().ok
        health.waiting("writer", None)
        for _ in range(4):
            clock.now_s += 4
            health.waiting("writes", None)
            health.turned(began_s)
        assert not health.alive().ok

    def test_a_call_may_last_as_long_as_an_outage(self, health: Health, clock: Clock) -> None:
        """The polling thread itself waits in it."""
        health.waiting("commit", "no answer", call=True)
        clock.now_s += 600
        assert health.alive().ok
        health.waiting("commit", None)
        clock.now_s += 6
        assert not health.alive().ok

    def test_a_shutdown_starts_the_time_again(self, health: Health, clock: Clock) -> None:
        """The last turn before it may have been long ago."""
        clock.now_s += 4
        health.stopping()
        clock.now_s += 4
        assert health.alive().ok


class TestReady:
    def test_not_ready_before_the_group_assigns_partitions(self, health: Health) -> None:
        """Turns alone are not enough."""
        health.turned()
        assert health.ready() == (False, "waiting for the group to assign partitions")
        health.joined()
        assert health.ready().ok

    def test_not_ready_while_removed_from_the_group(self, health: Health) -> None:
        """Until the process has joined again."""
        health.joined()
        health.left()
        assert not health.ready().ok
        health.joined()
        assert health.ready().ok

    def test_not_ready_while_a_client_waits_for_kafka(self, health: Health) -> None:
        """The reason is what they wait for."""
        health.joined()
        health.waiting("writer", "cannot take over x")
        health.left()
        health.waiting("requests", "the topics cannot be listed")
        assert health.ready() == (False, "waiting for Kafka: cannot take over x; the topics cannot be listed")
        health.waiting("writer", None)
        assert health.ready() == (False, "waiting for Kafka: the topics cannot be listed")
        health.waiting("requests", None)
        health.waiting("requests", None)
        assert health.ready() == (False, "waiting for the group to assign partitions")

    def test_a_short_call_is_no_wait(self, health: Health, clock: Clock) -> None:
        """Each commit is such a call."""
        health.joined()
        health.waiting("commit", "no answer", call=True)
        assert health.ready().ok
        clock.now_s += 5
        assert health.ready() == (False, "waiting for Kafka: no answer")

    def test_a_halted_partition_is_in_the_body_only(self, health: Health) -> None:
        """It must not block a rollout."""
        health.joined()
        health.note("halted", "orders-0 is halted\norders-1 is halted")
        health.note("orders-2", "orders-2 is halted: because")
        assert health.ready() == (True, "ready\norders-0 is halted\norders-1 is halted\norders-2 is halted: because")
        health.note("halted", "")
        health.note("orders-2", "")
        assert health.ready() == (True, "ready")

    def test_not_ready_while_stopping(self, health: Health) -> None:
        """Whatever else holds."""
        health.joined()
        health.stopping()
        assert health.ready() == (False, "stopping")

    def test_not_ready_while_stalled(self, health: Health, clock: Clock) -> None:
        """The reason is that of the liveness probe."""
        health.joined()
        clock.now_s += 6
        assert health.ready() == health.alive() != (True, "alive")

    def test_a_note_is_shown_while_ready(self, health: Health) -> None:
        """It does not change the status."""
        health.note("scheduler", "no scheduler runs")
        assert health.ready() == (False, "waiting for the group to assign partitions")
        health.joined()
        assert health.ready() == (True, "ready\nno scheduler runs")
        health.note("scheduler", "")
        assert health.ready() == (True, "ready")
