"""On a broker that denies what no ACL allows, the ACLs that `redelivery topology acls` prints are enough."""

import json
from typing import Any

import pytest

from kafka_redelivery.transport.admin.trimming import trim
from tests.scenarios import commands
from tests.scenarios.each_right import NOT_IN_AUDIT_TRAIL
from tests.scenarios.letters import expiring, kept, letter, now_ms
from tests.scenarios.running import Process, exactly
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

_PARTITIONS = 2
_RETRIES = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
_DENIED = ("authoriz", "authoris", "denied", "forbidden", "grant the right")


def _denials(process: Process) -> list[str]:
    return [line for line in process.log.splitlines() if any(word in line.lower() for word in _DENIED)]


def _no_denials(*processes: Process) -> None:
    for process in processes:
        assert not _denials(process)


_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "transacted": {"journal": True},
    "auto": {"mode": "auto"},
    "mixed": {
        "policyEntry": {"redeliveryPolicy": _RETRIES | {"useCollisionAvoidance": True, "collisionAvoidancePercent": 50}}
    },
}


@pytest.mark.kafka
@pytest.mark.parametrize(
    "sections",
    [
        pytest.param(sections, id=name, marks=[pytest.mark.long] if name == "auto" else [])
        for name, sections in _CONFIGURATIONS.items()
    ],
)
def test_every_record_arrives(users: Users, sections: dict[str, Any]) -> None:
    """Successes, retries and dead letters, also those sent again, arrive; nothing is denied, and all is trimmed."""
    group = users.group
    users.configure(**{"policyEntry": {"redeliveryPolicy": _RETRIES}, "topics": {"auditHorizon": "1s"}} | sections)
    assert users.topology("apply").code != 0
    users.apply()
    users.grant("worker", "scheduler")
    scheduler, worker = users.start("scheduler"), users.start("worker")
    group.send([["ok"], ["raise", "ok"], ["raise", "raise"], ["reject"]] * 10)
    group.settle()
    assert group.outputs() == exactly(n for n in range(40) if n % 4 < 2)
    assert group.dead() == exactly(n for n in range(40) if n % 4 >= 2)
    checked = users.topology("check")
    assert checked.code == 0, checked.out + checked.err
    users.grant("redrive")
    redriven = users.dlq("redrive", "--yes")
    assert redriven.code == 0, redriven
    until(lambda: json.loads(users.dlq("jobs", "--json").out)["jobs"][0]["deadAgain"] == 20, "all have died again")
    group.stop()
    _no_denials(scheduler, worker)
    trimmed = trim(users.settings("scheduler"), now_ms() + 60_000)
    kinds = {topic.removeprefix(f"{group.name}.").partition(".")[0] for topic, _ in trimmed}
    assert kinds == {"retry", "ready", *(["journal"] if sections.get("journal") else [])}


@pytest.mark.kafka
def test_dead_letters_are_counted_and_expire(users: Users) -> None:
    """A scheduler with a metrics port counts dead letters, and moves expired ones to their expiry topic."""
    group = users.group
    port = free_port()
    policy = expiring(3_600_000, expiryAddress="EXP.{topic}")
    users.configure(policyEntry=policy, metrics={"port": port, "host": "127.0.0.1"})
    users.apply()
    users.grant("scheduler")
    scheduler = users.start("scheduler")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    group.cluster.produce(group.dead_letters, [letter(group, n, now_ms() + 3_600_000) for n in range(5, 8)])
    until(lambda: kept(group) == [5, 6, 7], "expired dead letters are removed")
    group.cluster.wait_for_markers(f"EXP.{group.source}")
    assert kept(group, f"EXP.{group.source}") == list(range(5))
    until(lambda: value_of(port, "redelivery_dead_letter_depth") == 8, "all in both topics are counted")
    group.stop()
    _no_denials(scheduler)


@pytest.mark.kafka
def test_an_operator_looks_at_a_group_and_pauses_it(users: Users) -> None:
    """`status`, `find`, `pause` and `resume` need no more than the rights of their role, and without them name one."""
    group = users.group
    user = f"--set=kafka.sasl.username={users.name('operator')}"
    users.configure(policyEntry={"redeliveryPolicy": _RETRIES}, journal=True)
    users.apply()
    denied = commands.in_process("status", user, file=group.file)
    assert denied.code == 1
    assert f"there is no topic {group.source}, or it may not be described" in denied.out.replace("\n", " ")
    assert "no Kafka broker answers" not in denied.err
    users.grant("worker", "scheduler", "operator")
    scheduler, worker = users.start("scheduler"), users.start("worker")
    group.send([["ok"], ["reject"]])
    group.settle()
    status = ("status", user)
    until(lambda: commands.in_process(*status, file=group.file).code == 0, "both processes are there")
    for command in (["status"], ["find", "k1"], ["pause", "--source", group.source], ["resume", "--all"]):
        done = commands.in_process(*command, user, file=group.file)
        assert done.code == 0, (command, done)
        said = (done.out + done.err).partition(NOT_IN_AUDIT_TRAIL)[0]  # that needs the role redrive, too
        assert not [word for word in _DENIED if word in said.lower()], (command, done)
    group.stop()
    _no_denials(scheduler, worker)


@pytest.mark.kafka
def test_a_policy_changes(users: Users) -> None:
    """With the same ACLs a new tier is created, and the former one is still emptied."""
    group = users.group
    users.configure(policyEntry={"redeliveryPolicy": _RETRIES | {"initialRedeliveryDelay": 5000}})
    users.apply()
    users.grant("worker", "scheduler")
    worker = users.start("worker")
    group.send([["raise", "ok"]] * 10)
    until(lambda: len(group.cluster.read(group.tier("5s"))) == 10, "the records wait")
    worker.stop()

    group.configure(policyEntry={"redeliveryPolicy": _RETRIES})
    applied = users.topology("apply")
    assert applied.code == 0, applied.err
    worker, scheduler = users.start("worker"), users.start("scheduler")
    group.send([["raise", "ok"]] * 10, first=10)
    group.settle()
    assert group.outputs() == exactly(range(20))
    group.stop()
    _no_denials(worker, scheduler)
