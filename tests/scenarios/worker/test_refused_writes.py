"""A record that the broker refuses for its size is dead-lettered or halts its partition; other records continue."""

import json

from tests.scenarios.cluster import Seen
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}


def _cause(letter: Seen) -> dict[str, str]:
    found: dict[str, str] = json.loads(letter.header("dlqDeliveryFailureCause") or "")
    return found


def test_an_output_that_is_too_large(group: Group) -> None:
    """It counts as a failed delivery and ends among the dead letters; the records of the same write continue."""
    group.prepare(output={"max.message.bytes": "3000"}, policyEntry=_POLICY)
    group.send(["big 6000"] if n == 30 else ["big 6000", "ok"] if n == 31 else ["ok"] for n in range(60))
    group.scheduler()
    group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly(n for n in range(60) if n != 30)
    (letter,) = group.cluster.read(group.dead_letters)
    assert number(letter) == 30
    assert letter.header("JMSXDeliveryCount") == "2"
    assert _cause(letter)["reason"] == "redeliveries_exceeded"
    assert _cause(letter)["exception"] == "WriteRefused"
    retried = group.cluster.read(group.tier("100ms"))
    assert sorted(number(record) for record in retried) == [30, 31]


def test_a_retry_that_is_too_large(group: Group) -> None:
    """A record that no longer fits its tier, because an operator lowered the limit, is dead-lettered immediately."""
    group.prepare(policyEntry=_POLICY)
    group.send([["ok"]] * 10)
    group.scheduler()
    group.worker()
    until(lambda: sum(group.outputs().values()) == 10, "the first records are handled")
    group.cluster.alter(group.tier("100ms"), max_message_bytes="2000")
    group.cluster.produce(
        group.source,
        [
            script(n, ["raise", "ok"] if n % 4 == 0 else ["ok"], padding=5000 if n % 8 == 0 else 0)
            for n in range(10, 50)
        ],
    )
    group.settle()
    group.stop()

    large = {n for n in range(10, 50) if n % 8 == 0}
    assert group.outputs() == exactly(set(range(50)) - large)
    letters = group.cluster.read(group.dead_letters)
    assert {number(letter) for letter in letters} == large
    assert len(letters) == len(large)
    assert {_cause(letter)["reason"] for letter in letters} == {"undeliverable"}


def test_dead_letters_that_are_refused_too(group: Group) -> None:
    """That partition halts without committing the record, others continue; after the fix a restart loses nothing."""
    group.prepare(policyEntry=_POLICY)
    group.send([["ok"]] * 10)
    group.scheduler()
    worker = group.worker()
    until(lambda: sum(group.outputs().values()) == 10, "the first records are handled")
    group.cluster.alter(group.dead_letters, max_message_bytes="2000")
    before = group.cluster.ends(group.source)[group.source, 0]
    group.cluster.produce(
        group.source,
        [script(n, ["ok"], partition=0) for n in range(10, 15)]
        + [script(15, ["reject"], partition=0, padding=5000)]
        + [script(n, ["ok"], partition=0) for n in range(16, 20)]
        + [script(n, ["ok"], partition=1) for n in range(20, 40)],
    )
    until(lambda: set(group.outputs()) >= {*range(10), *range(20, 40)}, "the other partition continues")
    until(lambda: "halted" in worker.log, "the partition is halted")
    group.cluster.produce(group.source, [script(40, ["ok"], partition=1)])
    until(lambda: 40 in group.outputs(), "the other partition still continues")
    offset, metadata = group.cluster.committed(group.name, group.source)[group.source, 0]
    assert offset <= before + 5
    assert metadata == ""
    assert not set(group.outputs()) & set(range(15, 20))
    worker.stop()

    group.cluster.alter(group.dead_letters, max_message_bytes="2000000")
    group.worker()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(set(range(41)) - {15})
    assert group.dead() == exactly([15])
