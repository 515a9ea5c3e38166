"""A redelivery is not handed out before it is due by the worker's own clock; others wait only to keep their order."""

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.delivery_notes import NotedLanes
from kafka_redelivery.consumers.flow.early_records import MAX_HOLD_S
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.topology.config.settings import Ordering
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.lane_steps import all_items, called, finish
from tests.unit.consumers.records import NOW, Fetched, lineage, ready, record, redelivery, source


class Fixture:
    """Lanes with one partition of a ready topic, at a time that a test advances."""

    def __init__(self, ordering: Ordering, *, persist_deliveries: bool = False) -> None:
        self.now_ms = NOW
        if persist_deliveries:
            self.lanes: Lanes = NotedLanes(ordering, 4, max_ahead=100, clock=lambda: self.now_ms)
        else:
            self.lanes = Lanes(ordering, 4, clock=lambda: self.now_ms)
            called(self.lanes, 1e-6)
        self.assigned: AssignedPartition = ready()
        self.lanes.open(self.assigned)

    def add(self, *due_in_ms: int, keys: str = "", first: int = 0) -> None:
        """Add records that are due in so many milliseconds and have these keys."""
        messages: list[Fetched] = []
        for n, due in enumerate(due_in_ms):
            message = redelivery(first + n, lineage(first + n), due_ms=NOW + due)
            message.stamp_ms = NOW + due
            message.key_bytes = keys[n].encode() if keys else None
            messages.append(message)
        self.lanes.add(self.assigned, list(messages))

    def taken(self, at_ms: int = 0) -> list[int]:
        """The offsets that are handed out at this time; they are handled at once."""
        self.now_ms = NOW + at_ms
        found = []
        while items := all_items(self.lanes):
            for item in items:
                found += [message.offset() for message in item.messages]
                finish(self.lanes, item)
        return sorted(found)


@pytest.mark.parametrize("ordering", Ordering)
def test_an_early_record_is_held_until_it_is_due(ordering: Ordering) -> None:
    """It counts as buffered, but does not wait for a slot."""
    fixture = Fixture(ordering)
    fixture.add(1500)
    assert fixture.taken() == []
    assert fixture.lanes.waiting == 0
    assert fixture.lanes.buffered(redelivered=True).records == 1
    assert fixture.lanes.due_in_s(60) == 1.5
    assert fixture.taken(1499) == []
    assert fixture.taken(1500) == [0]
    assert fixture.lanes.buffered(redelivered=True).records == 0
    assert fixture.lanes.due_in_s(60) == 60


@pytest.mark.parametrize(
    ("ordering", "at_once", "after_the_first"),
    [
        (Ordering.PARTITION, [0], [0, 1, 2, 3]),
        (Ordering.KEY, [0, 3], [0, 1, 2, 3]),
        (Ordering.UNORDERED, [0, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_only_what_has_to_keep_its_order_waits_behind_it(
    ordering: Ordering, at_once: list[int], after_the_first: list[int]
) -> None:
    """Record 1 is early; record 2 has its key, record 3 another one. Record 4 is due later than all."""
    fixture = Fixture(ordering)
    fixture.add(-10, 500, -10, -10, 900, keys="aaabc")
    assert fixture.taken() == at_once
    assert sorted([*at_once, *fixture.taken(500)]) == after_the_first
    assert fixture.taken(900) == [4]


def test_later_fetches_stay_behind_it_too() -> None:
    """In the order of their partition."""
    fixture = Fixture(Ordering.PARTITION)
    fixture.add(500)
    fixture.add(-10, -10, first=1)
    assert fixture.taken() == []
    assert fixture.taken(500) == [0, 1, 2]


def test_other_partitions_go_on() -> None:
    """The source, and other partitions of the ready topic."""
    fixture = Fixture(Ordering.PARTITION)
    orders, other = source(), ready(partition=1)
    for assigned in (orders, other):
        fixture.lanes.open(assigned)
    fixture.add(500)
    fixture.lanes.add(orders, [record(7)])
    fixture.lanes.add(other, [redelivery(8, lineage(8))])
    assert fixture.taken() == [7, 8]


def test_a_source_record_is_not_held() -> None:
    """Its timestamp, which its producer sets, means nothing here."""
    fixture = Fixture(Ordering.PARTITION)
    orders = source()
    fixture.lanes.open(orders)
    message = record(0, headers=[("_AMQ_SCHED_DELIVERY", b"%d" % (NOW + 500))])
    message.stamp_ms = NOW + 500
    fixture.lanes.add(orders, [message])
    assert fixture.taken() == [0]


def test_a_record_without_a_due_time_is_not_held() -> None:
    """An operator sent it back, and the clock of that machine is ahead."""
    fixture = Fixture(Ordering.PARTITION)
    message = Fetched("billing.ready.orders", 0, 0, stamp_ms=NOW + 500)
    fixture.lanes.add(fixture.assigned, [message])
    assert fixture.taken() == [0]


def test_the_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if this clock is set back meanwhile."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.early_records.monotonic_s", clock)
    fixture = Fixture(Ordering.PARTITION)
    fixture.add(3_600_000)
    clock.advance(MAX_HOLD_S - 1)
    assert fixture.taken(59_000) == []
    clock.advance(2)
    assert fixture.taken(-3_600_000) == [0]


def test_the_hold_is_bounded_also_while_others_are_due_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler whose clock jumped ahead released the far one; that of another is always a little ahead."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.early_records.monotonic_s", clock)
    fixture = Fixture(Ordering.UNORDERED)
    fixture.add(7_200_000)
    for second in range(1, int(MAX_HOLD_S)):
        fixture.add(1000 * second + 1500, first=second)
        clock.advance(1)
        assert 0 not in fixture.taken(1000 * second)
    clock.advance(1)
    assert fixture.lanes.due_in_s(60) == 0
    assert 0 in fixture.taken(1000 * int(MAX_HOLD_S))


def test_a_revoked_partition_leaves_nothing_behind() -> None:
    """Its next owner fetches the record and holds it."""
    fixture = Fixture(Ordering.KEY)
    fixture.add(500, -10, keys="ab")
    fixture.lanes.close(fixture.assigned)
    assert fixture.lanes.buffered(redelivered=True).records == 0
    assert fixture.lanes.waiting == 0
    assert fixture.taken(500) == []
    assert fixture.lanes.due_in_s(60) == 60


def test_deliveries_are_persisted_in_the_order_of_the_offsets() -> None:
    """With ``persistDeliveryCountBeforeDelivery`` a note covers all offsets below one, so no record overtakes."""
    fixture = Fixture(Ordering.UNORDERED, persist_deliveries=True)
    fixture.add(500, -10)
    assert fixture.taken() == []
    [(_, lane)] = fixture.lanes.all()
    assert not lane.unpersisted
    fixture.taken(500)
    assert [message.offset() for message in lane.unpersisted] == [0, 1]
