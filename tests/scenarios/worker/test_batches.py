"""A batch handler: each record has its own outcome, whatever becomes of the call that it was part of."""

import json

import pytest

from tests.scenarios.cluster import Sent
from tests.scenarios.handlers import BATCHES
from tests.scenarios.running import Group, Process, exactly, number, script
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}}
_RAISES, _REJECTED, _TWICE, _NAMELESS, _NAMELESS_TWICE, _SLOW, _KILLS = 3, 9, 14, 21, 27, 33, 40


def _batches(group: Group) -> list[list[int]]:
    """The numbers of the records in each batch so far."""
    file = group.folder / BATCHES
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _prepare(group: Group, **handler: object) -> None:
    handler = {"callable": "tests.scenarios.handlers:scripted_batch"} | handler
    group.prepare(partitions=2, handler=handler, policyEntry=_POLICY, journal=True)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_each_record_of_a_batch_has_its_own_outcome(group: Group, isolation: str) -> None:
    """Attempts, delays and outputs, also of records in a batch that raised, missed the deadline or killed its process.

    Such a call counts for none of its records but the one that does the same as a batch of one.
    """
    _prepare(group, slots=3, isolation=isolation, deadline="1s", batch={"records": 30, "wait": "300ms"})
    scripts: dict[int, list[str]] = {
        _RAISES: ["raise"],
        _REJECTED: ["reject"],
        _TWICE: ["raise", "ok"],
        _NAMELESS: ["nameless", "ok"],
        _NAMELESS_TWICE: ["nameless", "nameless", "reject"],
        _SLOW: ["sleep 2", "ok"],
    }
    if isolation == "process":
        scripts[_KILLS] = ["kill", "ok"]
    group.send([scripts.get(n, ["ok"]) for n in range(100)])
    group.cluster.produce(group.source, [Sent(b"{")])
    group.worker()
    group.scheduler()
    group.settle()
    group.stop()

    dead = {_RAISES, _REJECTED, _NAMELESS_TWICE}
    assert group.outputs() == exactly(set(range(100)) - dead)
    letters = group.cluster.read(group.dead_letters)
    assert sorted(number(each) for each in letters if each.value != b"{") == sorted(dead)
    assert len(letters) == len(dead) + 1
    attempts = group.deliveries.attempts()
    failed = scripts.keys() - {_REJECTED, _NAMELESS_TWICE}
    for n in set(range(100)) - {_NAMELESS, _NAMELESS_TWICE}:
        expected = {1, 2, 3} if n == _RAISES else {1, 2} if n in failed else {1}
        assert set(attempts[n]) == expected, n
    assert (set(attempts[_NAMELESS]), attempts[_NAMELESS_TWICE]) == ({2}, [3])
    assert 5 < max(map(len, _batches(group))) <= 30


def test_a_worker_that_stops_or_loses_partitions_while_batches_wait(group: Group) -> None:
    """Records that wait in a batch that is not full are not handled there, and once by the next owner."""
    _prepare(group, batch={"records": 500, "wait": "60s"})
    one = group.worker(None)
    until(lambda: group.cluster.members(group.name), "the worker has joined")
    group.send([["ok"]] * 40)
    another = group.worker(None)
    until(lambda: _shared(group), "each has a partition")
    assert _batches(group) == []
    _stop(one, another)
    assert _batches(group) == []
    group.configure(handler={"callable": "tests.scenarios.handlers:scripted_batch", "batch": {"records": 10}})
    group.worker(None)
    group.settle()
    group.stop()
    assert group.deliveries.counts() == exactly(range(40))
    assert group.outputs() == exactly(range(40))
    assert max(map(len, _batches(group))) == 10


def _shared(group: Group) -> bool:
    members = group.cluster.members(group.name)
    return len(members) == 2 and all(members.values())


def _stop(*processes: Process) -> None:
    for process in processes:
        process.begin_to_stop()
    for process in processes:
        process.finish_stopping()


def _killed(group: Group, worker: Process) -> bool:
    until(lambda: group.settled() or not worker.running, "the worker is killed, or all is done")
    return not worker.running


def test_a_failed_record_blocks_its_key_and_a_suspect_comes_alone(group: Group) -> None:
    """No batch has two records of a key. After a crash each record of the batch is a batch of its own, uncounted."""
    _prepare(
        group,
        ordering="key",
        nonBlockingRedelivery=False,
        persistDeliveryCountBeforeDelivery=True,
        batch={"records": 8, "wait": "200ms"},
    )
    scripts = {5: ["raise", "ok"], 12: ["kill"]}
    group.cluster.produce(group.source, [script(n, scripts.get(n, ["ok"]), keys=10, partition=0) for n in range(60)])
    deaths = 0
    while _killed(group, group.worker()):
        deaths += 1
    group.settle()
    group.stop()

    assert deaths == 1 + 3, "once in a batch, and once for each attempt"
    assert group.outputs() == exactly(set(range(60)) - {12})
    assert group.dead() == exactly({12})
    batches = _batches(group)
    assert all(len({n % 10 for n in batch}) == len(batch) for batch in batches)
    fatal = [batch for batch in batches if 12 in batch]
    assert [len(batch) for batch in fatal[1:]] == [1, 1, 1]
    assert len(fatal[0]) > 1
    attempts = group.deliveries.attempts()
    assert attempts[12] == [1, 1, 2, 3]
    assert set(attempts[5]) == {1, 2}
    assert all(set(each) == {1} for n, each in attempts.items() if n not in {5, 12})
    of_key = [call.n for call in group.deliveries.began() if call.n % 10 == 5]
    assert of_key == sorted(of_key)
