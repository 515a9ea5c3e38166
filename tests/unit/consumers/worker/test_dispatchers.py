"""A worker with several handlers: what one of them does leaves the records of the others alone."""

from collections import Counter
from typing import Any

import pytest

from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import record
from tests.unit.consumers.simulation import Shape, SimulatedKafka, SimulatedWorker, WorkerDiedError, simulated_kafka

pytestmark = pytest.mark.usefixtures("hasty")

PLAIN = Shape(persist=False)
NOTED = Shape(Ordering.KEY, slots=3)
BLOCKING = Shape(Ordering.KEY, slots=2, blocking=True, persist=False)


def two_sources(first: Shape, second: Shape, seed: int, **more: Any) -> SimulatedKafka:  # noqa: ANN401 - as the fields
    """120 records of ``orders`` and 120 of ``refunds``, with a handler each."""
    ordering, slots, blocking, persist = first
    kafka = simulated_kafka(
        (80, 40),
        seed,
        ordering=ordering,
        slots=slots,
        blocking=blocking,
        persist=persist,
        **more,
        others={"refunds": second},
    )
    for number, records in ((0, 70), (1, 50)):
        partition = Partition("refunds", number)
        kafka.records[partition] = [
            record(i, key=b"%d" % (i % 5), topic="refunds", partition=number) for i in range(records)
        ]
    return kafka


def run_workers(kafka: SimulatedKafka) -> int:
    """Run one worker after the other until all is committed. Return how many were killed."""
    for deaths in range(30):
        try:
            SimulatedWorker(kafka).run(200_000)
        except WorkerDiedError:
            continue
        return deaths
    raise AssertionError("the workers never finish")


@pytest.mark.parametrize("second", [PLAIN, NOTED, BLOCKING], ids=["plain", "noted", "blocking"])
@pytest.mark.parametrize("first", [PLAIN, NOTED, BLOCKING], ids=["plain", "noted", "blocking"])
@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_handled_once_for_each_attempt(first: Shape, second: Shape, seed: int) -> None:
    """In the order of its own handler, in one transaction with the others, also if half of the writes are aborted."""
    failing = frozenset({3, 30}) if first.blocking and second.blocking else frozenset[int]()
    kafka = two_sources(first, second, seed, failing=failing, abort_rate=0.5, unheard_rate=0.2)
    SimulatedWorker(kafka).run()
    assert kafka.done
    assert {(*attempts,) for (_, n), attempts in kafka.attempts().items() if n not in failing} == {(1,)}
    assert all(attempts == [1, 2, 3] for (_, n), attempts in kafka.attempts().items() if n in failing)
    assert len(kafka.written) == 240


@pytest.mark.parametrize("seed", range(4))
def test_only_the_source_that_asks_for_it_waits_in_place(seed: int) -> None:
    """The failed record of the other one is written to a retry topic, and those behind it go on."""
    kafka = two_sources(BLOCKING, PLAIN, seed, failing=frozenset({3}))
    SimulatedWorker(kafka).run()
    attempts = kafka.attempts()
    assert attempts[Partition("orders", 0), 3] == [1, 2, 3]
    assert attempts[Partition("refunds", 0), 3] == [1]
    retried = [copy for copy in kafka.written if copy.topic.startswith("billing.retry")]
    assert len(retried) == 2


@pytest.mark.parametrize("second", [PLAIN, NOTED, BLOCKING], ids=["plain", "noted", "blocking"])
@pytest.mark.parametrize("seed", range(4))
def test_a_suspect_is_alone_in_all_handlers(second: Shape, seed: int) -> None:
    """So only the fatal record is counted, and no record of the other source, whatever its handler."""
    kafka = two_sources(NOTED, second, seed, killers=frozenset({37}), policy=RedeliveryPolicy(maximum_redeliveries=2))
    killed: list[set[tuple[str, int]]] = []
    for _ in range(10):
        worker = SimulatedWorker(kafka)
        try:
            worker.run(200_000)
        except WorkerDiedError:
            isolated = worker.isolating
            handled = {(m.topic(), m.offset()) for item in worker.in_flight for m in item.messages}
            if isolated:
                killed.append(handled)
            continue
        break
    assert kafka.done
    assert killed == [{("orders", 37)}] * 3
    letters = [copy for copy in kafka.written if copy.topic == "DLQ.orders"]
    assert [dict(letter.headers or ())[DELIVERY_COUNT] for letter in letters] == [b"3"]
    assert not [copy for copy in kafka.written if copy.topic == "DLQ.refunds"]
    outputs = Counter(copy.topic for copy in kafka.written)
    assert outputs["totals"] == 239


def test_a_fatal_record_of_another_source_is_not_counted_for_this_one() -> None:
    """The source that persists no deliveries kills the worker. Records of the other one stay at their first attempt."""
    kafka = two_sources(PLAIN, NOTED, 1, killers=frozenset({37}))
    for _ in range(6):
        with pytest.raises(WorkerDiedError):
            SimulatedWorker(kafka).run(200_000)
    kafka.killers = frozenset()
    assert run_workers(kafka) == 0
    found = kafka.attempts().items()
    assert {attempt for (partition, _), each in found for attempt in each if partition.topic == "refunds"} == {1}


@pytest.mark.parametrize("second", [PLAIN, NOTED, BLOCKING], ids=["plain", "noted", "blocking"])
@pytest.mark.parametrize("seed", range(4))
def test_processes_die_and_partitions_move(second: Shape, seed: int) -> None:
    """Whenever that is: each record is written once. Where deliveries are not persisted, no death is counted."""
    kafka = two_sources(NOTED, second, seed, abort_rate=0.3, unheard_rate=0.1)
    moving = [Partition("orders", 1), Partition("refunds", 0)]
    for turns in (5, 12, 25, 40):
        worker = SimulatedWorker(kafka)
        worker.run(turns)
        worker.worker.lost(moving[:1])
        worker.reader.stop(moving[:1])
        worker.revoke(moving[1:])
        worker.assign(moving)
        with pytest.raises(WorkerDiedError):
            worker.run(200_000, dying_after=turns)
        if kafka.done:
            break
    assert run_workers(kafka) == 0
    places = [(each.number, n) for each, records in kafka.records.items() for n in range(len(records))]
    assert Counter(copy.value for copy in kafka.written) == Counter(b"%d@%d" % place for place in places)
    attempts = {n for (partition, _), each in kafka.attempts().items() for n in each if partition.topic == "refunds"}
    assert attempts == {1} or second.persist


@pytest.mark.parametrize("seed", range(4))
def test_a_handler_that_returns_nothing_does_not_stop_the_others(seed: int) -> None:
    """Its part of the buffer is full, and its partitions are not fetched. Those of the other one are, to their end."""
    kafka = two_sources(PLAIN, Shape(Ordering.UNORDERED, slots=4, persist=False), seed)
    orders = [partition for partition in kafka.records if partition.topic == "orders"]
    for partition in orders:
        kafka.records[partition] = [record(i, partition=partition.number) for i in range(2000)]
    worker = SimulatedWorker(kafka)
    stuck, _ = worker.slots
    stuck.work = lambda: None  # type: ignore[method-assign]
    worker.run(400)
    refunds = [partition for partition in kafka.records if partition.topic == "refunds"]
    assert all(kafka.commits[partition].offset == len(kafka.records[partition]) for partition in refunds)
    assert set(worker.reader.paused) == set(orders)
    buffered = worker.worker.dispatchers["orders"].lanes.buffered(redelivered=False).records
    assert 100 <= buffered <= 150 + 80, "its half of the buffer, less redeliveries, and one fetch"
