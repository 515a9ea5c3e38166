"""The dispatcher of one handler: what is in its slots, what is given up at the deadline, and when it is exhausted."""

from datetime import timedelta

import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.dependencies import Dependencies
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.unit.consumers.records import record, source

_FAILED = Failure(FailureKind.RAISED, "ValueError", "not yet")


class _Slots:
    """Slots that only note what they are given."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.given: list[WorkItem] = []

    def submit(self, item: WorkItem) -> None:
        self.given.append(item)

    def close(self, timeout_s: float) -> None:
        """Do nothing."""


class _Fixture:
    """A dispatcher with one partition of eight records for each slot and one more."""

    def __init__(self, slots: int, **settings: object) -> None:
        self.slots = _Slots(slots)
        self.lanes = Lanes(Ordering.PARTITION, slots)
        self.dispatcher = Dispatcher(lanes=self.lanes, slots=self.slots, **settings)  # type: ignore[arg-type]
        self.partitions: list[AssignedPartition] = [source(partition=number) for number in range(slots + 1)]
        for number, assigned in enumerate(self.partitions):
            self.lanes.open(assigned)
            self.lanes.add(assigned, [record(n, partition=number) for n in range(8)])

    def start(self, item: WorkItem, seconds_ago: float) -> None:
        """A slot has begun the next record of an item some time ago."""
        item.started_s = monotonic_s() - seconds_ago


def test_slots_are_filled_and_some_more_is_queued() -> None:
    """So that no slot waits for the polling thread. An item that comes back makes room for another one."""
    fixture = _Fixture(2)
    fixture.dispatcher.hand_out()
    assert len(fixture.slots.given) == 3
    assert not fixture.dispatcher.has_free_slot
    first = fixture.slots.given[0]
    first.position = len(first.messages)
    assert fixture.dispatcher.take_back(first) is first
    assert first not in fixture.dispatcher.in_flight


def test_nothing_is_handed_out_while_it_is_suspended() -> None:
    """It is not busy then: its records cannot start."""
    fixture = _Fixture(2, suspended=True)
    fixture.dispatcher.hand_out()
    assert fixture.slots.given == []
    assert not fixture.dispatcher.busy
    fixture.dispatcher.suspended = False
    assert fixture.dispatcher.busy


def test_a_call_is_given_up_at_the_deadline_of_its_own_handler() -> None:
    """Its slot stays taken until it returns. Another handler without a deadline waits for as long as it takes."""
    fixture, patient = _Fixture(1, deadline=timedelta(seconds=5)), _Fixture(1)
    for each in (fixture, patient):
        each.dispatcher.hand_out()
        each.start(each.slots.given[0], 60)
    assert list(patient.dispatcher.abandon_overdue()) == []
    [result] = fixture.dispatcher.abandon_overdue()
    assert [failure.kind for _, failure in result.failures] == [FailureKind.DEADLINE]
    assert result.position == 1
    assert not patient.dispatcher.exhausted
    assert fixture.dispatcher.exhausted
    halted = fixture.dispatcher.halted("orders")
    assert "no slot is free for orders" in str(halted)

    returned = fixture.slots.given[0]
    returned.position = 1
    assert fixture.dispatcher.take_back(returned) is None, "its outcome was decided at the deadline"
    assert not fixture.dispatcher.exhausted
    assert fixture.lanes.waiting, "the records behind it are handed out again"


def test_records_behind_a_slow_call_go_to_other_slots() -> None:
    """Except with blocking redelivery behind a record that has failed: they have to wait for it."""
    for blocking in (False, True):
        fixture = _Fixture(1, blocking=blocking)
        fixture.lanes._mean_call_s = 1e-6
        fixture.dispatcher.hand_out()
        item = fixture.slots.given[0]
        assert len(item.messages) > 2
        item.failures.append((0, _FAILED))
        item.seconds.append(0.001)
        item.position = 1
        fixture.start(item, 1)
        split = list(fixture.dispatcher.split_slow())
        assert [len(done.messages) for done in split] == ([] if blocking else [1])


def test_items_of_partitions_that_leave_are_stopped() -> None:
    """Those of others go on."""
    fixture = _Fixture(2)
    fixture.dispatcher.hand_out()
    leaving = [fixture.partitions[0]]
    assert fixture.dispatcher.leaving(leaving)
    assert [item.stop for item in fixture.slots.given] == [
        item.lane.assigned in leaving for item in fixture.slots.given
    ]
    for item in fixture.slots.given:
        fixture.dispatcher.take_back(item)
    assert not fixture.dispatcher.leaving(leaving)


@pytest.mark.parametrize("too_long", [False, True])
def test_a_missed_deadline_fails_after_all_if_its_outage_has_taken_too_long(*, too_long: bool) -> None:
    """It means that the bank is away, so the record waits uncounted; but not longer than ``maxOutage``."""
    needs = Dependencies({"bank": 5000}, of_deadline="bank")
    fixture = _Fixture(1, deadline=timedelta(seconds=5), dependencies=needs)
    fixture.dispatcher.hand_out()
    fixture.start(fixture.slots.given[0], 60)
    [result] = fixture.dispatcher.abandon_overdue(lambda _: too_long)
    assert [failure.kind for _, failure in result.failures] == [FailureKind.RAISED] * too_long
    assert result.position == int(too_long)
    assert (result.outage is None) is too_long


def test_records_behind_one_that_waits_for_its_key_stay_with_it() -> None:
    """They could overtake it otherwise, also without blocking redelivery."""
    fixture = _Fixture(1)
    fixture.lanes._mean_call_s = 1e-6
    fixture.dispatcher.hand_out()
    item = fixture.slots.given[0]
    item.failures.append((0, Failure(FailureKind.UNAVAILABLE, "Unavailable", "away", 5000, "bank", key_only=True)))
    item.position = 1
    fixture.start(item, 1)
    assert list(fixture.dispatcher.split_slow()) == []
