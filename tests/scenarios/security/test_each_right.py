"""A process that lacks a right of its role names it, and nothing is lost, doubled or wrongly dead-lettered."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.kafka_rights import Operation
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.admin.trimming import trim
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.each_right import (
    NOT_NOTICED,
    PROCESSES,
    Cell,
    Table,
    example,
    message_of,
    names,
    right_of,
)
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
    ("scheduler", "Write on topic billing.journal"),
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
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_process_that_may_not_write_to_the_control_topic_works(running: Users, role: Role) -> None:
    """It cannot drop the position that it saved, and names the right. That holds up neither its work nor its end."""
    running.start("scheduler")
    running.start("worker")
    running.group.send(_SCRIPTS * 4)
    _finish(running.group, 12, "transacted")
    running.group.stop()
    acl = _acl(running, role, "Write on topic billing.control")
    running.secured.revoke(acl)
    process = running.start(role)
    until(lambda: "the saved positions cannot be dropped" in process.own_log, "it says so")
    assert names(right_of(acl), process.own_log)
    running.start("scheduler" if role == "worker" else "worker")
    running.group.send(_SCRIPTS * 4, first=12)
    _finish(running.group, 24, "transacted")
    running.group.stop()
    assert "not stopped within" not in process.own_log


@pytest.mark.kafka
@pytest.mark.parametrize("running", ["transacted", "auto"], indirect=True)
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


def _see_processes(users: Users, acls: Mapping[Role, Sequence[Acl]]) -> dict[tuple[str, str], Cell]:
    """Take each right of worker and scheduler away, before the start and while they run; return what is seen."""
    group, mode = users.group, users.group.configuration.get("mode", "transacted")
    starts = {(role, acl): _see_start(users, role, acl) for role in acls for acl in acls[role]}
    processes = {role: users.start(role) for role in sorted(acls)}
    group.send(_SCRIPTS * 4)
    _finish(group, 12, mode)
    seen: dict[tuple[str, str], Cell] = {}
    for (role, acl), start in starts.items():
        sent, shown = 12 * (len(seen) + 1), example(group, str(right_of(acl)))
        if right_of(acl).operation is Operation.DELETE:
            group.send(_SCRIPTS * 4, first=sent)
            _finish(group, sent + 12, mode)
            running = _KEEPS if _trim_without(users, acl) else NOT_NOTICED
        else:
            named = _revoke_and_grant(users, processes[role], acl, sent, mode)
            later = right_of(acl).operation is Operation.DESCRIBE_CONFIGS or (role, shown) in _NEEDED_LATER
            later = later or acl.name.endswith((".control", ".dlq.actions"))
            running = _GOES_ON if later else _WAITS if named else NOT_NOTICED
        seen[role, shown] = Cell(start, running)
    group.stop()
    return seen


def _see_start(users: Users, role: Role, acl: Acl) -> str:
    """Return what a process does that starts without a right."""
    code, log = _start_without(users, role, acl)
    assert code in {None, exit_codes.FAILED}, log
    message = message_of(users.group, right_of(acl), log)
    assert message or code is None, log
    return f"{'starts' if code is None else f'exit code {code}'}: {message or NOT_NOTICED}"


def _trim_without(users: Users, acl: Acl) -> bool:
    """Do what a scheduler does each minute, without the right to delete; return whether the error names the right."""
    users.secured.revoke(acl)
    with pytest.raises(AdminError) as denied:
        trim(users.settings("scheduler"), now_ms() + 60_000)
    users.secured.grant([acl])
    trim(users.settings("scheduler"), now_ms() + 60_000)
    return names(right_of(acl), str(denied.value))


def _see_apply(users: Users, right: str, log: pytest.LogCaptureFixture) -> str:
    """Return what `topology apply` does without a right: on a new group, and with topics that have to be changed."""
    group = users.group
    users.grant("apply")
    acl = next(acl for acl in users.acls("apply") if example(group, str(right_of(acl))) == right)
    users.secured.revoke(acl)
    log.clear()
    done = users.topology("apply")
    if done.code == 0:
        group.cluster.grow(group.source, 3)
        for topic in group.cluster.topics():
            if group.name in topic and topic not in {group.source, group.output}:
                group.cluster.alter(topic, retention_ms="60000")
        group.cluster.alter(f"{group.name}.control", cleanup_policy="compact,delete")
        done = users.topology("apply")
    message = message_of(group, right_of(acl), "\n".join([done.err, *log.messages]))
    assert message or done.code == 0, done.err
    users.secured.grant([acl])
    assert users.topology("apply").code == 0
    return f"exit code {done.code}: {message or NOT_NOTICED}"


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_right_of_each_role(
    secured: AuthenticatedKafka, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The documentation has a table of what is seen. With WRITE_RIGHTS_TABLE set, it is written."""
    table = Table()
    groups = {mode: _group(secured, f"{unique}{mode}", tmp_path / mode, mode) for mode in _SECTIONS}
    acls: dict[str, dict[Role, list[Acl]]] = {}
    apply: dict[str, list[str]] = {}
    for mode, users in groups.items():
        users.apply()
        users.grant("worker", "scheduler")
        acls[mode] = {"worker": users.acls("worker"), "scheduler": users.acls("scheduler")}
        apply[mode] = [example(users.group, str(right_of(acl))) for acl in users.acls("apply")]
    assert set(apply["auto"]) < set(apply["transacted"])  # `apply` does not depend on the mode
    try:
        with ThreadPoolExecutor() as threads:
            running = {mode: threads.submit(_see_processes, users, acls[mode]) for mode, users in groups.items()}
            for number, right in enumerate(apply["transacted"]):
                users = _group(secured, f"{unique}apply{number}x", tmp_path / str(number), "transacted")
                table.note("apply", right, "transacted", Cell(_see_apply(users, right, caplog), "-"))
            for mode, seen in running.items():
                for (role, right), cell in seen.result().items():
                    table.note(role, right, mode, cell)
    finally:
        for users in groups.values():
            users.group.close()
    rows = table.rows()
    if os.environ.get("WRITE_RIGHTS_TABLE"):
        PROCESSES.write(rows)
    assert [row for row in rows if NOT_NOTICED in row] == []
    assert PROCESSES.rows() == rows
