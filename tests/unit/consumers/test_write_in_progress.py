"""What a worker must not start before the write in progress has ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

WORKING, SUSPECT = Partition("orders", 0), Partition("orders", 1)
SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), (Ordering.UNORDERED, 4)]


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("critical", [0, 12], ids=["in the write", "behind the write"])
@pytest.mark.parametrize("seed", range(3))
def test_no_record_is_handed_out_after_one_that_halts_the_worker(
    ordering: Ordering, slots: int, critical: int, seed: int
) -> None:
    """Neither while its batch is written nor while the batch before is: other records would overtake it."""
    kafka = simulated_kafka(
        (25, 20),
        seed,
        critical=frozenset({critical}),
        ordering=ordering,
        slots=slots,
        persist=False,
        slow=True,
    )
    simulated = SimulatedWorker(kafka)
    until(simulated, lambda: simulated.worker.committer.halting)
    before = simulated.handed_out
    simulated.run(100)
    assert simulated.worker.committer.writing
    assert simulated.handed_out == before
    lanes = simulated.worker.dispatchers["orders"].lanes
    assert lanes.ready, "no record is left to hand out, so the test proves nothing"

    kafka.slow = False
    with pytest.raises(HaltedError, match=f"orders-0@{critical}"):
        simulated.run(100)
    assert simulated.handed_out == before
    assert all(checkpoint.offset <= critical for partition, checkpoint in kafka.commits.items() if partition == WORKING)


@pytest.mark.parametrize(("ordering", "slots"), [(Ordering.PARTITION, 2), (Ordering.KEY, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_a_suspect_is_isolated_while_its_note_is_written(ordering: Ordering, slots: int, seed: int) -> None:
    """Neither the suspect nor a record that becomes make_due is handed out meanwhile.

    If the other record killed the worker, the delivery would be counted for the suspect.
    """
    kafka = simulated_kafka((20, 20), seed, failing=frozenset({3}), ordering=ordering, slots=slots, blocking=True)
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka, [SUSPECT]).run(dying_after=6)
    simulated = SimulatedWorker(kafka, [WORKING])
    progress = simulated.worker.assignment.find([WORKING])[0].progress
    until(
        simulated,
        lambda: bool(progress.waiting) and not simulated.worker._busy and not simulated.worker.committer.writing,
    )

    kafka.slow = True
    simulated.assign([SUSPECT])
    until(simulated, lambda: simulated.isolating)
    before = simulated.handed_out
    make_due(kafka)
    simulated.run(60)
    assert simulated.isolating
    assert simulated.worker.committer.writing
    assert simulated.handed_out == before

    kafka.slow = False
    simulated.run()
    first, then = simulated.handed_out[len(before) : len(before) + 2]
    assert [partition for partition, _ in first] == [SUSPECT.number], "one record, and it is the suspect"
    assert then != first
    assert kafka.done


def until(simulated: SimulatedWorker, happened: Callable[[], bool]) -> None:
    """Run turn by turn until the condition is true."""
    for _ in range(500):
        if happened():
            return
        simulated.run(1)
    raise AssertionError("the condition never became true")


def make_due(kafka: SimulatedKafka) -> None:
    """Advance the time until every record that waits in place is make_due."""
    kafka.now_ms += 60_000
