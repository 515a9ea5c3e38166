"""A query pauses as a whole, between two micro-batches, and a shutdown or a restart of its queries ends the wait."""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches, QueryEndedError
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.wire.pauses import PausedTopics
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.waiting import until
from tests.unit.consumers.worker.test_pausing import Switch

BILLS = PausedTopics(topics=frozenset({"bills"}), end=3)


class Observer:
    """Keeps what is reported as paused."""

    def paused(self, partitions: Mapping[str, int], applied: int) -> None:
        self.last = dict(partitions), applied

    def outages(self, away: Mapping[str, bool], partitions: Mapping[str, int]) -> None:
        self.away = dict(away), dict(partitions)


class Bank:
    """The only dependency."""

    def __init__(self) -> None:
        self.away: list[str] = []

    @property
    def states(self) -> dict[str, bool]:
        return {"bank": bool(self.away)}


class Query(MicroBatches):
    """Micro-batches that only count themselves."""

    def __init__(self, switch: Switch) -> None:
        self.shutdown = Shutdown(timedelta(seconds=3.5))
        self.bank = Bank()
        outages: Any = self.bank
        self.gate = PauseGate(switch, ["orders", "bills"], self.shutdown, outages)
        unused: Any = None
        super().__init__(unused, unused, {}, unused, self.shutdown, self.gate, unused)
        self.ran: list[int] = []

        self.results = [True]
        """Whether all records of the next runs have their outcomes; the last one stays."""

    def _run(self, frame: object, number: int) -> bool:
        del frame
        assert not self.shutdown.idle
        self.ran.append(number)
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


def in_thread(call: Callable[[], object]) -> threading.Thread:
    """Call it in another thread, as Spark does."""
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_no_micro_batch_begins_while_one_of_the_sources_is_paused() -> None:
    """It waits without being counted as running, and runs when the pause ends."""
    switch, observer, unused = Switch(), Observer(), None
    query = Query(switch)
    query(unused, 0)  # type: ignore[arg-type]
    switch.current = BILLS
    thread = in_thread(lambda: query(unused, 1))  # type: ignore[arg-type]
    until(lambda: query.gate.waiting, "it waits")
    query.gate.report(observer, [Partition("orders", 0), Partition("bills", 0)])  # type: ignore[arg-type]
    assert (query.ran, switch.obeyed, observer.last) == ([0], 3, ({"orders": 1, "bills": 1}, 3))
    assert query.shutdown.idle
    switch.current = PausedTopics(end=4)
    thread.join(60)
    assert query.ran == [0, 1]
    assert not query.gate.waiting


def test_no_micro_batch_begins_while_a_dependency_is_away() -> None:
    """The query waits as a whole, and reports it apart from pauses."""
    query, observer = Query(Switch()), Observer()
    query(None, 0)  # type: ignore[arg-type]
    query.bank.away = ["bank"]
    thread = in_thread(lambda: query(None, 1))  # type: ignore[arg-type]
    until(lambda: query.gate.waiting, "it waits")
    query.gate.report(observer, [Partition("orders", 0), Partition("bills", 0)])  # type: ignore[arg-type]
    assert (query.ran, observer.last, observer.away) == ([0], ({}, 0), ({"bank": True}, {"orders": 1, "bills": 1}))

    query.bank.away = []
    thread.join(10)
    query.gate.report(observer, [Partition("orders", 0)])  # type: ignore[arg-type]
    assert (query.ran, observer.away) == ([0, 1], ({"bank": False}, {"orders": 0}))


def test_a_micro_batch_runs_again_until_all_its_records_have_outcomes() -> None:
    """Between two runs it does not count as running, so that a shutdown does not wait for the end of an outage."""
    query = Query(Switch())
    query.results = [False, False, True]
    query(None, 4)  # type: ignore[arg-type]
    assert query.ran == [4, 4, 4]


def test_a_pause_counts_as_applied_when_the_micro_batch_has_ended() -> None:
    """A pause of another group's topics or of a tier stops nothing."""
    switch, observer = Switch(), Observer()
    query = Query(switch)
    switch.current = BILLS
    with query.shutdown.micro_batch():
        query.gate.report(observer, [])  # type: ignore[arg-type]
        assert switch.obeyed == 0
    query.gate.report(observer, [])  # type: ignore[arg-type]
    assert switch.obeyed == 3
    switch.current = PausedTopics(topics=frozenset({"billing.retry.2s"}), end=5)
    assert not query.gate.closed


def test_a_shutdown_ends_the_wait() -> None:
    """The micro-batch does not begin; its records stay unhandled."""
    switch, unused = Switch(), None
    query = Query(switch)
    switch.current = PausedTopics(group=True, end=1)
    raised: list[BaseException] = []

    def batch() -> None:
        with pytest.raises(QueryEndedError) as ended:
            query(unused, 0)  # type: ignore[arg-type]
        raised.append(ended.value)

    thread = in_thread(batch)
    until(lambda: query.gate.waiting, "it waits")
    query.shutdown.request()
    assert query.shutdown.wait_for_micro_batch()
    query.shutdown.finish()
    thread.join(60)
    assert (query.ran, len(raised)) == ([], 1)
