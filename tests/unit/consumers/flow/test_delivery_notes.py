"""Delivery counts persisted before delivery: which records are counted when a worker dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError, HandlerUnavailable
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.settings import LimitsSection, Ordering
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_MESSAGE_ID
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD, TIER
from tests.unit.consumers.simulation import SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

SHAPES = [(Ordering.PARTITION, 1), (Ordering.PARTITION, 3), (Ordering.KEY, 4), (Ordering.UNORDERED, 4)]


def run_workers(kafka: SimulatedKafka, *, max_workers: int = 60, dying_after: tuple[int, ...] = ()) -> int:
    """Run one worker after the other until all is committed. Return how many were killed by a record."""
    deaths = 0
    for number in range(1, max_workers):
        fate = dying_after[number - 1] if number <= len(dying_after) else 10**9
        try:
            SimulatedWorker(kafka).run(200_000, dying_after=fate)
        except WorkerDiedError:
            deaths += number > len(dying_after)
            continue
        assert kafka.done
        return deaths
    raise AssertionError("the workers never finish")


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_only_the_fatal_record_is_counted(ordering: Ordering, slots: int, seed: int) -> None:
    """It kills one worker among other records, then one in isolation per attempt. All others stay at attempt 1."""
    killer = 100 + seed * 37
    kafka = simulated_kafka((250, 90), seed, killers=frozenset({killer}), ordering=ordering, slots=slots)
    assert run_workers(kafka) == 4
    attempts = kafka.attempts()
    assert attempts.pop((Partition("orders", 0), killer)) == [1, 1, 2, 3]
    assert {attempt for each in attempts.values() for attempt in each} == {1}
    outputs = Counter(copy.value for copy in kafka.written if copy.topic == "totals")
    assert len(outputs) == 250 + 90 - 1
    assert set(outputs.values()) == {1}
    [letter] = [copy for copy in kafka.written if copy.topic == DEAD]
    assert dict(letter.headers or ())[DELIVERY_COUNT] == b"3"
    assert {point.metadata for point in kafka.commits.values()} == {""}
    assert kafka.longest_metadata <= METADATA_LIMIT


class _WithoutHandler(SimulatedWorker):
    """No process of its handler can be started for the first two records."""

    calls = 0

    def _handle(self, record: Record, context: Context) -> None:
        self.calls += 1
        if self.calls <= 2:
            raise HandlerUnavailable("the database is away")
        super()._handle(record, context)


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
def test_a_suspect_waits_for_what_its_handler_needs(
    monkeypatch: pytest.MonkeyPatch, ordering: Ordering, slots: int
) -> None:
    """It is isolated, has no outcome and is isolated again. Nothing is counted for it."""
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops._BACKOFF", Backoff(0.05))
    kafka = simulated_kafka((20, 5), 3, killers=frozenset({7}), ordering=ordering, slots=slots)
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run(200_000)
    kafka.killers = frozenset()
    worker = _WithoutHandler(kafka)
    end_s = monotonic_s() + 30
    while not kafka.done and monotonic_s() < end_s:
        worker.run(10)
    assert kafka.done
    assert worker.calls > 2
    assert {attempt for each in kafka.attempts().values() for attempt in each} == {1}


@pytest.mark.parametrize(("ordering", "slots"), SHAPES)
def test_fatal_records_failing_records_and_aborted_writes(ordering: Ordering, slots: int) -> None:
    """Two fatal records in a row, records that fail, and aborted writes: each record has its own count."""
    kafka = simulated_kafka(
        (200, 50),
        7,
        killers=frozenset({60, 61, 150}),
        failing=frozenset({62, 100}),
        ordering=ordering,
        slots=slots,
        abort_rate=0.1,
    )
    run_workers(kafka)
    copies = Counter((copy.topic, dict(copy.headers or ()).get(DELIVERY_COUNT)) for copy in kafka.written)
    assert copies[DEAD, b"3"] == 3
    # A record that fails waits in a tier after its first delivery.
    assert copies[TIER, b"1"] == 2
    assert copies["totals", None] == 200 + 50 - 5
    assert sum(copies.values()) == 250
    counted = {offset: max(each) for (partition, offset), each in kafka.attempts().items() if not partition.number}
    assert {offset: count for offset, count in counted.items() if count > 1} == dict.fromkeys((60, 61, 150), 3)


def test_a_worker_killed_from_outside_counts_at_most_one_delivery() -> None:
    """With several records in handlers it counts none, later only the isolated one."""
    for seed in range(5):
        kafka = simulated_kafka((300, 100), seed, ordering=Ordering.KEY, slots=3)
        run_workers(kafka, dying_after=(8,))
        assert {attempt for each in kafka.attempts().values() for attempt in each} == {1}
        kafka = simulated_kafka((300, 100), seed, ordering=Ordering.KEY, slots=3)
        run_workers(kafka, dying_after=(8, 14, 30))
        assert sum(max(each) - 1 for each in kafka.attempts().values()) <= 2
        assert len({copy.value for copy in kafka.written}) == len(kafka.written) == 400


def test_a_graceful_revocation_withdraws_the_note() -> None:
    """The next owner has no suspects and handles several records concurrently from the start."""
    kafka = simulated_kafka((200,), 3)
    simulated = SimulatedWorker(kafka)
    simulated.run(12)
    assert not kafka.done
    simulated.revoke(kafka.records)
    assert {point.metadata for point in kafka.commits.values()} == {""}


def dead(kafka: SimulatedKafka) -> list[int]:
    """The source offsets of the dead letters."""
    letters = [dict(copy.headers or ()) for copy in kafka.written if copy.topic == DEAD]
    return [parse_message_id((letter[ORIG_MESSAGE_ID] or b"").decode())[2] for letter in letters]


def isolating(kafka: SimulatedKafka) -> tuple[SimulatedWorker, int]:
    """After a death, the next worker with an isolated record in its handler, and the offset of that record."""
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run()
    simulated = SimulatedWorker(kafka)
    while not (simulated.isolating and simulated.in_flight):
        simulated.run(1)
    [item] = simulated.in_flight
    return simulated, item.messages[0].offset()


def test_a_note_is_withdrawn_after_its_outcome_was_aborted() -> None:
    """The isolated record is not counted when another worker gets it, because no worker died."""
    for seed in range(4):
        kafka = simulated_kafka((60,), seed, killers=frozenset({20}), policy=RedeliveryPolicy(maximum_redeliveries=0))
        simulated, offset = isolating(kafka)
        before = simulated.worker.assignment.all()
        kafka.abort_rate = 1.0
        with suppress(WorkerDiedError):  # an aborted write can be repeated without a rewind, and the next record kills
            while simulated.worker.assignment.all() == before:
                simulated.run(1)
        kafka.abort_rate = 0.0
        simulated.revoke(kafka.records)
        run_workers(kafka)
        assert offset not in dead(kafka)


def test_a_note_is_withdrawn_although_the_last_write_is_aborted() -> None:
    """The write at a revocation is repeated once."""
    for seed in range(4):
        kafka = simulated_kafka((60,), seed, killers=frozenset({20}), policy=RedeliveryPolicy(maximum_redeliveries=0))
        simulated, offset = isolating(kafka)
        simulated.writer.script.append(WriteAbortedError("the transaction was aborted"))
        simulated.revoke(kafka.records)
        assert simulated.writer.script == []
        run_workers(kafka)
        assert offset not in dead(kafka)


def test_a_worker_without_partitions_reads_no_committed_offsets() -> None:
    """At shutdown the client reports the revocation again and answers no more requests."""
    kafka = simulated_kafka((60,), 3)
    simulated = SimulatedWorker(kafka)
    simulated.run(5)

    def asked(partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        raise AssertionError(f"the committed offsets of {partitions} are read")

    simulated.reader.committed = asked  # type: ignore[method-assign]
    simulated.reader.close = lambda: simulated.worker.revoked(list(kafka.records))  # type: ignore[method-assign]
    simulated.worker.limits = LimitsSection(shutdown_timeout=timedelta(seconds=4))
    simulated.worker._shut_down()
    assert simulated.worker.assignment.all() == []


def test_a_worker_that_halts_withdraws_its_note() -> None:
    """Neither the record that halts it nor the next one has a delivery that counts."""
    kafka = simulated_kafka((60,), 3, killers=frozenset({20}))
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run()
    kafka.critical = frozenset({10})
    with pytest.raises(HaltedError):
        SimulatedWorker(kafka).run()
    kafka.critical = frozenset()
    run_workers(kafka)
    counted = {offset for (_, offset), attempts in kafka.attempts().items() if max(attempts) > 1}
    assert counted == {20}


def test_suspects_stay_suspects_across_a_rebalance() -> None:
    """A worker that gives a partition back before all suspects are handled leaves a note about the others."""
    kafka = simulated_kafka((120,), 5, killers=frozenset({70}))
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run()
    second = SimulatedWorker(kafka)
    while kafka.commits[Partition("orders", 0)].offset < 20:
        second.run(1)
    second.revoke(kafka.records)
    assert run_workers(kafka) == 3  # isolated each time: no worker had to die once more to find the record
    assert kafka.attempts()[Partition("orders", 0), 70] == [1, 1, 2, 3]


def test_a_suspect_is_not_isolated_while_other_records_are_in_handlers() -> None:
    """Suspects that arrive while a fatal record is in flight wait for it, and are not counted for it."""
    working, suspect = Partition("orders", 0), Partition("orders", 1)
    for seed in range(20):
        kafka = simulated_kafka((60, 60), seed, killers=frozenset({30}), ordering=Ordering.UNORDERED, slots=4)
        with pytest.raises(WorkerDiedError):
            SimulatedWorker(kafka, [suspect]).run(dying_after=6)
        simulated = SimulatedWorker(kafka, [working])
        with suppress(WorkerDiedError):
            simulated.run(4 + seed % 6)
            simulated.assign([suspect])
            simulated.run()
        run_workers(kafka)
        attempts = kafka.attempts()
        assert attempts.pop((working, 30))[-3:] == [1, 2, 3]
        assert {attempt for each in attempts.values() for attempt in each} == {1}
