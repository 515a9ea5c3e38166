"""A worker during an outage of what its handlers call: nothing is lost, no attempt is spent, no stampede."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.handlers.dependencies import Dependencies
from kafka_redelivery.consumers.process.pause_watch import NoPauses
from kafka_redelivery.topology.config.settings import BatchSection, DependencySection, Ordering
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT
from kafka_redelivery.topology.wire.outages import OutageState
from kafka_redelivery.topology.wire.pauses import PausedTopics
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import NoOpObserver
from tests.unit.consumers.records import NOW, record
from tests.unit.consumers.simulation import (
    Bank,
    Shape,
    SimulatedKafka,
    SimulatedWorker,
    WorkerDiedError,
    simulated_kafka,
)

_HOUR_MS = 3_600_000

pytestmark = pytest.mark.usefixtures("hasty")


def _run(kafka: SimulatedKafka) -> SimulatedWorker:
    worker = SimulatedWorker(kafka)
    worker.run(200_000)
    assert kafka.done
    return worker


def _reported(worker: SimulatedWorker) -> tuple[dict[str, bool], dict[str, int]]:
    """What it reports about once a second."""
    reported = []

    class Observer(NoOpObserver):
        def outages(self, away: Mapping[str, bool], partitions: Mapping[str, int]) -> None:
            reported.append((dict(away), dict(partitions)))

    worker.worker.observer, worker.worker._reported_s = Observer(), 0.0
    worker.worker._report_state()
    return reported[-1]


def _copies(kafka: SimulatedKafka) -> list[bytes]:
    return sorted(copy.value for copy in kafka.written if copy.topic == "totals" and copy.value is not None)


def _expected(kafka: SimulatedKafka) -> list[bytes]:
    return sorted(b"%d@%d" % (each.number, n) for each, records in kafka.records.items() for n in range(len(records)))


@pytest.mark.parametrize("ordering", list(Ordering))
@pytest.mark.parametrize("slots", [1, 4])
def test_a_long_outage_costs_no_attempt(ordering: Ordering, slots: int) -> None:
    """Each record is handled once, and nothing goes to a tier. During the outage at most one call a pause is made."""
    bank = Bank([(0, _HOUR_MS // 6)])
    kafka = simulated_kafka([60, 60], bank=bank, ordering=ordering, slots=slots)

    _run(kafka)

    assert _copies(kafka) == _expected(kafka)
    assert {copy.topic for copy in kafka.written} == {"totals"}
    assert all(attempts == [1] for attempts in kafka.attempts().values())
    during = [at_ms for at_ms, answered in bank.calls if not answered]
    assert len(during) <= slots + 5 + 10
    tries = during[-5:]
    assert all(later - earlier >= 54_000 for earlier, later in pairwise(tries))


def test_the_order_of_each_partition_is_kept() -> None:
    """The record that met the outage is the first that is tried again."""
    kafka = simulated_kafka([80, 80], bank=Bank([(200, 60_000)]), slots=4)

    _run(kafka)

    for partition in kafka.records:
        offsets = [offset for each, offset, _, _ in kafka.handled if each == partition]
        assert offsets == sorted(offsets)


def test_the_load_rises_from_one() -> None:
    """From second to second twice as many records are in flight, until all slots are used."""
    bank = Bank([(0, 30_000)])
    kafka = simulated_kafka([400], bank=bank, ordering=Ordering.UNORDERED, slots=16)
    worker = SimulatedWorker(kafka)
    most: dict[int, int] = {}
    began_ms = 0
    for _ in range(100_000):
        if kafka.done:
            break
        worker.run(1)
        if not began_ms and bank.calls and bank.calls[-1][1]:
            began_ms = kafka.now_ms
        if began_ms:
            second = (kafka.now_ms - began_ms) // 1000
            most[second] = max(most.get(second, 0), len(worker.in_flight))

    assert kafka.done
    assert all(number <= 2 ** (second + 1) for second, number in most.items())


def test_flapping_opens_again_and_ends() -> None:
    """A dependency that answers for ten seconds in twenty for ten minutes loses and repeats nothing."""
    bank = Bank([(at_s * 1000, at_s * 1000 + 10_000) for at_s in range(0, 600, 20)])
    kafka = simulated_kafka([300, 300], bank=bank, ordering=Ordering.KEY, slots=8)

    _run(kafka)

    assert _copies(kafka) == _expected(kafka)
    assert all(attempts == [1] for attempts in kafka.attempts().values())


def test_after_the_longest_outage_the_policy_decides() -> None:
    """Then failures count, so that records go to tiers and to dead letters."""
    section = DependencySection.model_validate({"maxOutage": "1m"})
    kafka = simulated_kafka([20], bank=Bank([(0, _HOUR_MS)], section))

    SimulatedWorker(kafka).run(20_000)

    retried = [copy for copy in kafka.written if copy.topic != "totals"]
    assert retried
    assert kafka.done


def test_the_longest_outage_of_a_key() -> None:
    """After it the policy decides about the records of the key, also about those that come later."""
    section = DependencySection.model_validate({"maxOutage": "1m"})
    bank = Bank([(0, _HOUR_MS)], section, refuses_keys=frozenset({b"1"}))
    kafka = simulated_kafka([40], bank=bank, ordering=Ordering.KEY, slots=4)

    _run(kafka)

    assert kafka.done
    assert len([copy for copy in kafka.written if copy.topic != "totals"]) == 8
    away = [at_ms for at_ms, answered in bank.calls if not answered]
    assert len(away) == 8 + 12  # tried again every five seconds for a minute
    assert away[-1] <= 70_000  # the others of the key do not wait for as long once more


def test_a_key_that_is_answered_may_wait_again() -> None:
    """Its next outage is another one."""
    section = DependencySection.model_validate({"maxOutage": "1m"})
    bank = Bank([(0, 40_000), (50_000, 100_000)], section, refuses_keys=frozenset({b"1"}))
    kafka = simulated_kafka([40], bank=bank, ordering=Ordering.KEY, slots=4)
    worker = SimulatedWorker(kafka)
    worker.run(200_000)

    assert kafka.done
    assert {copy.topic for copy in kafka.written} == {"totals"}
    outages = worker.worker.outages
    assert outages is not None
    assert not outages.counts


def test_the_longest_outage_of_a_key_begins_anew_when_its_partition_comes_back() -> None:
    """In the meantime another worker may have handled the key, and this may be its next outage."""
    section = DependencySection.model_validate({"maxOutage": "1m"})
    kafka = simulated_kafka([1], bank=Bank([], section), ordering=Ordering.KEY)
    outages = SimulatedWorker(kafka).worker.outages
    assert outages is not None
    now_s = 0.0
    outages.clock_s = lambda: now_s
    first: Any = SimpleNamespace(closed=False, route=SimpleNamespace(source="orders"))
    again: Any = SimpleNamespace(closed=False, route=first.route)
    found = []
    for now_s, assigned in ((0, first), (61, first), (62, first), (63, again), (122, again), (124, again)):
        first.closed = now_s > 62
        found.append(outages._key_fails(outages._dependencies["bank"], assigned, b"1"))
    assert found == [False, True, True, False, False, True]


def test_a_share_of_failures_of_a_key() -> None:
    """Below it the record has failed, as without a key."""
    section = DependencySection.model_validate({"threshold": "50% of 100"})
    bank = Bank([(0, _HOUR_MS)], section, refuses_keys=frozenset({b"1"}))
    kafka = simulated_kafka([40], bank=bank, ordering=Ordering.KEY, slots=4)

    _run(kafka)

    assert len([copy for copy in kafka.written if copy.topic != "totals"]) == 8


def test_an_outage_that_has_taken_too_long_ends_with_a_success() -> None:
    """A minute in which nothing was called is none: then the next failures are still the records' own."""
    section = DependencySection.model_validate({"maxOutage": "1m", "longestPause": "20s"})
    bank = Bank([(0, _HOUR_MS)], section)
    kafka = simulated_kafka([2], bank=bank, slots=1)
    worker = SimulatedWorker(kafka)
    worker.run(20_000)
    assert kafka.done
    outages = worker.worker.outages
    assert outages is not None
    orders = kafka.records[Partition("orders", 0)]

    def arrive() -> None:
        orders.append(record(len(orders), key=b"0"))
        worker.run(20_000)
        assert kafka.done
        kafka.now_ms += 90_000
        worker.worker._turn()

    arrive()
    assert len([copy for copy in kafka.written if copy.topic != "totals"]) == 3
    assert outages.active
    bank.away = []
    arrive()
    assert not outages.active
    bank.away = [(kafka.now_ms - NOW, kafka.now_ms - NOW + 20_000)]
    arrive()
    assert len([copy for copy in kafka.written if copy.topic != "totals"]) == 3


def test_the_share_begins_anew_after_an_outage() -> None:
    """Its failures do not open the next one."""
    section = DependencySection.model_validate({"threshold": "50% of 10"})
    for_ever = [(0, _HOUR_MS)]
    bank = Bank(for_ever, section)
    kafka = simulated_kafka([400], bank=bank, slots=1)
    worker = SimulatedWorker(kafka)
    outages = worker.worker.outages
    assert outages is not None
    while not outages.away:
        worker.run(1)
    bank.away = []
    while outages.active:
        worker.run(1)
    calls = len(bank.calls)
    bank.away = for_ever
    while not outages.away:
        worker.run(1)

    assert len(bank.calls) - calls >= 10


def test_a_share_of_failures_as_the_trigger() -> None:
    """Below it a failure is the record's own."""
    section = DependencySection.model_validate({"threshold": "50% of 10"})
    kafka = simulated_kafka([60], bank=Bank([(0, 60_000)], section))

    _run(kafka)

    retried = [copy for copy in kafka.written if copy.topic != "totals"]
    assert len(retried) == 9  # the tenth call opens the outage


def test_only_a_key_waits() -> None:
    """The records of other keys are handled meanwhile, and each key keeps its order."""
    bank = Bank([(0, 60_000)], refuses_keys=frozenset({b"1"}))
    kafka = simulated_kafka([40], bank=bank, ordering=Ordering.KEY, slots=4)

    _run(kafka)

    assert _copies(kafka) == _expected(kafka)
    assert all(attempts == [1] for attempts in kafka.attempts().values())
    of_key = [(offset, at_ms) for _, offset, _, at_ms in kafka.handled if offset % 5 == 1]
    assert [offset for offset, _ in of_key] == sorted(offset for offset, _ in of_key)
    others = [at_ms for _, offset, _, at_ms in kafka.handled if offset % 5 != 1]
    assert max(others) < of_key[0][1]


@pytest.mark.parametrize("mode", [AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL])
def test_a_record_is_handed_out_again_where_its_handler_acknowledges(mode: AcknowledgementMode) -> None:
    """As after a close: it costs no attempt."""
    kafka = simulated_kafka([30], bank=Bank([(0, 60_000)]), mode=mode, ordering=Ordering.UNORDERED, persist=False)

    _run(kafka)

    first = {offset: attempt for _, offset, attempt, _ in reversed(kafka.handled)}
    assert set(first.values()) == {1}


def test_a_worker_that_joins_begins_with_one_record() -> None:
    """It neither sends its whole load nor waits for a pause of others."""
    bank = Bank([(0, 60_000)])
    kafka = simulated_kafka([200], bank=bank, ordering=Ordering.UNORDERED, slots=8)
    first = SimulatedWorker(kafka)
    first.run(200)
    calls = len(bank.calls)
    second = SimulatedWorker(kafka)

    for _ in range(20):
        second.run(1)
        assert len(second.in_flight) <= 1

    assert len(bank.calls) - calls == 1


@pytest.mark.parametrize("met", [False, True])
def test_a_worker_without_a_record_to_try_learns_that_it_is_over(*, met: bool) -> None:
    """It has joined meanwhile, or has lost the partition whose record met the outage, and nothing arrives for it."""
    kafka = simulated_kafka([40, 1, 0], bank=Bank([(0, 30_000)]))
    busy, lost, empty = (Partition("orders", number) for number in range(3))
    first = SimulatedWorker(kafka, [busy])
    first.run(50)
    second = SimulatedWorker(kafka, [lost, empty] if met else [empty])
    second.run(50)
    if met:
        second.revoke([lost])
        first.assign([lost])
    outages = second.worker.outages
    assert outages is not None
    assert outages.states == {"bank": True}

    for _ in range(1500):
        first.run(1)
        second.run(1)

    assert outages.states == {"bank": False}
    assert not met or kafka.commits[lost].offset == 1


def test_an_operator_opens_and_closes_it() -> None:
    """Nothing is called meanwhile, whatever workers write, and one that joins waits, too."""
    bank = Bank([(0, _HOUR_MS)])
    kafka = simulated_kafka([200], bank=bank, ordering=Ordering.UNORDERED, slots=8, persist=False)
    worker = SimulatedWorker(kafka)
    worker.run(50)
    assert bank.control.outages["bank"].state is OutageState.OPEN
    bank.control.decide(away=True)
    worker.run(10)
    calls = len(bank.calls)

    worker.run(1000)
    SimulatedWorker(kafka).run(1000)
    assert kafka.now_ms - NOW > 120_000
    assert len(bank.calls) == calls

    bank.away = []
    bank.control.decide(away=False)
    _run(kafka)
    assert all(attempts == [1] for attempts in kafka.attempts().values())


def test_what_an_operator_has_opened_ends_in_time() -> None:
    """Then one record is tried."""
    bank = Bank([(0, 40_000)])
    bank.control.decide(away=True, until_ms=NOW + 30_000)
    kafka = simulated_kafka([200], bank=bank, ordering=Ordering.UNORDERED, slots=8)

    _run(kafka)

    assert 30_000 <= bank.calls[0][0] < 31_000
    away = [at_ms for at_ms, answered in bank.calls if not answered]
    assert len(away) == len(set(away)) <= 3


def test_delays_of_an_outage_are_told_apart() -> None:
    """Those of redeliveries that were due before it was over, its ramp included."""
    bank = Bank([(0, 60_000)])
    kafka = simulated_kafka([20], bank=bank, ordering=Ordering.UNORDERED, slots=4)
    worker = SimulatedWorker(kafka)
    outages = worker.worker.outages
    assert outages is not None
    assert outages.delayed_ms(["bank"]) is None
    worker.run(20)
    assert outages.states == {"bank": True}
    assert outages.delayed_ms(["bank"]) == 0
    assert _reported(worker) == ({"bank": True}, {"orders": 1})
    worker.run(200_000)
    kafka.now_ms += 60_000
    outages.turn()
    assert outages.states == {"bank": False}
    assert _reported(worker) == ({"bank": False}, {"orders": 0})
    kafka.now_ms += 1500
    assert outages.delayed_ms(["bank"]) == 1500
    assert outages.delayed_ms([]) is None


def test_calls_that_hang_in_all_slots_halt_only_a_worker_that_needs_one() -> None:
    """Not while it waits for the next try anyway: its other sources go on, and a call may still return."""
    kafka = _with_mails(simulated_kafka([30], bank=Bank([]), ordering=Ordering.KEY, slots=2, persist=False), 30)
    worker = SimulatedWorker(kafka)
    orders = worker.worker.dispatchers["orders"]
    orders.deadline, orders.dependencies = timedelta(seconds=5), Dependencies({"bank": 5000}, of_deadline="bank")
    worker.slots[0].hangs = True
    worker.run(1)
    for item in orders.in_flight:
        item.started_s = monotonic_s() - 60

    while kafka.now_ms < NOW + 4_000:
        worker.run(1)
    assert orders.exhausted
    assert kafka.commits[_MAILS].offset == 30
    with pytest.raises(HaltedError, match="no slot is free for orders"):
        worker.run(2_000)
    assert NOW + 4_000 <= kafka.now_ms < NOW + 7_000


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), deaths=st.integers(0, 3))
def test_killed_at_any_turn(seed: int, deaths: int) -> None:
    """A worker dies in any state of an outage: nothing is lost, and outputs are written once."""
    bank = Bank([(0, 20_000), (30_000, 50_000)])
    kafka = simulated_kafka([40, 40], seed, bank=bank, ordering=Ordering.KEY, slots=4, persist=False)
    for _ in range(deaths):
        worker = SimulatedWorker(kafka)
        worker.run(kafka.random.randint(1, 300))

    _run(kafka)

    assert _copies(kafka) == _expected(kafka)
    counts = [dict(copy.headers or ()).get(DELIVERY_COUNT) for copy in kafka.written]
    assert set(counts) <= {None}


_MAILS = Partition("mails", 0)


def _with_mails(kafka: SimulatedKafka, number: int, slots: int = 1) -> SimulatedKafka:
    """Add a source with a handler of its own."""
    kafka.records[_MAILS] = [record(i, key=b"%d" % (i % 5), topic="mails") for i in range(number)]
    kafka.others = {"mails": Shape(persist=False, slots=slots)}
    return kafka


@pytest.mark.parametrize("persist", [True, False])
def test_a_batch_that_waits_costs_no_time_of_the_processor(*, persist: bool) -> None:
    """Its wait to be filled is over, but it cannot start: the polling thread waits for records meanwhile."""
    bank = Bank([])
    batch = BatchSection(records=40, wait=timedelta(milliseconds=200))
    kafka = simulated_kafka([30], bank=bank, ordering=Ordering.KEY, batch=batch, persist=persist)
    bank.control.decide(away=True, until_ms=NOW + 60_000)

    SimulatedWorker(kafka).run(2000)

    assert kafka.done


def test_a_suspect_waits_without_others_and_costs_no_attempt() -> None:
    """While it cannot be handed out, it is not isolated: a worker that dies then was not killed by it."""
    kafka = simulated_kafka([30], bank=Bank([]), killers=frozenset({3}))
    _with_mails(kafka, 30)
    with pytest.raises(WorkerDiedError):
        SimulatedWorker(kafka).run(1000)
    kafka.killers = frozenset()
    kafka.bank = Bank([(0, 10**9)])

    for _ in range(4):
        SimulatedWorker(kafka).run(600)
    assert kafka.commits[_MAILS].offset == 30

    kafka.bank.away = []
    _run(kafka)
    assert all(set(attempts) == {1} for attempts in kafka.attempts().values())


def test_no_handler_keeps_another_from_trying() -> None:
    """Only ``mails`` calls what is away, and both declare it. Successes of ``orders`` prove nothing."""
    bank = Bank([(0, 10_000)], sources=("orders", "mails"), callers=("mails",))
    kafka = _with_mails(simulated_kafka([4000], bank=bank, persist=False), 30)

    SimulatedWorker(kafka).run(3000)

    assert any(answered for _, answered in bank.calls)


def test_a_paused_partition_keeps_no_other_from_full_speed() -> None:
    """Its record that met the outage cannot be tried, so any other one counts. Nothing is left of the outage."""
    bank, pauses = Bank([(0, 10_000)], sources=("orders", "mails")), NoPauses()
    kafka = _with_mails(simulated_kafka([30], bank=bank, persist=False, pauses=pauses), 400, slots=4)
    worker = SimulatedWorker(kafka)
    outages = worker.worker.outages
    assert outages is not None
    worker.run(20)
    assert outages.away

    pauses.current = PausedTopics(topics=frozenset({"orders"}))
    worker.run(3000)
    assert kafka.now_ms > NOW + 15_000
    assert not outages.active

    pauses.current = PausedTopics()
    worker.run(5000)
    assert kafka.done
    assert not outages._met


@pytest.mark.parametrize(
    ("ordering", "batch", "blocking"),
    [
        (Ordering.KEY, None, False),
        (Ordering.KEY, None, True),
        (Ordering.UNORDERED, BatchSection(records=40, wait=timedelta(0)), False),
    ],
)
def test_no_more_records_wait_by_their_keys_than_a_commit_names(
    ordering: Ordering, batch: BatchSection | None, *, blocking: bool
) -> None:
    """Also if many more are in slots, or in a batch, when the first of them finds its dependency away."""
    bank = Bank([(0, 10_000)], refuses_keys=frozenset(b"%d" % n for n in range(150)))
    kafka = simulated_kafka(
        [150], keys=150, bank=bank, ordering=ordering, slots=64, batch=batch, blocking=blocking, persist=False
    )
    worker, most = SimulatedWorker(kafka), 0
    for _ in range(20_000):
        if kafka.done:
            break
        worker.run(1)
        most = max([most, *(len(each.progress.waiting) for each in worker.worker.assignment.all())])

    assert most <= 50
    assert _copies(kafka) == _expected(kafka)
    assert all(attempts == [1] for attempts in kafka.attempts().values())
