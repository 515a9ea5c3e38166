"""Partitions that wait for something that does not answer: growing pauses, each partition for itself."""

import pytest

from kafka_redelivery.consumers.flow.stops import HeldPartitions
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock, RecordingObserver, no_stops

FIRST, SECOND = Partition("orders", 0), Partition("orders", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Seconds that pass on request."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    return clock


@pytest.fixture
def held(clock: Clock) -> HeldPartitions:  # noqa: ARG001 - its time
    """No partition is held yet."""
    return HeldPartitions()


def test_pauses_grow_up_to_the_longest(held: HeldPartitions, clock: Clock) -> None:
    """They double while nothing gets an outcome."""
    pauses = []
    for _ in range(8):
        held.hold(FIRST, 7, "the registry is away")
        pauses.append(held.left_s())
        clock.advance(pauses[-1])
        assert not held.waiting()
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_records_that_were_in_slots_together_do_not_lengthen_the_pause(held: HeldPartitions) -> None:
    """The first of them counts."""
    for offset in (7, 8, 9):
        held.hold(FIRST, offset, "the registry is away")
    assert held.left_s() == 1
    [stop] = held.stops()
    assert stop.cause == "orders-0 waits at offset 7, uncounted: the registry is away"


def test_each_partition_waits_for_itself(held: HeldPartitions, clock: Clock) -> None:
    """One goes on, another leaves the worker."""
    held.hold(FIRST, 7, "away")
    clock.advance(0.5)
    held.hold(SECOND, 3, "away")
    assert [each.label for each in held.stops()] == [HaltLabel("orders", HaltCause.UNAVAILABLE)] * 2
    clock.advance(0.5)
    assert held.waiting() == {SECOND}
    held.progressed(FIRST, [7])
    held.drop(SECOND)
    assert not held
    assert (held.waiting(), held.left_s(5.0)) == (frozenset(), 5.0)


def test_only_the_record_that_holds_a_partition_ends_the_hold(held: HeldPartitions, clock: Clock) -> None:
    """Others of its partition may have their outcomes; they do not show that what it waits for is there again."""
    held.hold(FIRST, 7, "away")
    clock.advance(1)
    held.progressed(FIRST, [8, 9])
    held.hold(FIRST, 10, "away")
    assert held.left_s() == 2
    [stop] = held.stops()
    assert "waits at offset 7" in stop.cause
    held.progressed(FIRST, [6, 7])
    assert not held


def test_the_probe_lists_a_few() -> None:
    """And says how many more there are. The metric has all."""
    observer, health = RecordingObserver(), Health()
    health.joined()
    stops = no_stops(observer, health)
    for number in range(12):
        stops.held.hold(Partition("orders", number), 0, "away")
    stops.report()
    assert health.ready().reason.splitlines()[6:] == ["and 7 more partitions wait"]
    assert observer.halted_numbers == {HaltLabel("orders", HaltCause.UNAVAILABLE): 12}
