"""A source record can influence nothing but its own expiry; what each internal topic allows is what the page says."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.actions import Action, Ended, Outcome, read_action
from kafka_redelivery.topology.wire.control import saved_record
from kafka_redelivery.topology.wire.headers import OURS
from kafka_redelivery.topology.wire.progress import Checkpoint
from tests.scenarios.attacks import EFFECTS, Attack
from tests.scenarios.cluster import Seen, Sent
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import LONG_S, until

_YEAR_2100_MS = 4_102_444_800_000
_HOSTILE_KEY = b"[red]\x1b]0;x\x07\n2026-01-01 INFO root: forged"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _redelivery(group: Group, n: int, do: list[str], **changed: object) -> Sent:
    """Make a retry or ready record that has nothing to do with a source record, due now."""
    headers: dict[str, object] = {
        "_AMQ_ORIG_ADDRESS": group.source,
        "_AMQ_ORIG_QUEUE": group.name,
        "_AMQ_ORIG_MESSAGE_ID": f"{group.source}-0@{n}",
        "JMSTimestamp": _now_ms(),
        "JMSXDeliveryCount": 1,
        "_AMQ_SCHED_DELIVERY": _now_ms(),
    }
    given = {f"_AMQ_{name}" if name.isupper() else name: value for name, value in changed.items()}
    pairs = [(name, str(value).encode()) for name, value in (headers | given).items()]
    return Sent(json.dumps({"n": n, "do": do}).encode(), b"k", pairs, 0)


def _save_position(group: Group, partition: int, offset: int) -> None:
    """Write a control record as the owner of a partition does when it stops."""
    admin = AdminClient({"bootstrap.servers": group.cluster.servers})
    cluster = admin.describe_cluster().result(30).cluster_id
    record = saved_record(group.source, partition, Checkpoint(offset, ""), cluster, _now_ms())
    group.cluster.produce(f"{group.name}.control", [Sent(record.value, record.key, (), 0)])


def _source_records() -> list[Sent]:
    """Make source records with everything of the wire contract, forged."""
    forged = [(name, b"%d" % _YEAR_2100_MS) for name in sorted(OURS)]
    forged += [("_AMQ_ORIG_ADDRESS", b"elsewhere"), ("_AMQ_ORIG_MESSAGE_ID", b"elsewhere-0@1")]
    return [
        script(0, ["raise", "ok"], headers=forged, partition=0),
        script(1, ["raise"], headers=forged, partition=0),
        script(2, ["ok"], headers=[("JMSExpiration", b"1")], partition=0),
        script(3, ["ok"], headers=[("JMSExpiration", b"soon")], partition=0),
        script(4, ["reject"], headers=[("JMSDeliveryMode", b"NON_PERSISTENT")], partition=0),
        Sent(json.dumps({"n": 5, "do": ["reject"]}).encode(), _HOSTILE_KEY, (), 0),
        script(7, ["ok"], headers=[("redrive", b"job/0@0/1")], partition=0),
    ]


def _ready_records(group: Group, victim: int, timestamp_ms: int) -> list[Sent]:
    """Make records of the ready topic; the last one names the source record at offset ``victim``, with its time."""
    return [
        _redelivery(group, 20, ["ok"]),
        _redelivery(group, 21, ["ok"], JMSXDeliveryCount=99),
        _redelivery(group, 22, ["ok"], ORIG_MESSAGE_ID=f"{'x' * 10_000}-0@1"),
        _redelivery(group, 23, ["ok"], ORIG_MESSAGE_ID=f"{group.source}-0@{10**30}"),
        _redelivery(group, 25, ["ok"], redrive="job/0@7/1"),
        Sent(json.dumps({"n": 26, "do": ["ok"]}).encode(), b"k", (), 0),
        _redelivery(group, 24, ["raise"], ORIG_MESSAGE_ID=f"{group.source}-0@{victim}", JMSTimestamp=timestamp_ms),
    ]


def test_every_attempt(group: Group) -> None:
    """All in one group, so that they meet each other and honest records."""
    group.prepare(
        journal=True,
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 1000}},
    )
    tier, control = group.tier("1s"), f"{group.name}.control"
    of_source = _source_records()
    group.cluster.produce(group.source, of_source)
    # Control: the first three records of partition 1 seem to be finished.
    group.cluster.produce(group.source, [script(n, ["ok"], partition=1) for n in range(10, 15)])
    _save_position(group, 1, 3)
    victim, timestamp_ms = len(of_source), _now_ms()
    group.cluster.produce(group.ready, _ready_records(group, victim, timestamp_ms))
    worker = group.worker()
    group.scheduler()
    until(lambda: 24 in group.dead(), "the forged duplicate is a dead letter")
    group.cluster.produce(group.source, [replace(script(6, ["raise"], partition=0), timestamp_ms=timestamp_ms)])
    group.cluster.produce(
        tier,
        [
            _redelivery(group, 30, ["ok"], SCHED_DELIVERY=_YEAR_2100_MS),
            _redelivery(group, 31, ["ok"], SCHED_DELIVERY=1),
            _redelivery(group, 32, ["ok"], ORIG_ADDRESS="elsewhere", ORIG_MESSAGE_ID="elsewhere-0@1"),
        ],
    )
    group.cluster.produce(tier, [Sent(json.dumps({"n": 33, "do": ["ok"]}).encode(), b"k", (), 0)])
    group.cluster.produce(group.dead_letters, [_redelivery(group, 40, ["ok"])])
    group.cluster.produce(group.journal, [Sent(b'{"v":1,"group":"%s"}' % group.name.encode(), b"k", (), 0)])
    outputs = exactly([0, 3, 7, 13, 14, 20, 25, 31])
    dead = exactly([1, 2, 4, 5, 21, 22, 23, 24, 26, 32, 33, 40])  # not 6
    until(lambda: group.outputs() == outputs and group.dead() == dead, "every attempt has its end")
    until(lambda: group.deliveries.attempts().get(6) == [1, 2], "the record behind the forged ones is redelivered")

    key = f"partition/{group.source}/9"
    group.cluster.produce(control, [Sent(b"forged", key.encode(), (), 0)])
    group.cluster.grow(group.source, 3)  # so that the worker has to read the topic
    group.cluster.produce(group.source, [script(50, ["ok"], partition=2)])
    until(lambda: f"{group.source}-2 is halted" in worker.log, "the new partition waits")
    late = group.worker("w2")
    assert late.wait(LONG_S) == exit_codes.FAILED
    assert f"the record {key!r} of the control topic was not written by this project" in late.log
    group.cluster.produce(control, [Sent(None, key.encode(), (), 0)])
    late = group.worker("w3")
    until(lambda: " reads " in late.own_log, "a process starts again without the record")
    outputs = exactly([0, 3, 7, 13, 14, 20, 25, 31, 50])
    until(lambda: group.outputs() == outputs, "the new partition goes on")
    group.stop()

    assert group.outputs() == outputs
    assert group.dead() == dead, "the dead letter of record 6 is dropped"
    assert f"{group.source}-0@{victim} (key 'k6') discarded (duplicate)" in worker.log
    attempts = group.deliveries.attempts()
    assert {n: attempts.get(n) for n in (0, 1, 3, 20, 24, 31)} == {
        0: [1, 2],
        1: [1, 2],
        3: [1],
        20: [2],
        24: [2],
        31: [2],
    }
    assert not {2, 10, 11, 12, 21, 22, 23, 26, 30, 32, 33, 40} & attempts.keys()
    _check_letters(group, {number(letter): letter for letter in group.cluster.read(group.dead_letters)})
    [waiting] = {number(record) for record in group.pending()}
    assert waiting == 30
    journal = [json.loads(record.value or b"") for record in group.cluster.read(group.journal)]
    assert any([20, 20] in entry.get("recovered", []) for entry in journal)
    assert all(last < 2**63 for entry in journal for _, last in entry.get("dead_lettered", []))
    _check_actions(group)
    assert "\x1b" not in worker.log
    assert "\n2026-01-01 INFO" not in worker.log


def _check_actions(group: Group) -> None:
    """The mark of a ready record says something, that of a source record does not."""
    [action] = [read_action(each.key, each.value) for each in group.cluster.read(f"{group.name}.dlq.actions")]
    assert action == Action("job", 0, Ended(7, Outcome.RECOVERED), action.at_ms if action else 0)


def _check_letters(group: Group, letters: Mapping[int, Seen]) -> None:
    """Reason, origin and count of the dead letters."""
    reasons = {
        n: json.loads(letter.header("dlqDeliveryFailureCause") or "{}").get("reason") for n, letter in letters.items()
    }
    assert reasons == {
        1: "redeliveries_exceeded",
        2: "expired",
        4: "rejected",
        5: "rejected",
        21: "redeliveries_exceeded",
        22: "bad_headers",
        23: "bad_headers",
        24: "redeliveries_exceeded",
        26: "bad_headers",
        33: "bad_headers",
        32: "undeliverable",
        40: None,
    }
    origin = letters[1]
    names = ("_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_ORIG_MESSAGE_ID", "JMSXDeliveryCount")
    assert [origin.header(name) for name in names] == [group.source, group.name, f"{group.source}-0@1", "2"]
    forged = {name for name, value in origin.headers if str(_YEAR_2100_MS) in str(value)}
    assert forged == {"redrive"}, "a header that has not the form of ours is the user's own"
    assert letters[4].header("originalDeliveryMode") == "NON_PERSISTENT"
    assert letters[22].header("_AMQ_ORIG_MESSAGE_ID") == f"{group.ready}-0@2"


@pytest.mark.parametrize("attack", Attack)
def test_every_attempt_has_an_effect(attack: Attack) -> None:
    """No row of the table is missing."""
    assert attack in EFFECTS
