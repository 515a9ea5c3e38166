"""A tier that is deleted while a scheduler runs."""

from tests.unit.consumers.records import NOW
from tests.unit.consumers.scheduler.test_scheduler import QUICK, SLOW, Running, due


def test_a_tier_that_is_deleted_is_reported_until_its_partitions_are_revoked() -> None:
    """The group takes them away some seconds after the scheduler has noticed; the others are released meanwhile."""
    running = Running()
    del running.reader.counts[SLOW.topic]
    running.find_topics()
    running.scheduler._reported_s = 0.0
    running.turn(due(QUICK, 0))
    assert running.values() == [[b"0"]]
    backlogs = {each.tier: each.delay_ms for each in running.scheduler_backlog()}
    assert backlogs == {"billing.retry.1s": 1000, "billing.retry.2s": 2000, "billing.retry.mixed": 1000}
    running.scheduler.revoked([SLOW])
    running.now_ms = NOW + 2000
    running.turn()
    assert SLOW.topic not in {each.tier for each in running.scheduler_backlog()}


def test_a_partition_of_a_tier_that_does_not_exist_is_not_read() -> None:
    """The group may assign it, until all its members have noticed."""
    running = Running()
    running.scheduler.revoked([SLOW])
    del running.reader.counts[SLOW.topic]
    running.find_topics()
    running.scheduler.assigned([SLOW])
    assert SLOW not in running.scheduler._tiers
