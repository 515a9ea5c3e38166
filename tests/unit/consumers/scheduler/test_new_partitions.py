"""Tiers and ready topics that get partitions while a scheduler runs."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.errors import (
    OffsetsForbiddenError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import Partition, RebalanceListener
from tests.unit.consumers.flow.test_first_offsets import Known
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


def with_control_topic(running: Running) -> Known:
    """The group of the scheduler has a control topic, which it has read."""
    control = Known(ControlState(exists=True))
    control.read()
    running.scheduler._assigned._first_offsets = FirstOffsets(running.reader, control=control)
    return control


def test_a_first_offset_is_noted_once_it_is_committed() -> None:
    """In the control topic, so that its loss is noticed."""
    running = Running()
    control = with_control_topic(running)
    del running.reader.commits[SLOW]
    running.reader.ends[SLOW] = (3, 3)
    running.scheduler.assigned([QUICK, SLOW])
    running.scheduler._turn()
    assert (control.committed[QUICK], SLOW in control.committed) == (0, False)
    running.turn()
    running.scheduler._reported_s = 0.0
    running.turn()
    assert control.committed[SLOW] == 3


def test_a_scheduler_that_stops_saves_its_positions() -> None:
    """So that the next one goes on there if the committed offsets have expired by then."""
    running = Running()
    control = with_control_topic(running)
    running.scheduler.assigned([QUICK, SLOW])
    running.reader.commits[QUICK] = Checkpoint(7, "")
    running.scheduler.stop()
    running.scheduler.run()
    assert (control.saved[QUICK], control.saved[SLOW]) == (Checkpoint(7, ""), Checkpoint(0, ""))


def test_a_tier_that_is_created_later_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as an answer about the topics of the group names it."""
    running = Running(policy="{redeliveryPolicy: {initialRedeliveryDelay: 4000}}")
    subscribed: list[Sequence[str]] = []

    def subscribe(topics: Sequence[str], _: RebalanceListener) -> None:
        subscribed.append(topics)

    def answer(_: Iterable[str], known: Mapping[str, FoundTopic]) -> Mapping[str, FoundTopic]:
        return {**known, "billing.retry.4s": FoundTopic(1, "")}

    monkeypatch.setattr(running.reader, "subscribe", subscribe)
    monkeypatch.setattr(running.scheduler.topics._watch, "poll", answer)
    running.turn()
    assert subscribed == [["billing.retry.1s", "billing.retry.2s", "billing.retry.4s", "billing.retry.mixed"]]


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
