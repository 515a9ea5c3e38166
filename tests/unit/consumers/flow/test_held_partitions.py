"""Partitions that wait for something that does not answer: growing pauses, each partition for itself."""

from kafka_redelivery.consumers.flow.held_partitions import FIRST_PAUSE_S, LONGEST_PAUSE_S, HeldPartitions
from kafka_redelivery.consumers.telemetry.observers import HaltLabel
from kafka_redelivery.transport.protocols import Partition

FIRST, SECOND = Partition("orders", 0), Partition("orders", 1)


class Clock:
    """Seconds that pass on request."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_pauses_grow_up_to_the_longest() -> None:
    """They double while nothing gets an outcome."""
    clock = Clock()
    held = HeldPartitions(clock)
    pauses = []
    for _ in range(8):
        held.hold(FIRST, 7, "the registry is away")
        pauses.append(held.left_s())
        clock.now_s += pauses[-1]
        assert not held.waiting()
    assert pauses == [FIRST_PAUSE_S, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_records_that_were_in_slots_together_do_not_lengthen_the_pause() -> None:
    """The first of them counts."""
    held = HeldPartitions(Clock())
    for offset in (7, 8, 9):
        held.hold(FIRST, offset, "the registry is away")
    assert held.left_s() == FIRST_PAUSE_S
    assert "orders-0 waits at offset 7, uncounted: the registry is away" in held.problem()


def test_each_partition_waits_for_itself() -> None:
    """One goes on, another leaves the worker."""
    clock = Clock()
    held = HeldPartitions(clock)
    held.hold(FIRST, 7, "away")
    clock.now_s += FIRST_PAUSE_S / 2
    held.hold(SECOND, 3, "away")
    assert held.labels() == {HaltLabel("orders", "unavailable"): 2}
    clock.now_s += FIRST_PAUSE_S / 2
    assert held.waiting() == {SECOND}
    held.progressed(FIRST, [7])
    held.forget(SECOND)
    assert not held
    assert (held.problem(), held.waiting(), held.left_s(5.0)) == ("", frozenset(), 5.0)


def test_only_the_record_that_holds_a_partition_ends_the_hold() -> None:
    """Others of its partition may have their outcomes; they do not show that what it waits for is there again."""
    clock = Clock()
    held = HeldPartitions(clock)
    held.hold(FIRST, 7, "away")
    clock.now_s += FIRST_PAUSE_S
    held.progressed(FIRST, [8, 9])
    held.hold(FIRST, 10, "away")
    assert held.left_s() == 2 * FIRST_PAUSE_S
    assert "waits at offset 7" in held.problem()
    held.progressed(FIRST, [6, 7])
    assert not held


def test_the_probe_lists_a_few() -> None:
    """And says how many more there are."""
    held = HeldPartitions(Clock())
    for number in range(12):
        held.hold(Partition("orders", number), 0, "away")
    assert held.problem().splitlines()[5:] == ["and 7 more partitions wait"]
