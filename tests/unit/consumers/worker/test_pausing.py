"""A worker starts no record of a paused partition, and goes on in order, with every record handled once."""

from collections import Counter
from contextlib import suppress

import pytest

from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.wire.pauses import PausedTopics
from kafka_redelivery.topology.wire.waiting import WaitingRequest
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka
from tests.unit.consumers.test_blocking import check

pytestmark = pytest.mark.usefixtures("hasty")

PAUSED = PausedTopics(topics=frozenset({"orders"}), end=7)


class Switch:
    """Pauses that a test changes."""

    def __init__(self) -> None:
        self.current = PausedTopics()
        self.tiers: frozenset[str] = frozenset()
        self.requests: list[WaitingRequest] = []
        self.obeyed = 0

    def applied(self, pauses: PausedTopics) -> None:
        """Keep the offset."""
        self.obeyed = pauses.end


def stand_still(kafka: SimulatedKafka, worker: SimulatedWorker, switch: Switch) -> None:
    """Pause, and check that after a turn no handler is called any more, while the rest of the worker turns on."""
    switch.current = PAUSED
    worker.worker._turn()
    assert switch.obeyed == PAUSED.end
    before = len(kafka.handled)
    while any(slots.busy for slots in worker.slots):
        worker.work()
    for _ in range(30):
        worker.worker._turn()
    assert len(kafka.handled) == before
    assert worker.reader.paused == set(kafka.records)
    switch.current = PausedTopics(end=9)


@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
@pytest.mark.parametrize("ordering", list(Ordering))
def test_nothing_is_lost_or_doubled_over_many_pauses(ordering: Ordering, *, persist: bool) -> None:
    """Records in flight end as usual; those in the buffer wait."""
    switch = Switch()
    kafka = simulated_kafka(
        (300, 200), 3, failing=frozenset({7}), ordering=ordering, slots=3, persist=persist, pauses=switch
    )
    worker = SimulatedWorker(kafka)
    while not kafka.done:
        worker.run(4)
        stand_still(kafka, worker, switch)
    assert switch.obeyed in {0, 7, 9}
    first = Counter((partition, offset) for partition, offset, attempt, _ in kafka.handled if attempt == 1)
    assert set(first.values()) == {1}
    assert len(first) == 500
    if ordering is Ordering.PARTITION:
        for partition in kafka.records:
            begun = [offset for each, offset, attempt, _ in kafka.handled if (each, attempt) == (partition, 1)]
            assert begun == sorted(begun)


@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 3), (Ordering.KEY, 4)])
def test_blocking_redelivery_keeps_its_order_over_pauses(ordering: Ordering, slots: int) -> None:
    """A record that waits in place and becomes due while it is paused is handled first afterwards."""
    switch = Switch()
    kafka = simulated_kafka(
        (60, 30),
        1,
        failing=frozenset({3, 4, 25}),
        poison=frozenset({20}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        pauses=switch,
    )
    worker = SimulatedWorker(kafka)
    while not kafka.done:
        worker.run(5)
        stand_still(kafka, worker, switch)
    check(kafka)


def test_suspects_of_a_paused_partition_wait() -> None:
    """The record that may have killed a worker is not tried while it is paused."""
    switch = Switch()
    kafka = simulated_kafka((40, 0), 2, killers=frozenset({11}), pauses=switch)
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run()
    worker = SimulatedWorker(kafka)
    worker.worker._turn()  # fetches the suspects
    stand_still(kafka, worker, switch)
    while not kafka.done:
        with suppress(WorkerDiedError):
            SimulatedWorker(kafka).run()
    assert len([copy for copy in kafka.written if copy.topic == DEAD]) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_pause_between_the_isolation_of_a_suspect_and_its_delivery(seed: int) -> None:
    """It is not delivered, and not counted for it: only the fatal record is, once per attempt."""
    switch = Switch()
    kafka = simulated_kafka((40, 20), seed, killers=frozenset({11}), slots=2, pauses=switch)
    worker = SimulatedWorker(kafka)
    for _ in range(1000):
        if kafka.done:
            break
        try:
            worker.run(kafka.random.randint(1, 8))
            stand_still(kafka, worker, switch)
        except WorkerDiedError:
            worker = SimulatedWorker(kafka)
    assert kafka.done
    attempts = kafka.attempts()
    assert attempts.pop((Partition("orders", 0), 11)) == [1, 1, 2, 3]
    assert {attempt for each in attempts.values() for attempt in each} == {1}
    assert {point.metadata for point in kafka.commits.values()} == {""}


def test_a_partition_that_is_assigned_while_its_source_is_paused_waits() -> None:
    """A rebalance ends no pause; and what leaves a paused worker is committed."""
    switch = Switch()
    kafka = simulated_kafka((80, 80), 5, persist=False, pauses=switch)
    worker = SimulatedWorker(kafka, [Partition("orders", 0)])
    worker.run(5)
    switch.current = PAUSED
    worker.run(2)
    before = len(kafka.handled)
    worker.assign([Partition("orders", 1)])
    worker.run(20)
    assert len(kafka.handled) == before
    worker.revoke([Partition("orders", 0)])
    assert kafka.commits[Partition("orders", 0)].offset == before
    switch.current = PausedTopics(end=9)
    worker.assign([Partition("orders", 0)])
    worker.run()
    assert Counter((partition, offset) for partition, offset, *_ in kafka.handled).most_common(1)[0][1] == 1


def test_unacknowledged_records_are_acknowledged_during_a_pause() -> None:
    """In mode individual, what a handler has kept can be finished and is committed."""
    switch = Switch()
    kafka = simulated_kafka((60,), 4, persist=False, mode=AcknowledgementMode.INDIVIDUAL, pauses=switch)
    worker = SimulatedWorker(kafka)
    worker.run(6)
    switch.current = PAUSED
    worker.run(2)
    begun = len({(partition, offset) for partition, offset, *_ in kafka.handled})
    worker.run(200)
    assert kafka.commits[Partition("orders", 0)].offset == begun
    switch.current = PausedTopics(end=9)
    worker.run()
