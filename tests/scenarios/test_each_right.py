"""A process that lacks a right of its role names it, and nothing is lost, doubled or wrongly dead-lettered."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.acls import Operation
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.admin.trimming import trim
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.each_right import PAGE, Cell, Table, example, message_of, names, page_with, right_of, rows_of_page
from tests.scenarios.letters import now_ms
from tests.scenarios.running import SHORT_SESSION, Group, Process, Role, exactly
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 200}}
_SCRIPTS = [["ok"], ["raise", "raise", "ok"], ["reject"]]
_QUICK = SHORT_SESSION | {"topic.metadata.refresh.interval.ms": 1000}
_WAITS = "waits, and names it"
_GOES_ON = "goes on"
_KEEPS = "goes on; finished records stay, and the log names it each minute"
_SECTIONS: dict[str, dict[str, Any]] = {"transacted": {"journal": True}, "auto": {"mode": "auto"}}
_NEEDED_LATER = {
    ("worker", "Describe on group billing.scheduler"),
    ("scheduler", "Describe on group billing"),
    ("scheduler", "Describe on topic orders"),
    ("scheduler", "Write on topics billing.retry.*"),
    ("scheduler", "Write on topic DLQ.orders"),
}
"""Rights that a running process needs for few records only, or for what it does each minute."""


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


def _see_processes(users: Users, table: Table) -> None:
    """Take each right of worker and scheduler away, before the start and while they run."""
    group, mode = users.group, users.group.configuration.get("mode", "transacted")
    starts: dict[Acl, str] = {}
    roles: tuple[Role, ...] = ("worker", "scheduler")
    for role in roles:
        for acl in users.acls(role):
            right = right_of(acl)
            code, log = _start_without(users, role, acl)
            assert names(right, log) or code is None, log
            assert code in {None, exit_codes.FAILED}
            message = message_of(group, right, log)
            text = f"`{message}`" if message else "not noticed"
            starts[acl] = f"exit code {code}: {text}" if code is not None else f"starts: {text}"
    processes = {role: users.start(role) for role in reversed(roles)}
    group.send(_SCRIPTS * 4)
    sent = 12
    _finish(group, sent, mode)
    for role in roles:
        for acl in users.acls(role):
            right, shown = right_of(acl), example(group, str(right_of(acl)))
            if right.operation is Operation.DELETE:
                group.send(_SCRIPTS * 4, first=sent)
                _finish(group, sent + 12, mode)
                assert _trim_without(users, acl), shown
                running = _KEEPS
            else:
                named = _revoke_and_grant(users, processes[role], acl, sent, mode)
                later = right.operation is Operation.DESCRIBE_CONFIGS or (role, shown) in _NEEDED_LATER
                running = _GOES_ON if later or "control" in acl.name else _WAITS
                assert named or running is _GOES_ON, shown
            sent += 12
            table.note(role, shown, Cell(starts[acl], running))
    group.stop()


def _trim_without(users: Users, acl: Acl) -> bool:
    """Do what a scheduler does each minute, without the right to delete."""
    users.secured.revoke(acl)
    with pytest.raises(AdminError) as denied:
        trim(users.settings("scheduler"), now_ms() + 60_000)
    users.secured.grant([acl])
    trim(users.settings("scheduler"), now_ms() + 60_000)
    return names(right_of(acl), str(denied.value))


def _see_apply(users: Users, right: str) -> str:
    """Return what `topology apply` does without a right: on a new group, and with topics that have to be changed."""
    group = users.group
    users.grant("apply")
    acl = next(acl for acl in users.acls("apply") if example(group, str(right_of(acl))) == right)
    users.secured.revoke(acl)
    done = users.topology("apply")
    if done.code == 0:
        group.cluster.grow(group.source, 3)
        for topic in group.cluster.topics():
            if group.name in topic and topic not in {group.source, group.output}:
                group.cluster.alter(topic, retention_ms="60000")
        group.cluster.alter(f"{group.name}.control", cleanup_policy="compact,delete")
        done = users.topology("apply")
    if done.code == 0:
        return "not noticed"
    assert names(right_of(acl), done.err), done.err
    users.secured.grant([acl])
    assert users.topology("apply").code == 0
    return f"exit code {done.code}: `{message_of(group, right_of(acl), done.err)}`"


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", _SECTIONS)
def test_each_right_of_each_role(secured: AuthenticatedKafka, unique: str, tmp_path: Path, mode: str) -> None:
    """The documentation has a table of what is seen. With WRITE_RIGHTS_TABLE set, it is written."""
    table = Table()
    users = _group(secured, unique, tmp_path / mode, mode)
    try:
        users.apply()
        users.grant("worker", "scheduler")
        _see_processes(users, table)
    finally:
        users.group.close()
    if mode != "transacted":  # the rights are the same, but for the journal and the transactional ids
        assert set(table.rows()) < set(rows_of_page())
        return
    for number, acl in enumerate(users.acls("apply")):
        right = example(users.group, str(right_of(acl)))
        each = _group(secured, f"{unique}{number}x", tmp_path / str(number), mode)
        table.note("apply", right, Cell(_see_apply(each, right), "-"))
    if os.environ.get("WRITE_RIGHTS_TABLE"):
        PAGE.write_text(page_with(table.rows()), encoding="utf-8")
    assert rows_of_page() == table.rows()
