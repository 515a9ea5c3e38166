"""A tier that is deleted while a scheduler runs."""

import pytest

from kafka_redelivery.transport.protocols import Message
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from tests.unit.consumers.scheduler.test_scheduler import COUNTS, MIXED, QUICK, SLOW, Running, due


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


def test_the_last_tier_is_deleted_under_a_record_that_has_to_wait_longer(caplog: pytest.LogCaptureFixture) -> None:
    """Its partition halts until it is revoked, or the tier is there again. The scheduler goes on."""
    running = Running()
    headers = waiting_headers(lineage(0, partition=0), due_ms=NOW + 5000)
    moving: list[Message] = [Fetched(*SLOW, 0, None, b"0", headers, NOW - 2000)]
    tiers = [QUICK, SLOW, MIXED]
    for each in tiers:
        del running.reader.counts[each.topic]
    running.reader.fetches = [moving]
    running.scheduler._buffer(running.scheduler._fetch(0))
    running.find_topics()
    running.turn()
    assert "billing.retry.2s-0 is halted at offset 0" in caplog.text
    assert "there is no topic billing.retry.2s" in caplog.text
    assert (running.writer.tried, running.scheduler._tiers) == ([], {})
    running.scheduler.revoked(tiers)
    running.reader.counts |= COUNTS
    running.find_topics()
    running.scheduler.assigned(tiers)
    running.turn(moving)
    assert running.topics() == [["billing.retry.2s"]]


def test_a_partition_of_a_tier_that_does_not_exist_is_not_read() -> None:
    """The group may assign it, until all its members have noticed."""
    running = Running()
    running.scheduler.revoked([SLOW])
    del running.reader.counts[SLOW.topic]
    running.find_topics()
    running.scheduler.assigned([SLOW])
    assert SLOW not in running.scheduler._tiers
