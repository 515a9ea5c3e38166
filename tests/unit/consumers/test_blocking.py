"""Blocking redelivery: a failed record waits in place, and the records behind it wait for it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, WaitingRecord
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD
from tests.unit.consumers.lane_steps import all_items, finish, offsets, opened
from tests.unit.consumers.records import NOW, record
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

DELAY_MS = 1000
"""Default redelivery delay of the policy."""


def lane(kafka: SimulatedKafka, partition: Partition, offset: int) -> object:
    """The scope of ordering that a record belongs to."""
    return partition if kafka.ordering is Ordering.PARTITION else (partition, kafka.records[partition][offset].key())


def check(kafka: SimulatedKafka, *, repeated: int = 0) -> None:
    """Check that the order was kept, no redelivery was early, and every attempt was made.

    Args:
        kafka: a simulation in which all records are committed.
        repeated: how many workers ended without a commit, so that deliveries were repeated.
    """
    last: dict[object, int] = defaultdict(lambda: -1)
    failed: dict[tuple[Partition, int], tuple[int, int]] = {}
    redeliveries = 0
    for partition, offset, attempt, at_ms in kafka.handled:
        scope = lane(kafka, partition, offset)
        if offset < last[scope]:
            redeliveries += 1
        before = failed.get((partition, offset))
        if before is not None and attempt > before[0]:
            assert attempt == before[0] + 1
            assert at_ms >= before[1] + DELAY_MS
        assert before is None or attempt >= before[0], "a delivery count decreased"
        last[scope] = offset
        failed[partition, offset] = attempt, at_ms
    assert redeliveries <= repeated * len(kafka.records) * 5
    for (_, offset), attempts in kafka.attempts().items():
        assert set(attempts) == ({1, 2, 3} if offset in kafka.failing | kafka.poison else {1})
    outputs = Counter(copy.value for copy in kafka.written if copy.topic == "totals")
    dead = [copy for copy in kafka.written if copy.topic == DEAD]
    assert set(outputs.values()) == {1}
    assert len(dead) == len([0 for r in kafka.records.values() for each in r if each.offset() in kafka.poison])
    assert len(outputs) + len(dead) == len(kafka.written) == sum(map(len, kafka.records.values()))
    assert kafka.longest_metadata <= METADATA_LIMIT
    assert {point.metadata for point in kafka.commits.values()} == {""}


@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4)])
@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
def test_no_record_overtakes_one_that_waits_in_place(ordering: Ordering, slots: int, *, persist: bool) -> None:
    """Within its partition or key. After its last attempt it is dead-lettered, and the order goes on."""
    kafka = simulated_kafka(
        (120, 60),
        1,
        failing=frozenset({3, 4, 50}),
        poison=frozenset({20}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        persist=persist,
    )
    SimulatedWorker(kafka).run()
    check(kafka)


def test_other_keys_go_on_while_many_records_wait_behind_one() -> None:
    """Records behind one that waits are not counted as work ahead."""
    kafka = simulated_kafka((60,), 1, failing=frozenset({0}), ordering=Ordering.KEY, slots=2, blocking=True)
    partition = Partition("orders", 0)
    kafka.records[partition] = [record(n, key=b"waits" if n < 40 else b"goes on") for n in range(60)]
    simulated = SimulatedWorker(kafka)
    lanes = simulated.worker.dispatchers["orders"].lanes
    while lanes._mean_call_s is None:
        simulated.run(1)
    lanes._mean_call_s = 0.3  # a note covers little work at this speed
    lanes._update_mean = lambda seconds: None  # type: ignore[method-assign]  # noqa: ARG005
    simulated.run()
    calls = [(offset, attempt) for _, offset, attempt, _ in kafka.handled]
    assert max(calls.index((offset, 1)) for offset in range(40, 60)) < calls.index((0, 2))


def test_a_due_record_does_not_wait_for_others_that_are_not_due() -> None:
    """A new owner reads the partition in pieces. As many records wait as may, the first for an hour."""
    now_ms = NOW
    lanes = Lanes(Ordering.KEY, 2, clock=lambda: now_ms)
    assigned = opened(lanes)
    assigned.progress.waiting |= {n: WaitingRecord(1, NOW + 1000) for n in range(1, MAX_IN_PLACE)}
    assigned.progress.waiting[0] = WaitingRecord(2, NOW + 3_600_000)
    for piece in (range(1), range(1, MAX_IN_PLACE), range(MAX_IN_PLACE, 60)):
        lanes.add(assigned, [record(n, key=b"%d" % n) for n in piece])
        assert all_items(lanes) == []
    now_ms += 1000
    assert [offsets(item) for item in all_items(lanes)] == [[n] for n in range(1, MAX_IN_PLACE)]


class Clocks:
    """A wall clock and a monotonic clock."""

    def __init__(self) -> None:
        self.now_ms, self.monotonic_s = NOW, 100.0

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self.now_ms += by_ms
        self.monotonic_s += by_ms / 1000

    def lanes(self, ordering: Ordering) -> Lanes:
        """Lanes of two slots with these clocks."""
        lanes = Lanes(ordering, 2, clock=lambda: self.now_ms, monotonic_s=lambda: self.monotonic_s)
        lanes.check_clock()
        return lanes

    def waiting(self, lanes: Lanes, partition: int, delay_ms: int) -> AssignedPartition:
        """Open a partition, and let its first record fail."""
        assigned = opened(lanes, partition)
        lanes.add(assigned, [record(0, key=b"k", partition=partition), record(1, key=b"k", partition=partition)])
        item = lanes.next_item()
        assert item is not None
        assigned.progress.wait_in_place(0, 1, self.now_ms + delay_ms)
        finish(lanes, item)
        lanes.requeue(assigned, item.messages[0])
        return assigned


@pytest.mark.parametrize("ordering", [Ordering.PARTITION, Ordering.KEY])
def test_nobody_waits_in_place_for_a_clock_to_catch_up(caplog: pytest.LogCaptureFixture, ordering: Ordering) -> None:
    """The clock was an hour ahead when two records failed, and is corrected while they wait."""
    clocks = Clocks()
    lanes = clocks.lanes(ordering)
    first, second = clocks.waiting(lanes, 0, DELAY_MS), clocks.waiting(lanes, 1, DELAY_MS + 500)
    assert all_items(lanes) == []
    assert lanes.due_in_s(60) == DELAY_MS / 1000

    clocks.now_ms -= 3_600_000
    lanes.check_clock()
    assert "the clock was set back by 3600000 ms" in caplog.text

    assert all_items(lanes) == []
    assert lanes.due_in_s(60) == DELAY_MS / 1000
    clocks.advance(DELAY_MS)
    assert [(item.lane.assigned, offsets(item)) for item in all_items(lanes)] == [(first, [0])]
    clocks.advance(500)
    assert [(item.lane.assigned, offsets(item)) for item in all_items(lanes)] == [(second, [0])]
    assert first.dirty, "a successor waits no longer, either"


@pytest.mark.parametrize("ordering", [Ordering.PARTITION, Ordering.KEY])
def test_a_clock_that_is_corrected_makes_nothing_early(ordering: Ordering) -> None:
    """What failed by the right clock keeps its due time, however often the clock jumps ahead and back."""
    clocks = Clocks()
    lanes = clocks.lanes(ordering)
    assigned = clocks.waiting(lanes, 0, 3_600_000)
    due_ms = clocks.now_ms + 3_600_000
    for step_ms in (60_000, -60_000) * 10:
        clocks.now_ms += step_ms
        clocks.advance(1000)
        lanes.check_clock()
    assert assigned.progress.waiting[0].due_ms == due_ms
    clocks.now_ms -= 5000
    later = clocks.waiting(lanes, 1, 2000)  # fails before the next check
    due_later_ms = clocks.now_ms + 2000
    lanes.check_clock()
    assert later.progress.waiting[0].due_ms == due_later_ms
    assert assigned.progress.waiting[0].due_ms == due_ms - 5000


def test_old_waits_are_forgotten() -> None:
    """A partition in which records fail all the time needs no more memory."""
    clocks = Clocks()
    lanes = clocks.lanes(Ordering.PARTITION)
    assigned = opened(lanes)
    for offset in range(1000):
        lanes.add(assigned, [record(offset)])
        item = lanes.next_item()
        assert item is not None
        assigned.progress.track(offset)
        assigned.progress.wait_in_place(offset, 1, 0)
        finish(lanes, item)
        lanes.requeue(assigned, item.messages[0])
        item = lanes.next_item()
        assert item is not None
        assigned.progress.complete([offset])
        finish(lanes, item)
    [(_, lane)] = lanes.all()
    assert len(lane._noted_ms) < 200


def test_other_partitions_and_keys_go_on() -> None:
    """While one record waits, only the records of its key wait."""
    kafka = simulated_kafka((60, 10), 1, failing=frozenset({15}), ordering=Ordering.KEY, slots=4, blocking=True)
    SimulatedWorker(kafka).run()
    second = next(at for partition, offset, attempt, at in kafka.handled if (offset, attempt) == (15, 2))
    before = {(partition, offset) for partition, offset, _, at in kafka.handled if at < second}
    assert {
        (partition, offset) for partition, records in kafka.records.items() for offset in range(len(records))
    } - before == {(Partition("orders", 0), offset) for offset in range(20, 60, 5)}


@pytest.mark.parametrize("ordering", [Ordering.PARTITION, Ordering.KEY])
@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
def test_attempt_and_due_time_survive_kills_and_rebalances(ordering: Ordering, *, persist: bool) -> None:
    """The next owner waits for the rest of the delay and continues the count."""
    for seed in range(4):
        kafka = simulated_kafka(
            (80, 40),
            seed,
            failing=frozenset({3, 4, 30}),
            poison=frozenset({20}),
            ordering=ordering,
            slots=3,
            blocking=True,
            persist=persist,
            # A kill while a record is isolated counts as a delivery, too.
            policy=RedeliveryPolicy(maximum_redeliveries=4 if persist else 2),
        )
        with pytest.raises(WorkerDiedError):
            SimulatedWorker(kafka).run(dying_after=20 + seed * 7)
        middle = SimulatedWorker(kafka)
        middle.run(25 + seed * 3)
        middle.revoke(kafka.records)
        with pytest.raises(WorkerDiedError):
            SimulatedWorker(kafka).run(dying_after=12)
        SimulatedWorker(kafka).run()
        if not persist:
            check(kafka, repeated=2)
        for attempts in kafka.attempts().values():
            assert attempts == sorted(attempts)
        assert len({copy.value for copy in kafka.written if copy.topic == "totals"}) == 80 + 40 - 2


def test_many_failures_fit_into_the_metadata() -> None:
    """If every key fails, as many records wait in place as the metadata can list. The others are not started."""
    kafka = simulated_kafka(
        (400,),
        2,
        keys=400,
        failing=frozenset(range(400)),
        ordering=Ordering.KEY,
        slots=8,
        blocking=True,
        persist=False,
    )
    simulated = SimulatedWorker(kafka)
    simulated.run(300)
    assert 0 < len(simulated.worker.assignment.all()[0].progress.waiting) <= 48
    simulated.run()
    check(kafka)


@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 1), (Ordering.KEY, 4)])
def test_a_refused_output_is_one_failed_delivery(ordering: Ordering, slots: int, *, persist: bool) -> None:
    """Its record waits in place and is delivered once more, even if other writes are refused after it."""
    kafka = simulated_kafka(
        (60, 60),
        4,
        refused=frozenset({7, 8, 9, 30, 31, 50}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        persist=persist,
        abort_rate=0.05,
    )
    SimulatedWorker(kafka).run()
    for (_, offset), attempts in kafka.attempts().items():
        assert max(attempts) == (2 if offset in kafka.refused else 1)
    outputs = Counter(copy.value for copy in kafka.written)
    assert len(outputs) == 120
    assert set(outputs.values()) == {1}
