"""Which topics a scheduler writes to while topics of the group are retired, deleted or created again."""

from collections.abc import Mapping

import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from tests.unit.consumers.scheduler.test_scheduler import COUNTS, QUICK, Running, due, refused

LADDER = (1, 2, 4, 8)
READY = "billing.ready.orders"
OTHERS = {"billing.retry.mixed": 1, READY: 1, "DLQ.orders": 1}
RETIRED = {f"billing.retry.{seconds}s": 1 for seconds in (*LADDER, 5, 10)} | OTHERS
LONGEST = Partition("billing.retry.8s", 0)
WITH_LADDER = "{maximumHandlerDelay: 10s, redeliveryPolicy: {initialRedeliveryDelay: 10000, redeliveryDelay: 10000}}"
WITHOUT_LADDER = "{redeliveryPolicy: {initialRedeliveryDelay: 10000, redeliveryDelay: 10000}}"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No refused record is tried again by itself."""
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", Clock())


def missing(index: int = 0) -> WriteRefusedError:
    """The broker refuses a record because its topic, or the partition of it, does not exist."""
    return WriteRefusedError([RefusedRecord(index, "Unknown topic or partition", RefusalCause.MISSING)])


def running(*script: Exception, counts: Mapping[str, int] = RETIRED, policy: str = WITH_LADDER) -> Running:
    """A scheduler that owns a partition of the tier of eight seconds, too."""
    scheduler = Running(*script, counts=counts, policy=policy)
    scheduler.reader.commits[LONGEST] = Checkpoint(0, "")
    scheduler.scheduler.assigned([LONGEST])
    return scheduler


def moving(left_ms: int = 6000) -> list[Fetched]:
    """A record that leaves the tier of eight seconds now, and is due later."""
    headers = waiting_headers(lineage(0, partition=0), due_ms=NOW + left_ms)
    return [Fetched(*LONGEST, 0, None, b"0", headers, NOW - 8000)]


def test_a_retired_tier_gets_no_records() -> None:
    """It would never be empty, and to delete it would lose records."""
    scheduler = running()
    scheduler.turn(moving())
    assert scheduler.topics() == [["billing.retry.4s"]]


def test_a_retired_ladder_is_emptied_over_its_own_tiers() -> None:
    """In the tier of exactly ten seconds a record would leave behind those that came a moment before."""
    scheduler = running(policy=WITHOUT_LADDER)
    scheduler.turn(moving())
    assert scheduler.topics() == [["billing.retry.5s"]]


def test_a_tier_that_is_deleted_halts_nothing_for_long() -> None:
    """The record goes elsewhere as soon as the scheduler finds the topic missing."""
    scheduler = running(missing())
    scheduler.turn(moving())
    assert scheduler.reader.paused == {LONGEST}
    del scheduler.reader.counts["billing.retry.4s"]
    scheduler.find_topics()
    scheduler.turn(moving())
    assert scheduler.topics() == [["billing.retry.2s"]]
    scheduler.scheduler._stops.report()
    assert (scheduler.reader.paused, scheduler.observer.halted_numbers) == (set(), {})


def test_a_ready_topic_that_is_created_again_with_fewer_partitions() -> None:
    """The record goes to one that exists."""
    scheduler = Running(missing(), counts=COUNTS | {READY: 8})
    records = [Fetched(*QUICK, 0, None, b"0", waiting_headers(lineage(0, partition=7), due_ms=NOW), NOW - 1000)]
    scheduler.turn(records)
    assert [record.partition for record in scheduler.writer.tried[0][0]] == [7]
    assert scheduler.reader.paused == {QUICK}
    scheduler.reader.counts[READY] = 4
    scheduler.find_topics()
    scheduler.turn(records)
    [(written, _)] = scheduler.writer.confirmed
    assert [(record.topic, record.partition) for record in written] == [(READY, 3)]
    assert scheduler.reader.paused == set()


def test_a_ready_topic_that_is_deleted_is_waited_for() -> None:
    """Nothing is tried meanwhile: the brokers might create it."""
    scheduler = Running(missing())
    scheduler.turn(due(QUICK, 0))
    del scheduler.reader.counts[READY]
    for _ in range(2):
        scheduler.find_topics()
        scheduler.turn(due(QUICK, 0))
    assert scheduler.reader.paused == {QUICK}
    assert len(scheduler.writer.tried) == 1
    scheduler.reader.counts[READY] = 1
    scheduler.find_topics()
    scheduler.turn(due(QUICK, 0))
    assert scheduler.topics() == [[READY]]


def test_a_topic_of_outcomes_that_is_deleted_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """As at a start without it, the outcome stays unknown."""
    actions = "billing.dlq.actions"
    scheduler = Running(refused(0), missing(1), counts=COUNTS | {actions: 1})
    again = lineage(0, partition=0)._replace(redrive="0123456789/5@42/2")
    records = [Fetched(*QUICK, 0, None, b"0", waiting_headers(again, due_ms=NOW), NOW - 1000)]
    for _ in range(2):
        scheduler.turn(records)
    assert [record.topic for record in scheduler.writer.tried[-1][0]] == ["DLQ.orders", actions]
    assert scheduler.reader.paused == {QUICK}
    del scheduler.reader.counts[actions]
    scheduler.find_topics()
    scheduler.turn(records)
    assert scheduler.topics() == [["DLQ.orders"]]
    assert "the outcome of 1 records that were sent again stays unknown" in caplog.text
