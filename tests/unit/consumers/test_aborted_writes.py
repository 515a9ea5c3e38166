"""A worker whose writes are aborted repeats the writes, not the work."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

FIRST, SECOND = Partition("orders", 0), Partition("orders", 1)
UNORDERED = (Ordering.UNORDERED, 4)
SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), UNORDERED]


def written_once(kafka: SimulatedKafka) -> bool:
    """Whether every record has one output or one dead letter."""
    values = Counter(copy.value for copy in kafka.written if copy.topic == "totals")
    return set(values.values()) == {1} and len(kafka.written) == sum(map(len, kafka.records.values()))


@pytest.mark.parametrize(
    ("ordering", "slots", "blocking"),
    [(*shape, blocking) for shape in SHAPES for blocking in (False, True) if not (blocking and shape == UNORDERED)],
)
@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_handled_once_for_each_attempt(
    ordering: Ordering, slots: int, seed: int, *, blocking: bool, persist: bool
) -> None:
    """Half of the writes are aborted, and of a fifth the outcome is unknown although they are committed."""
    failing = frozenset({3, 50, 51}) if blocking else frozenset[int]()
    kafka = simulated_kafka(
        (150, 90),
        seed,
        failing=failing,
        ordering=ordering,
        slots=slots,
        blocking=blocking,
        persist=persist,
        abort_rate=0.5,
        unheard_rate=0.2,
    )
    SimulatedWorker(kafka).run()
    assert {len(attempts) for (_, n), attempts in kafka.attempts().items() if n not in failing} == {1}
    assert all(attempts == [1, 2, 3] for (_, n), attempts in kafka.attempts().items() if n in failing)
    assert written_once(kafka)
    assert kafka.longest_metadata <= METADATA_LIMIT


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_only_records_of_a_partition_that_leaves_are_handled_again(ordering: Ordering, slots: int, seed: int) -> None:
    """It comes back at once. Its outcomes that were not written are void, however it has left."""
    kafka = simulated_kafka((150, 90), seed, ordering=ordering, slots=slots, persist=False, abort_rate=0.5)
    simulated = SimulatedWorker(kafka)
    for turn in range(4):
        simulated.run(15)
        if turn % 2:
            simulated.worker.lost([FIRST])
            simulated.reader.stop([FIRST])
        else:
            simulated.revoke([FIRST])
        simulated.assign([FIRST])
    simulated.run()
    assert {len(attempts) for (partition, _), attempts in kafka.attempts().items() if partition == SECOND} == {1}
    assert written_once(kafka)


def test_another_writer_makes_the_worker_start_again() -> None:
    """It has moved the committed offset, so the worker no longer knows what is done."""
    kafka = simulated_kafka((60,), 1, persist=False, abort_rate=1.0)
    simulated = SimulatedWorker(kafka)
    while not simulated.worker.committer.writing:
        simulated.run(1)
    kafka.commits[FIRST] = Checkpoint(30, "")
    simulated.run(40)
    kafka.abort_rate = 0.0
    simulated.run()
    assert Counter(copy.value for copy in kafka.written) == Counter(b"0@%d" % n for n in range(30, 60))


def test_progress_that_no_longer_fits_into_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was set back. The worker starts again from the committed offsets."""
    kafka = simulated_kafka((150, 90), 1, ordering=Ordering.UNORDERED, slots=4, persist=False, abort_rate=0.5)
    simulated = SimulatedWorker(kafka)
    whole = Progress.checkpoint
    refused: list[Progress] = []

    def too_long(progress: Progress) -> Checkpoint:
        if simulated.worker.committer.repeating and len(refused) < 3:
            refused.append(progress)
            raise ProgressError("too long")
        return whole(progress)

    monkeypatch.setattr(Progress, "checkpoint", too_long)
    simulated.run()
    assert len(refused) == 3
    assert written_once(kafka)
