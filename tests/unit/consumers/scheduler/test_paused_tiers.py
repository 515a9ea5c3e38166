"""A scheduler releases nothing from a paused tier, and everything in order when the pause ends."""

from kafka_redelivery.topology.wire.pauses import PausedTopics
from tests.unit.consumers.records import NOW
from tests.unit.consumers.scheduler.test_scheduler import MIXED, QUICK, SLOW, Running, due
from tests.unit.consumers.worker.test_pausing import Switch


def test_a_paused_tier_keeps_its_records_while_others_are_released() -> None:
    """Those in the buffer too; it is not fetched, and its records do not keep the scheduler awake."""
    running, switch = Running(), Switch()
    running.scheduler.obey(switch)
    running.turn(due(QUICK, 0, due_ms=NOW + 50))
    switch.current = PausedTopics(topics=frozenset({QUICK.topic}), end=4)
    running.now_ms += 100
    running.turn(due(SLOW, 0, due_ms=NOW + 50))
    assert running.values() == [[b"0"]]
    assert running.writer.confirmed[0][1].keys() == {SLOW}
    assert running.reader.paused == {QUICK}
    assert running.scheduler._wait_s() > 0
    assert switch.obeyed == 4

    switch.current = PausedTopics(end=5)
    running.turn()
    assert running.writer.confirmed[1][1].keys() == {QUICK}
    assert not running.reader.paused


def test_a_paused_group_releases_nothing_and_keeps_what_is_assigned_waiting() -> None:
    """A rebalance does not end the pause."""
    running, switch = Running(), Switch()
    running.scheduler.obey(switch)
    switch.current = PausedTopics(group=True, end=1)
    running.scheduler.revoked([MIXED])
    running.scheduler.assigned([MIXED])
    running.turn([*due(QUICK, 0), *due(MIXED, 0)])
    assert running.topics() == []
    assert running.reader.paused == {QUICK, SLOW, MIXED}
    switch.current = PausedTopics(end=2)
    running.turn()
    assert running.topics() == [["billing.ready.orders"] * 2]
