"""Tiers and ready topics that get partitions while a scheduler runs."""

import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import (
    OffsetsForbiddenError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from tests.unit.consumers.scheduler.test_scheduler import COUNTS, QUICK, SLOW, Running


def test_the_first_offset_of_an_empty_partition_is_committed() -> None:
    """It was added while the scheduler runs. A write without records commits it, again after an abort."""
    running = Running(WriteAbortedError("no"))
    added = Partition("billing.retry.1s", 1)
    running.reader.ends[added] = (3, 3)
    assert running.scheduler.assigned([added]) == {added: 3}
    running.turn()
    running.turn()
    assert running.writer.tried == [([], {added: Checkpoint(3, "")})] * 2
    running.reader.commits[added] = Checkpoint(3, "")
    running.turn()
    assert len(running.writer.tried) == 2


@pytest.mark.parametrize("reported", [["billing.retry.1s"], []], ids=["reported", "not reported"])
def test_the_first_offset_of_a_tier_that_may_not_be_read_waits_for_the_right(reported: list[str]) -> None:
    """Kafka would refuse it in each write, and with it what other tiers release."""
    running = Running(OffsetsForbiddenError("no", reported))
    added = Partition("billing.retry.1s", 1)
    running.reader.ends[added] = (3, 3)
    running.scheduler.assigned([added])
    for _ in range(3):
        running.turn()
    assert running.writer.tried == [([], {added: Checkpoint(3, "")})]
    running.reader.forbidden.clear()
    running.turn()
    assert running.writer.confirmed == [([], {added: Checkpoint(3, "")})]


def test_a_ready_topic_that_grows_keeps_its_number_of_partitions() -> None:
    """The producer learns of the new ones later, and would refuse a record for them as if for good."""
    running = Running()
    running.reader.counts = COUNTS | {"billing.ready.orders": 8, "DLQ.bills": 3}
    running.find_topics()
    partition = Partition("billing.retry.1s", 0)
    waiting = Fetched(*partition, 0, None, b"0", waiting_headers(lineage(0, partition=5), due_ms=NOW), NOW - 1000)
    running.turn([waiting])
    [(records, _)] = running.writer.confirmed
    assert [(record.topic, record.partition) for record in records] == [("billing.ready.orders", 0)]


def test_a_source_that_is_not_configured_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not again after each answer about the topics of the group."""
    running = Running(counts=COUNTS | {"billing.ready.gone": 1})
    headers = waiting_headers(lineage(0, partition=0)._replace(address="gone"), due_ms=NOW)
    for offset in range(3):
        running.turn([Fetched(*QUICK, offset, None, b"0", headers, NOW - 1000)])
        running.find_topics()
    assert running.topics() == [["billing.ready.gone"]] * 3
    assert len([each for each in caplog.messages if each.startswith("gone is not among the sources")]) == 1


def test_a_first_offset_is_not_committed_after_the_partition_was_revoked() -> None:
    """It belongs to another scheduler."""
    running = Running()
    added = Partition("billing.retry.1s", 1)
    running.reader.ends[added] = (3, 3)
    running.scheduler.assigned([added])
    running.scheduler.revoked([added])
    running.turn()
    assert running.writer.tried == []


def test_a_tier_with_records_and_without_a_committed_offset_halts_alone() -> None:
    """Any start could lose or repeat records, because there is no control topic."""
    running = Running()
    running.reader.commits.clear()
    running.reader.ends[QUICK] = (0, 1)
    running.scheduler.assigned([QUICK])
    assert running.scheduler._stops.lost == {QUICK}
    assert QUICK not in running.scheduler._tiers


def test_a_first_offset_that_may_not_be_committed_beside_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode ``auto`` commits the offsets of what is written all the same. The next writes leave the topic out."""
    refused = [RefusedRecord(0, "no right", RefusalCause.FORBIDDEN)]
    running = Running(WriteRefusedError(refused, others_written=True))

    def refuse(_: object) -> None:
        raise OffsetsForbiddenError("no right", [SLOW.topic], unconfirmed=())

    monkeypatch.setattr(running.writer, "finish", refuse)
    headers = waiting_headers(lineage(0, partition=0), due_ms=NOW)
    running.turn([Fetched(*partition, 0, None, b"0", headers, NOW - 2000) for partition in (QUICK, SLOW)])
    running.turn()
    assert set(running.reader.forbidden) == {SLOW.topic}
