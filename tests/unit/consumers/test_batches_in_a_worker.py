"""A worker with a batch handler: nothing is lost or doubled, the order is kept, and suspects come alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from kafka_redelivery.topology.config.settings import BatchSection, Ordering
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

BATCH = BatchSection(records=20, wait=timedelta(milliseconds=30))
SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), (Ordering.UNORDERED, 4)]
ORDERED = SHAPES[:3]


def written_once(kafka: SimulatedKafka, *, dead: int = 0) -> None:
    """Check that each record has one output, or one dead letter."""
    outputs = Counter(copy.value for copy in kafka.written if copy.topic == "totals")
    assert set(outputs.values()) == {1}
    assert len([copy for copy in kafka.written if copy.topic == DEAD]) == dead
    assert len(outputs) + dead == len(kafka.written) == sum(map(len, kafka.records.values()))
    assert kafka.longest_metadata <= METADATA_LIMIT
    assert {point.metadata for point in kafka.commits.values()} == {""}


def grouped(kafka: SimulatedKafka) -> bool:
    """Whether there was a batch of several records."""
    return any(len(each) > 1 for each in kafka.batches)


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
@pytest.mark.parametrize("seed", range(3))
def test_calls_that_decide_about_no_record_and_aborted_writes(
    ordering: Ordering, slots: int, seed: int, *, persist: bool
) -> None:
    """Each record has one attempt and one output. A batch is never of two partitions, nor larger than it may be."""
    kafka = simulated_kafka(
        (150, 90, 7),
        seed,
        keys=30,
        ordering=ordering,
        slots=slots,
        persist=persist,
        batch=BATCH,
        nameless_rate=0.3,
        abort_rate=0.2,
    )
    SimulatedWorker(kafka).run()
    written_once(kafka)
    assert {attempt for each in kafka.attempts().values() for attempt in each} == {1}
    assert max(map(len, kafka.batches)) <= BATCH.records
    assert all(len({partition for partition, _ in each}) == 1 for each in kafka.batches)
    assert grouped(kafka)


@pytest.mark.parametrize(("ordering", "slots"), ORDERED)
@pytest.mark.parametrize("persist", [False, True], ids=["", "persist"])
def test_a_failed_record_blocks_those_behind_it(ordering: Ordering, slots: int, *, persist: bool) -> None:
    """No batch holds two records of a key, or of a partition if that is the order; each key keeps its order."""
    kafka = simulated_kafka(
        (160, 60),
        1,
        keys=40,
        failing=frozenset({3, 4, 50, 90}),
        poison=frozenset({20}),
        ordering=ordering,
        slots=slots,
        blocking=True,
        persist=persist,
        batch=BATCH,
        nameless_rate=0.2,
    )
    SimulatedWorker(kafka).run()
    written_once(kafka, dead=2)

    def scope(partition: Partition, offset: int) -> object:
        return partition if ordering is Ordering.PARTITION else (partition, kafka.records[partition][offset].key())

    for batch in kafka.batches:
        assert len({scope(*each) for each in batch}) == len(batch)
    assert grouped(kafka) == (ordering is Ordering.KEY)
    last: dict[object, int] = {}
    for partition, offset, attempt, _ in kafka.handled:
        place = scope(partition, offset)
        assert offset >= last.get(place, -1)
        last[place] = offset
        if attempt < 3 and offset in kafka.failing | kafka.poison:
            continue
        assert offset not in kafka.failing or attempt == 3
    for (_, offset), attempts in kafka.attempts().items():
        assert set(attempts) == ({1, 2, 3} if offset in kafka.failing | kafka.poison else {1})


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_only_the_record_that_kills_the_worker_is_counted(ordering: Ordering, slots: int, seed: int) -> None:
    """It kills one worker as part of a batch. Then each suspect is a batch of its own, after a commit."""
    killer = 60 + seed * 37
    kafka = simulated_kafka(
        (200, 90), seed, keys=50, killers=frozenset({killer}), ordering=ordering, slots=slots, batch=BATCH
    )
    workers = 0
    while not kafka.done:
        workers += 1
        assert workers < 60
        first = len(kafka.batches)
        try:
            SimulatedWorker(kafka).run()
        except WorkerDiedError:
            [fatal] = [each for each in kafka.batches[first:] if (Partition("orders", 0), killer) in each]
            assert workers == 1 or len(fatal) == 1
    assert workers == 5
    attempts = kafka.attempts()
    assert attempts.pop((Partition("orders", 0), killer)) == [1, 1, 2, 3]
    assert {attempt for each in attempts.values() for attempt in each} == {1}
    written_once(kafka, dead=1)
    assert grouped(kafka)


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("dying_after", [2, 5, 8])
def test_a_worker_that_is_killed_while_batches_are_filled_and_handled(
    ordering: Ordering, slots: int, dying_after: int
) -> None:
    """The next one handles what was not committed, and writes each output once."""
    kafka = simulated_kafka((150, 90), dying_after, keys=30, ordering=ordering, slots=slots, persist=False, batch=BATCH)
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run(dying_after=dying_after)
    SimulatedWorker(kafka).run()
    written_once(kafka)


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("turns", [1, 5, 9, *(pytest.param(each, marks=pytest.mark.long) for each in (3, 7, 11))])
def test_partitions_that_are_revoked_while_their_batches_are_filled_or_handled(
    ordering: Ordering, slots: int, turns: int
) -> None:
    """What has been handled is committed; what has been fetched only is left to the next owner."""
    kafka = simulated_kafka((60, 60), turns, keys=30, ordering=ordering, slots=slots, persist=False, batch=BATCH)
    first, second = kafka.records
    losing = SimulatedWorker(kafka)
    losing.run(turns)
    handled = len(kafka.handled)
    losing.revoke([first])
    assert len(kafka.handled) >= handled
    SimulatedWorker(kafka, [first]).run(2000)
    losing.run(2000)
    assert kafka.done, second
    written_once(kafka)
    assert set(Counter((partition, offset) for partition, offset, _, _ in kafka.handled).values()) == {1}
