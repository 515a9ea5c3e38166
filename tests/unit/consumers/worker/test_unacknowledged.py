"""Unacknowledged records are neither committed nor lost, whatever happens to their partition."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.running_time import TICK_S, RunningTime
from kafka_redelivery.consumers.worker.unacknowledged import WARN_AFTER_S, Unacknowledged
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.topology.wire.headers import read_lineage
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from tests.examples import share
from tests.unit.consumers.batches import RAISED, TIER, handled, output, shared
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.records import record, source
from tests.unit.consumers.simulation import SimulatedWorker, WorkerDiedError, simulated_kafka

MODES = (AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The monotonic clock of :class:`Unacknowledged`."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.worker.unacknowledged.monotonic_s", clock)
    monkeypatch.setattr(
        "kafka_redelivery.consumers.worker.unacknowledged.seconds_ago", lambda seconds: clock() - seconds
    )
    return clock


class Fixture:
    """Records 0 to 2 of a partition: 0 and 1 are unacknowledged, 0 and 2 have an output, 2 succeeded."""

    def __init__(self, timeout: timedelta | None = None) -> None:
        self.assigned = source()
        self.sessions = Sessions()
        self.session = self.sessions.open()
        self.unacknowledged = Unacknowledged(self.sessions, timeout)
        self.item = handled(self.assigned, *map(record, range(3)), outputs={0: [output(b"later")], 2: [output(b"now")]})
        for index, message in enumerate(self.item.messages[:2]):
            delivery = self.session.deliver(self.item.lane, message)
            assert self.session.handler_returned(delivery) is None
            self.item.unacknowledged.append((index, delivery))
        self.batch = Batch(shared())
        self.batch.add(self.item)
        self.unacknowledged.retain(self.item)


def test_an_unacknowledged_record_is_not_finished() -> None:
    """Neither its offset nor its output is written, and it counts as buffered."""
    fixture = Fixture()
    assert [copy.value for copy in fixture.batch.produced] == [b"now"]
    assert fixture.batch.size == 1
    fixture.batch.close()
    assert fixture.batch.checkpoints[fixture.assigned.partition].offset == 0
    assert len(fixture.unacknowledged) == fixture.item.lane.buffered.records == 2
    outcomes = fixture.batch.tally.report(0.0).outcomes
    assert {label.outcome: number for label, number in outcomes.items()} == {"acked": 1}


def test_an_acknowledged_record_is_written() -> None:
    """With its output, its offset and its outcome. It is no longer buffered."""
    fixture = Fixture()
    fixture.session.acknowledge(fixture.item.unacknowledged[0][1])
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert [copy.value for copy in fixture.batch.produced] == [b"now", b"later"]
    fixture.batch.close()
    assert fixture.batch.checkpoints[fixture.assigned.partition].offset == 3
    assert len(fixture.unacknowledged) == fixture.item.lane.buffered.records == 0
    [(label, number)] = fixture.batch.tally.report(0.0).outcomes.items()
    assert (label.outcome, label.ack_type, number) == ("acked", AckType.STANDARD, 3)


def test_each_recovered_record_has_failed_once() -> None:
    """Two retry records with one more delivery; the output is dropped."""
    fixture = Fixture()
    fixture.session.recover()
    fixture.unacknowledged.add_dispositions(fixture.batch)
    copies = [copy for copy in fixture.batch.produced if copy.topic == TIER]
    assert [read_lineage(copy.headers or ()).deliveries for copy in copies] == [1, 1]
    assert len(fixture.batch.produced) == 3


def test_a_record_fails_at_the_acknowledgement_timeout(clock: Clock) -> None:
    """Not before it, and a later acknowledgement has no effect."""
    fixture = Fixture(timeout=timedelta(seconds=5))
    clock.advance(4.9)
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert len(fixture.unacknowledged) == 2
    clock.advance(0.2)
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert len(fixture.unacknowledged) == 0
    fixture.session.acknowledge(fixture.item.unacknowledged[0][1])
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert [copy.topic for copy in fixture.batch.produced] == ["totals", TIER, TIER]


def test_a_freeze_does_not_count_towards_the_timeout(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever acknowledges the record may have been frozen with the process."""
    fixture, running = Fixture(timeout=timedelta(seconds=5)), RunningTime(clock, lambda: 0.0)
    monkeypatch.setattr("kafka_redelivery.consumers.worker.unacknowledged.seconds_ago", running.seconds_ago)
    clock.advance(60)
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert len(fixture.unacknowledged) == 2
    for _ in range(round(5 / TICK_S)):
        running.tick()
        clock.advance(TICK_S)
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert len(fixture.unacknowledged) == 0


def test_an_acknowledgement_at_the_timeout_counts(clock: Clock) -> None:
    """The record is not redelivered as well."""
    fixture = Fixture(timeout=timedelta(seconds=5))
    clock.advance(6)
    fixture.sessions.close(fixture.item.unacknowledged[1][1])  # as if it had a disposition that is not taken yet
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert len(fixture.unacknowledged) == 1


def test_a_missing_acknowledgement_is_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Once a minute."""
    fixture = Fixture()
    with caplog.at_level(logging.WARNING):
        for seconds in (WARN_AFTER_S - 1, 2, 2):
            clock.advance(seconds)
            fixture.unacknowledged.add_dispositions(fixture.batch)
    [message] = caplog.messages
    assert message.startswith("2 records are unacknowledged")


@pytest.mark.parametrize("acknowledged", ["before", "after"])
def test_records_of_a_revoked_partition_are_removed(acknowledged: str) -> None:
    """Acknowledgements that were not taken before it have no effect, and the buffer is free."""
    fixture = Fixture()
    delivery = fixture.item.unacknowledged[0][1]
    if acknowledged == "before":
        fixture.session.acknowledge(delivery)
    fixture.unacknowledged.close(fixture.assigned)
    if acknowledged == "after":
        fixture.session.acknowledge(delivery)
    fixture.unacknowledged.add_dispositions(fixture.batch)
    assert fixture.sessions.dispositions.empty()
    assert len(fixture.unacknowledged) == fixture.item.lane.buffered.records == 0
    assert fixture.batch.size == 1


def test_a_void_item_ends_its_deliveries() -> None:
    """Except for those that were retained before."""
    fixture = Fixture()
    late = fixture.session.deliver(fixture.item.lane, record(7))
    assert fixture.session.handler_returned(late) is None
    fixture.item.unacknowledged.append((3, late))
    fixture.unacknowledged.void(fixture.item)
    assert late.ended
    assert len(fixture.unacknowledged) == 2


def test_a_record_that_failed_after_its_handler_returned_is_not_retained() -> None:
    """Its output could not be encoded, which is a failed delivery like any other."""
    fixture = Fixture()
    item = handled(fixture.assigned, record(3), failures={0: RAISED})
    delivery = fixture.session.deliver(item.lane, record(3))
    assert fixture.session.handler_returned(delivery) is None
    item.unacknowledged.append((0, delivery))
    fixture.batch.add(item)
    fixture.unacknowledged.retain(item)
    assert delivery.ended
    assert [copy.topic for copy in fixture.batch.produced] == ["totals", TIER]


@pytest.mark.usefixtures("hasty")
@settings(max_examples=share(40), deadline=None)
@given(
    st.sampled_from(MODES),
    st.sampled_from(list(Ordering)),
    st.integers(1, 3),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
)
def test_every_record_has_one_outcome(
    mode: AcknowledgementMode, ordering: Ordering, slots: int, seed: int, abort_rate: float
) -> None:
    """It is acknowledged or redelivered, despite deaths, rebalances and aborted writes, and the metadata fits."""
    numbers = [60, 40, 20]
    kafka = simulated_kafka(
        numbers, seed, mode=mode, ordering=ordering, slots=slots, persist=False, abort_rate=abort_rate
    )
    partitions = list(kafka.records)
    for dying_after in (5, 15, 10**9):
        simulated = SimulatedWorker(kafka)
        try:
            simulated.run(10, dying_after=dying_after)
            simulated.revoke(partitions[:1])
            simulated.assign(partitions[:1])
            simulated.run(3000, dying_after=dying_after)
        except WorkerDiedError:
            continue
    assert kafka.done
    ended: Counter[object] = Counter(copy.value for copy in kafka.written if copy.topic == "totals")
    again = Counter(
        b"%d@%d" % (line.partition, line.offset)
        for line in (read_lineage(copy.headers or ()) for copy in kafka.written if copy.topic != "totals")
    )
    assert ended + again == Counter(b"%d@%d" % (p, o) for p, number in enumerate(numbers) for o in range(number))
    assert kafka.longest_metadata <= METADATA_LIMIT
    assert {point.metadata for point in kafka.commits.values()} == {""}
