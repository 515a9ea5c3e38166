"""A rule that denies takes precedence over one that allows, as the message says; those for prefixes and ``*`` count."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.each_right import names, right_of
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_FIX = "remove the rule"


@pytest.fixture
def ready(secured: AuthenticatedKafka, unique: str, tmp_path: Path) -> Iterator[Users]:
    """A group with its topics; only `topology apply` has rights."""
    users = Users(secured, Group(secured.cluster, unique, tmp_path))
    policy = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}}
    quick = SHORT_SESSION | {"topic.metadata.refresh.interval.ms": 1000}
    users.configure(kafka=quick, policyEntry=policy, journal=True)
    users.apply()
    try:
        yield users
    finally:
        users.group.close()


def _handle(users: Users, sent: int) -> None:
    """Wait until all of some records are done: of three, one succeeds, one is retried and one dies."""
    users.group.settle()
    assert users.group.outputs() == exactly(n for n in range(sent) if n % 3 < 2)
    assert users.group.dead() == exactly(n for n in range(sent) if n % 3 == 2)


_SCRIPTS = [["ok"], ["raise", "ok"], ["raise", "raise"]] * 3


@pytest.mark.parametrize("pattern", ["*", "prefix"])
def test_wider_rules_suffice(ready: Users, pattern: str) -> None:
    """Rules for ``*``, or for shorter prefixes than those that are printed, give the rights that are asked for."""
    given = {acl for role in ("worker", "scheduler") for acl in ready.acls(role)}
    if pattern == "*":
        wide = {acl._replace(pattern="literal", name="*") for acl in given}
    else:
        wide = {acl._replace(pattern="prefixed", name=acl.name[:4]) for acl in given}
    assert not wide & given
    ready.secured.grant(wide)
    try:
        scheduler, worker = ready.start("scheduler"), ready.start("worker")
        ready.group.send(_SCRIPTS)
        _handle(ready, 9)
        checked = ready.topology("check")
        assert checked.code == 0, checked.out + checked.err
        ready.group.stop()
        assert "grant the right" not in scheduler.log + worker.log
    finally:  # the broker is shared, and these rules cover other groups
        for acl in wide:
            ready.secured.revoke(acl)


@pytest.mark.parametrize(
    ("flag", "operation"),
    [("--topic", "Read"), ("--topic", "DescribeConfigs"), ("--group", "Read"), ("--transactional-id", "Write")],
)
@pytest.mark.parametrize(
    "of", ["name", *(pytest.param(each, marks=pytest.mark.long) for each in ("prefix", "everyone"))]
)
def test_a_denied_right_at_start(ready: Users, flag: str, operation: str, of: str) -> None:
    """The worker ends and names the right; the message says that a rule may deny it. Without the rule it starts."""
    ready.grant("worker")
    needed = [acl for acl in ready.acls("worker") if not acl.name.endswith(".control")]
    allowed = next(acl for acl in needed if (acl.flag, acl.operation) == (flag, operation))
    denied = allowed._replace(permission="deny")
    if of == "prefix":
        denied = denied._replace(pattern="prefixed", name=allowed.name[: len(ready.group.name)])
    elif of == "everyone":
        denied = denied._replace(principal="User:*")
    ready.secured.grant([denied])
    worker = ready.start("worker")
    until(lambda: not worker.running, "it ends")
    assert worker.wait(10) in {exit_codes.FAILED, exit_codes.HALTED}
    assert names(right_of(allowed), worker.own_log)
    assert _FIX in worker.own_log
    assert "no Kafka broker answers" not in worker.own_log
    assert "Traceback" not in worker.own_log
    ready.secured.revoke(denied)
    again = ready.start("worker")
    until(lambda: " reads " in again.own_log, "it starts")


def test_a_right_that_is_denied_while_the_group_runs(ready: Users) -> None:
    """The worker waits, names the right, and goes on when the rule is gone. Nothing is lost or doubled."""
    ready.grant("worker", "scheduler")
    ready.start("scheduler")
    worker = ready.start("worker")
    ready.group.send(_SCRIPTS)
    _handle(ready, 9)
    for number, (name, operation) in enumerate(
        [(ready.group.dead_letters, "Write"), (ready.group.source, "Read"), (ready.group.ready, "Write")], start=1
    ):
        allowed = next(a for a in ready.acls("worker") if (a.name, a.operation) == (name, operation))
        denied = allowed._replace(permission="deny")
        begins = len(worker.own_log)
        ready.secured.grant([denied])
        ready.group.send(_SCRIPTS, first=9 * number)
        until(
            lambda: names(right_of(allowed), worker.own_log[begins:]) or ready.group.settled(),  # noqa: B023 - at once
            f"{name} is named, or not needed",
        )
        assert worker.running
        said = worker.own_log[begins:]
        assert (_FIX in said) == names(right_of(allowed), said)
        assert _FIX in said or name == ready.group.ready
        ready.secured.revoke(denied)
        _handle(ready, 9 * (number + 1))
    ready.group.stop()


@pytest.mark.parametrize("operation", ["Read", "Describe"])
def test_a_control_topic_that_is_denied_while_the_source_grows(users: Users, operation: str) -> None:
    """The new partition halts alone, although it may be new, and then starts at its log start: nothing is skipped."""
    group, port = users.group, free_port()
    quick = SHORT_SESSION | {"topic.metadata.refresh.interval.ms": 1000, "auto.offset.reset": "latest"}
    users.configure(kafka=quick, metrics={"port": port, "host": "127.0.0.1"})
    users.apply()
    users.grant("worker")
    worker = users.start("worker")
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    control = next(acl for acl in users.acls("worker") if acl.name.endswith(".control"))
    denied = control._replace(operation=operation, permission="deny")
    users.secured.grant([denied])
    group.cluster.grow(group.source, 3)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 3) for n in range(9)])
    labels = {"refused_by": group.source, "cause": "control"}
    until(lambda: value_of(port, "redelivery_halted_partitions", **labels) == 1, "the new partition is halted")
    others = exactly(n for n in range(9) if n % 3 < 2)
    until(lambda: group.outputs() == others, "the other partitions go on")
    assert f"{group.source}-2 is halted" in readiness(port)
    assert f"topic {control.name} may not be read" in readiness(port)
    users.secured.revoke(denied)
    until(lambda: group.outputs() == exactly(range(9)), "the new partition starts at its log start")
    assert worker.running
    group.stop()


def test_a_worker_that_starts_without_the_right_to_read_the_control_topic(users: Users) -> None:
    """The topic is there, so a partition without a committed offset may be new: it waits, and nothing is skipped."""
    group, port = users.group, free_port()
    quick = SHORT_SESSION | {"topic.metadata.refresh.interval.ms": 1000, "auto.offset.reset": "latest"}
    users.configure(kafka=quick, metrics={"port": port, "host": "127.0.0.1"})
    users.apply()
    users.grant("worker")
    first = users.start("worker")
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    first.stop()
    control = next(acl for acl in users.acls("worker") if acl.name.endswith(".control"))
    denied = control._replace(operation="Read", permission="deny")
    users.secured.grant([denied])
    worker = users.start("worker")
    group.send([["ok"]] * 3)
    until(lambda: group.outputs() == exactly(range(3)), "partitions with a committed offset are read")
    group.cluster.grow(group.source, 3)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 3) for n in range(3, 12)])
    labels = {"refused_by": group.source, "cause": "control"}
    until(lambda: value_of(port, "redelivery_halted_partitions", **labels) == 1, "the new partition is halted")
    others = exactly(n for n in range(12) if n < 3 or n % 3 < 2)
    until(lambda: group.outputs() == others, "the other partitions go on")
    assert f"topic {control.name} may not be read" in readiness(port)
    users.secured.revoke(denied)
    until(lambda: group.outputs() == exactly(range(12)), "the new partition starts at its log start")
    assert worker.running
    group.stop()


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_saved_position_is_dropped_without_the_right_to_read_it(users: Users, *, killed: bool) -> None:
    """Records are handled behind it. When the committed offsets expire later, none of them is handled again."""
    group = users.group
    users.configure(kafka=SHORT_SESSION)
    users.apply()
    users.grant("worker")
    first = users.start("worker")
    group.send([["ok"]] * 2)
    until(lambda: group.outputs() == exactly(range(2)), "the first records are handled")
    first.stop()  # saves its positions
    control = next(acl for acl in users.acls("worker") if acl.name.endswith(".control"))
    denied = control._replace(operation="Read", permission="deny")
    users.secured.grant([denied])
    second = users.start("worker")
    group.send([["ok"]] * 4, first=2)
    until(lambda: group.outputs() == exactly(range(6)), "the next records are handled")
    until(lambda: _noted_last(group, control.name), "what was saved is replaced")
    if killed:
        second.kill()
    else:
        second.stop()
        assert "the last positions are not saved" in second.own_log
        assert _noted_last(group, control.name)
    until(lambda: not group.cluster.members(group.name), "its session ends")
    group.cluster.delete_group(group.name)  # as after a month without members
    users.secured.revoke(denied)
    third = users.start("worker")
    until(lambda: "--accept-repeats" in third.own_log, "the repeats are refused")
    assert group.outputs() == exactly(range(6))


def _noted_last(group: Group, control: str) -> bool:
    """Whether the newest record of each source partition is that of a first offset, not of a saved position."""
    newest = {record.key: record.value for record in group.cluster.read(control)}
    values = [newest.get(f"partition/{group.source}/{number}".encode()) or b"" for number in range(2)]
    return all(b"offset" in value and b"metadata" not in value for value in values)


def test_a_scheduler_that_starts_without_the_right_to_read_the_saved_positions(users: Users) -> None:
    """It is not refused, and no repeats need be accepted: its tier waits for the right, and goes on where it was."""
    group, port = users.group, free_port()
    policy = {"redeliveryPolicy": {"initialRedeliveryDelay": 2000}}
    users.configure(kafka=SHORT_SESSION, policyEntry=policy, metrics={"port": port, "host": "127.0.0.1"})
    users.apply()
    users.grant("worker", "scheduler")
    worker, scheduler = users.start("worker", "metrics.port=0"), users.start("scheduler")
    group.send([["raise", "ok"]] * 4)
    group.settle()
    scheduler.stop()
    group.send([["raise", "ok"]] * 4, first=4)
    tier = group.tier("2s")
    until(lambda: len(group.cluster.read(tier)) == 8, "the records wait for their redelivery")
    schedulers = f"{group.name}.scheduler"
    until(lambda: not group.cluster.members(schedulers), "its session ends")
    group.cluster.delete_group(schedulers)  # as after a month without members
    read = next(a for a in users.acls("scheduler") if a.name.endswith(".control") and a.operation == "Read")
    denied = read._replace(permission="deny")
    users.secured.grant([denied])
    again = users.start("scheduler")
    labels = {"refused_by": tier, "cause": "control"}
    until(lambda: not again.running or value_of(port, "redelivery_halted_partitions", **labels) > 0, "it halts or ends")
    assert again.running
    assert "accept-repeats" not in again.own_log
    assert f"{tier}-0 is halted" in readiness(port)
    users.secured.revoke(denied)
    group.settle()
    assert group.outputs() == exactly(range(8))
    assert group.dead() == exactly([])
    assert again.running
    assert worker.running
    group.stop()


@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_source_that_is_denied_while_it_grows(users: Users, mode: str) -> None:
    """The first offset of the new partition cannot be committed. What the ready topic has is handled meanwhile."""
    group = users.group
    quick = SHORT_SESSION | {"topic.metadata.refresh.interval.ms": 1000}
    users.configure(kafka=quick, mode=mode, policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 8000}})
    users.apply()
    users.grant("worker", "scheduler")
    users.start("scheduler")
    worker = users.start("worker")
    group.send([["raise", "ok"]] * 6)
    until(lambda: len(group.cluster.read(group.tier("8s"))) == 6, "the records wait for their redelivery")
    read = next(acl for acl in users.acls("worker") if (acl.name, acl.operation) == (group.source, "Read"))
    denied = read._replace(permission="deny")
    users.secured.grant([denied])
    group.cluster.grow(group.source, 3)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 3) for n in range(6, 12)])
    until(lambda: f"{group.source}-2 has no committed offset" in worker.own_log, "the new partition is assigned")
    until(lambda: group.outputs() == exactly(range(6)), "the redeliveries are handled")
    until(lambda: names(right_of(read), worker.own_log), "the right is named")
    users.secured.revoke(denied)
    group.settle()
    assert group.outputs() == exactly(range(12))
    assert worker.running
    group.stop()


def test_a_tier_that_may_not_be_described_any_more(users: Users) -> None:
    """It halts alone when its offset has to be read again; the other tier is released, and so is this one later."""
    group, port = users.group, free_port()
    policy = {"maximumRedeliveries": 2, "initialRedeliveryDelay": 200, "redeliveryDelay": 2000}
    users.configure(
        kafka=SHORT_SESSION, policyEntry={"redeliveryPolicy": policy}, metrics={"port": port, "host": "127.0.0.1"}
    )
    users.apply()
    users.grant("worker", "scheduler")
    worker = users.start("worker", "metrics.port=0")
    scheduler = users.start("scheduler")
    tier = group.tier("2s")
    group.send([["raise", "raise", "ok"]] * 4)
    group.settle()
    right = next(acl for acl in users.acls("scheduler") if acl.flag == "--topic")
    right = right._replace(pattern="literal", permission="deny")
    describe, write = (
        right._replace(name=tier, operation="Describe"),
        right._replace(name=group.ready, operation="Write"),
    )
    users.secured.grant([describe, write])
    group.send([["raise", "ok"]] * 4, first=4)
    until(lambda: f"Kafka refuses a record for {group.ready}" in scheduler.own_log, "the release is refused")
    until(lambda: f"{tier}-0 is halted" in readiness(port), "the tier is halted")
    # Of its two partitions, or of the tier as a whole when the group has noticed that it assigns none of them.
    labels = {"refused_by": tier, "cause": "forbidden"}
    until(lambda: value_of(port, "redelivery_halted_partitions", **labels) > 0, "the metric shows it")
    users.secured.revoke(write)
    until(lambda: group.outputs() == exactly(range(8)), "the other tier is released")
    users.secured.revoke(describe)
    group.send([["raise", "raise", "ok"]] * 4, first=8)
    group.settle()
    assert group.outputs() == exactly(range(12))
    assert group.dead() == exactly([])
    assert worker.running
    assert scheduler.running
    group.stop()


def test_an_output_that_is_not_listed_and_may_not_be_described(ready: Users) -> None:
    """Whether it exists is unknown, so its record waits uncounted, with its partition alone, and is then written."""
    group = ready.group
    totals = f"{group.name}.totals"
    group.cluster.create(totals)
    ready.grant("worker", "scheduler")
    ready.start("scheduler")
    worker = ready.start("worker")
    group.cluster.produce(group.source, [script(0, [f"to {totals}"], partition=0), script(1, ["ok"], partition=1)])
    until(lambda: group.outputs() == exactly([1]), "the other partition goes on")
    until(lambda: f"describe topic {totals}" in worker.own_log, "the topic is named")
    output = next(acl for acl in ready.acls("worker") if acl.name == group.output)
    ready.secured.grant([output._replace(name=totals, operation="Write")])
    until(lambda: len(group.cluster.read(totals)) == 1, "it is written")
    group.settle()
    assert group.dead() == exactly([])
    assert group.cluster.read(group.tier("200ms")) == []
    group.stop()
