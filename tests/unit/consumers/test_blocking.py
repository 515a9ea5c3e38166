"""Blocking redelivery: a record waits where it is, and what follows it waits for it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from consumers.keyed_lane import MOST_IN_PLACE
from consumers.lanes import Lanes
from tests.unit.consumers.batches import DEAD
from tests.unit.consumers.lining import all_units, offsets, opened
from tests.unit.consumers.lives import DiedError, Life, World, world
from tests.unit.consumers.records import NOW, record
from topology.policy import RedeliveryPolicy
from topology.progress import METADATA_LIMIT, InPlace
from topology.settings import Ordering
from transport.protocols import Partition

pytestmark = pytest.mark.usefixtures("hasty")

DELAY_MS = 1000
"""The policy's default."""


def lane(around: World, place: Partition, offset: int) -> object:
    """What is kept in order."""
    return place if around.ordering is Ordering.PARTITION else (place, around.records[place][offset].key())


def check(around: World, *, repeated: int = 0) -> None:
    """Of each lane nothing overtook anything, nothing came early, every attempt was made, some more than once.

    Args:
        around: where everything is done.
        repeated: how often a worker ended without a commit.
    """
    last: dict[object, int] = defaultdict(lambda: -1)
    failed: dict[tuple[Partition, int], tuple[int, int]] = {}
    again = 0
    for place, offset, attempt, at_ms in around.handled:
        mine = lane(around, place, offset)
        if offset < last[mine]:
            again += 1
        before = failed.get((place, offset))
        if before is not None and attempt > before[0]:
            assert attempt == before[0] + 1
            assert at_ms >= before[1] + DELAY_MS
        assert before is None or attempt >= before[0], "a count went back"
        last[mine] = offset
        failed[place, offset] = attempt, at_ms
    assert again <= repeated * len(around.records) * 5
    for (_, offset), attempts in around.attempts().items():
        assert set(attempts) == ({1, 2, 3} if offset in around.failing | around.poison else {1})
    outputs = Counter(copy.value for copy in around.written if copy.topic == "totals")
    dead = [copy for copy in around.written if copy.topic == DEAD]
    assert set(outputs.values()) == {1}
    assert len(dead) == len([0 for r in around.records.values() for each in r if each.offset() in around.poison])
    assert len(outputs) + len(dead) == len(around.written) == sum(map(len, around.records.values()))
    assert around.longest_metadata <= METADATA_LIMIT
    assert {point.metadata for point in around.commits.values()} == {""}


@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4)])
@pytest.mark.parametrize("noting", [False, True], ids=["", "noting"])
def test_nothing_overtakes_a_record_that_waits(ordering: Ordering, slots: int, *, noting: bool) -> None:
    """Of its partition, or of its key; after its last attempt it is dead-lettered and the order goes on."""
    around = world(
        (120, 60),
        1,
        failing=frozenset({3, 4, 50}),
        poison=frozenset({20}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        noting=noting,
    )
    Life(around).live()
    check(around)


def test_other_keys_go_on_however_many_wait_behind_one() -> None:
    """What waits for a record that is not due is no work that is noted ahead."""
    around = world((60,), 1, failing=frozenset({0}), ordering=Ordering.KEY, slots=2, blocking=True)
    place = Partition("orders", 0)
    around.records[place] = [record(n, key=b"waits" if n < 40 else b"goes on") for n in range(60)]
    life = Life(around)
    lanes = life.worker._lanes
    while lanes._call_s is None:
        life.live(1)
    lanes._call_s = 0.3  # hardly anything can be done in the time that is noted ahead
    lanes._learn = lambda seconds: None  # type: ignore[method-assign]  # noqa: ARG005
    life.live()
    calls = [(offset, attempt) for _, offset, attempt, _ in around.handled]
    assert max(calls.index((offset, 1)) for offset in range(40, 60)) < calls.index((0, 2))


def test_one_that_is_due_is_not_kept_by_others_that_are_not() -> None:
    """A new owner reads the partition piece by piece; as many as may wait in place do, the first for an hour."""
    now_ms = NOW
    lanes = Lanes(Ordering.KEY, 2, clock=lambda: now_ms)
    assigned = opened(lanes)
    assigned.progress.waiting |= {n: InPlace(1, NOW + 1000) for n in range(1, MOST_IN_PLACE)}
    assigned.progress.waiting[0] = InPlace(2, NOW + 3_600_000)
    for piece in (range(1), range(1, MOST_IN_PLACE), range(MOST_IN_PLACE, 60)):
        lanes.add(assigned, [record(n, key=b"%d" % n) for n in piece])
        assert all_units(lanes) == []
    now_ms += 1000
    assert [offsets(unit) for unit in all_units(lanes)] == [[n] for n in range(1, MOST_IN_PLACE)]


def test_other_partitions_go_on() -> None:
    """While one waits, those without a failure are done; and by key, so are all other keys."""
    around = world((60, 10), 1, failing=frozenset({15}), ordering=Ordering.KEY, slots=4, blocking=True)
    Life(around).live()
    second = next(at for place, offset, attempt, at in around.handled if (offset, attempt) == (15, 2))
    before = {(place, offset) for place, offset, _, at in around.handled if at < second}
    assert {
        (place, offset) for place, records in around.records.items() for offset in range(len(records))
    } - before == {(Partition("orders", 0), offset) for offset in range(20, 60, 5)}


@pytest.mark.parametrize("ordering", [Ordering.PARTITION, Ordering.KEY])
@pytest.mark.parametrize("noting", [False, True], ids=["", "noting"])
def test_attempt_and_due_time_survive_kills_and_rebalances(ordering: Ordering, *, noting: bool) -> None:
    """Whoever takes the partition over waits out the rest of the delay, and goes on counting."""
    for seed in range(4):
        around = world(
            (80, 40),
            seed,
            failing=frozenset({3, 4, 30}),
            poison=frozenset({20}),
            ordering=ordering,
            slots=3,
            blocking=True,
            noting=noting,
            # A kill while a record is alone counts for it, too.
            policy=RedeliveryPolicy(maximum_redeliveries=4 if noting else 2),
        )
        with pytest.raises(DiedError):
            Life(around).live(dying_after=20 + seed * 7)
        middle = Life(around)
        middle.live(25 + seed * 3)
        middle.give(around.records)
        with pytest.raises(DiedError):
            Life(around).live(dying_after=12)
        Life(around).live()
        if not noting:
            check(around, repeated=2)
        for attempts in around.attempts().values():
            assert attempts == sorted(attempts)
        assert len({copy.value for copy in around.written if copy.topic == "totals"}) == 80 + 40 - 2


def test_a_storm_of_failures_fits_into_the_metadata() -> None:
    """Where every key fails, so many wait in place as can be noted, and the rest is not begun before."""
    around = world(
        (400,), 2, keys=400, failing=frozenset(range(400)), ordering=Ordering.KEY, slots=8, blocking=True, noting=False
    )
    life = Life(around)
    life.live(300)
    assert 0 < len(life.worker._assignment.all()[0].progress.waiting) <= 48
    life.live()
    check(around)


@pytest.mark.parametrize("noting", [False, True], ids=["", "noting"])
@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 1), (Ordering.KEY, 4)])
def test_a_refused_output_is_one_failed_delivery(ordering: Ordering, slots: int, *, noting: bool) -> None:
    """Of its record, which waits in its place and is delivered once more, however often others are refused after it."""
    around = world(
        (60, 60),
        4,
        refused=frozenset({7, 8, 9, 30, 31, 50}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        noting=noting,
        undone=0.05,
    )
    Life(around).live()
    for (_, offset), attempts in around.attempts().items():
        assert max(attempts) == (2 if offset in around.refused else 1)
    outputs = Counter(copy.value for copy in around.written)
    assert len(outputs) == 120
    assert set(outputs.values()) == {1}
