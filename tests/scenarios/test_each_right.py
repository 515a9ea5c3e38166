"""A process that lacks a right of its role names it, and nothing is lost, doubled or wrongly dead-lettered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.each_right import example, names, right_of
from tests.scenarios.running import Group, Process, Role, exactly
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 200}}
_SCRIPTS = [["ok"], ["raise", "raise", "ok"], ["reject"]]
_QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 1000}
_SECTIONS: dict[str, dict[str, Any]] = {"transacted": {"journal": True}, "auto": {"mode": "auto"}}


def _group(secured: AuthenticatedKafka, name: str, folder: Path, mode: str) -> Users:
    folder.mkdir()
    users = Users(secured, Group(secured.cluster, name, folder))
    users.configure(policyEntry=_POLICY, kafka=_QUICK, topics={"auditHorizon": "1s"}, **_SECTIONS[mode])
    return users


@pytest.fixture(params=["transacted"])
def running(
    secured: AuthenticatedKafka, unique: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Users]:
    """A group with all its topics and rights, of which no process runs."""
    users = _group(secured, unique, tmp_path / "group", request.param)
    users.apply()
    users.grant("worker", "scheduler")
    try:
        yield users
    finally:
        users.group.close()


def _start_without(users: Users, role: Role, *acls: Acl) -> tuple[int | None, str]:
    """Return the exit code of a process that starts without some rights, ``None`` if it goes on, and its log."""
    for acl in acls:
        users.secured.revoke(acl)
    process = users.start(role)
    until(lambda: " reads " in process.own_log or not process.running, "the process starts or ends")
    code = None
    if process.running:
        process.stop()
    else:
        code = process.wait(10)
    users.secured.grant(acls)
    return code, process.own_log


def _acl(users: Users, role: Role, right: str) -> Acl:
    """Return the ACL of a right, which is written with the names of the documentation."""
    found = {example(users.group, str(right_of(acl))): acl for acl in users.acls(role)}
    return found[right]


def _finish(group: Group, sent: int, mode: str) -> None:
    """Wait until everything is done, and compare the results with what was sent."""
    group.settle()
    rejected = set(range(2, sent, 3))
    outputs, dead = group.outputs(), group.dead()
    assert set(outputs) == set(range(sent)) - rejected
    assert set(dead) == rejected
    if mode == "transacted":
        assert outputs == exactly(set(range(sent)) - rejected)
        assert dead == exactly(rejected)


def _revoke_and_grant(users: Users, process: Process, acl: Acl, sent: int, mode: str) -> bool:
    """Revoke a right of a running group, send records, and grant it; return whether a process named it.

    Args:
        users: the group.
        process: the one that has the right.
        acl: the right.
        sent: how many records were sent before.
        mode: the acknowledgement mode.
    """
    group, right = users.group, right_of(acl)
    begins = len(process.own_log)
    users.secured.revoke(acl)
    group.send(_SCRIPTS * 4, first=sent)
    until(lambda: names(right, process.own_log[begins:]) or group.settled(), f"{right} is named, or nothing needs it")
    assert process.running, process.own_log[-3000:]
    users.secured.grant([acl])
    _finish(group, sent + 12, mode)
    assert process.running, process.own_log[-3000:]
    return names(right, process.own_log[begins:])


@pytest.mark.kafka
def test_missing_rights_are_reported_together(running: Users) -> None:
    """One start without several rights names all of them; with them the worker runs."""
    wanted = ["Read on topic orders", "DescribeConfigs on topic receipts", "Write on topics billing.retry.*"]
    code, log = _start_without(running, "worker", *(_acl(running, "worker", right) for right in wanted))
    assert code == exit_codes.FAILED
    assert "grant with the commands of `redelivery topology acls --role worker`" in log
    assert [right for right in wanted if f"  {right}\n" in example(running.group, log)] == wanted
    assert "Traceback" not in log
    assert "does not exist" not in log


@pytest.mark.kafka
@pytest.mark.parametrize(
    "right", ["Read on group billing", "Write on transactional ids billing.worker.*"], ids=["group", "transactional id"]
)
def test_a_right_on_a_group_or_transactional_id(running: Users, right: str) -> None:
    """A start without it names it, and no absent broker."""
    acl = _acl(running, "worker", right)
    code, log = _start_without(running, "worker", acl)
    assert code == exit_codes.FAILED
    assert names(right_of(acl), log)
    assert "no Kafka broker answers" not in log


@pytest.mark.kafka
@pytest.mark.parametrize("running", ["transacted", pytest.param("auto", marks=pytest.mark.long)], indirect=True)
def test_a_right_is_revoked_while_the_group_runs(running: Users, request: pytest.FixtureRequest) -> None:
    """The worker does not end. It names the right, and goes on by itself when it has it again."""
    mode = request.node.callspec.params["running"]
    running.start("scheduler")
    worker = running.start("worker")
    running.group.send(_SCRIPTS * 4)
    _finish(running.group, 12, mode)
    for sent, right in enumerate(("Read on topic orders", "Read on topic billing.ready.orders"), start=1):
        assert _revoke_and_grant(running, worker, _acl(running, "worker", right), 12 * sent, mode)
    running.group.stop()
