"""A paused source, tier or group stands still within two seconds, through restarts, and goes on with nothing lost."""

import json
import time
from contextlib import closing

import pytest

from kafka_redelivery.cli.console.job_book import JobBook
from kafka_redelivery.consumers.operations.pausing import control_tail, observed, owners_of
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.transport.admin.group_members import GroupMembers
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done, in_process, redelivery
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_OBEY_MS = 25_000
"""Two seconds are promised; a busy machine may be much slower."""
_WAIT = ("--wait", f"{_OBEY_MS}ms")
_STILL_S = 1.5
"""How long nothing may happen; the handler would take no time."""


def _obeyed(group: Group, *command: str, members: int) -> Done:
    """Run a command whose exit code says that all processes obey, and check how long they took."""
    done = redelivery(*command, *_WAIT, "--json", file=group.file)
    assert done.code == 0, done.out + done.err
    seen = json.loads(done.out)
    assert seen["members"] == members == len([each for each in seen["processes"] if each["obeys"]])
    return done


def _joined(group: Group, workers: int, schedulers: int = 1) -> None:
    """Wait until the groups have so many members."""
    wanted = {group.name: workers, f"{group.name}.scheduler": schedulers}
    until(lambda: all(len(group.cluster.members(name)) == n for name, n in wanted.items()), f"{wanted} have joined")


def _stands_still(group: Group) -> None:
    before = len(group.deliveries.began())
    time.sleep(_STILL_S)
    assert len(group.deliveries.began()) == before


def test_a_source_is_paused_and_resumed(group: Group) -> None:
    """Calls in progress end, what is buffered waits, a restarted and an added worker wait, and nothing is doubled."""
    group.prepare(handler={"slots": 2}, kafka={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
    group.scheduler()
    first = group.worker("w1")
    gate = group.folder / "gate"
    group.send([[f"wait {gate}"]] * 50 + [["raise", "ok"]] * 10)
    until(group.deliveries.began, "a handler has a record")
    _joined(group, 1)

    paused = _obeyed(group, "pause", "--source", group.source, members=2)
    seen = json.loads(paused.out)
    noted = [each["appliedMs"] - seen["pauses"][0]["sinceMs"] for each in seen["processes"]]
    assert max(noted) < _OBEY_MS
    in_progress = len(group.deliveries.began())
    gate.touch()
    until(lambda: len(group.deliveries.all()) == 2 * in_progress, "the calls in progress end")
    _stands_still(group)
    until(lambda: sum(group.outputs().values()) == in_progress, "and are committed")

    group.worker("w2")  # a rebalance
    first.stop()
    group.worker("w1")
    _joined(group, 2)
    _stands_still(group)
    obeying = json.loads(redelivery("pause", "--source", group.source, *_WAIT, "--json", file=group.file).out)
    assert {each["instance"] for each in obeying["processes"] if each["obeys"]} == {"s1", "w1", "w2"}

    seen = redelivery("status", "--json", file=group.file)
    assert seen.code == 0, seen.out + seen.err
    screen = json.loads(seen.out)
    assert {(each["name"], each["group"]) for each in screen["members"]} == {
        ("s1", f"{group.name}.scheduler"), ("w1", group.name), ("w2", group.name),
    }  # fmt: skip
    assert {each["topic"]: each["records"] for each in screen["unfinished"]}[group.source] >= 60 - in_progress
    assert all(each["obeys"] for each in screen["pausing"]["processes"])
    assert screen["pausing"]["pauses"][0]["topic"] == group.source

    _obeyed(group, "resume", "--all", "--note", "it is back", members=3)
    trail = JobBook(load_settings(group.file.read_text(encoding="utf-8"))).look().trail
    about = f"source {group.source}"
    assert [(each.what, each.about, each.note) for each in trail] == [
        ("resume", "everything", "it is back"), ("pause", about, ""), ("pause", about, ""),
    ]  # fmt: skip
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(60))
    assert set(group.deliveries.counts().values()) <= {1, 2}


@pytest.mark.long
def test_a_tier_is_paused_until_a_time_and_a_group_for_good(group: Group) -> None:
    """A pause of a tier ends by itself. A pause of the group is there when its processes start."""
    group.prepare()
    group.scheduler()
    group.worker()
    _joined(group, 1)
    _obeyed(group, "pause", "--tier", "200ms", members=2)
    group.send([["raise", "ok"]] * 4)
    until(lambda: len(group.cluster.read(group.tier("200ms"))) == 4, "they wait in the tier")
    seen = json.loads(in_process("status", "--json", file=group.file).out)
    [tier] = [each for each in seen["unfinished"] if each["role"] == "tier"]
    assert (tier["topic"], tier["read"], sum(tier["due"].values())) == (group.tier("200ms"), 4, 4)
    _stands_still(group)
    again = in_process("pause", "--tier", "200ms", "--until", "3s", "--json", "--wait", "0s", file=group.file)
    until_ms = json.loads(again.out)["pauses"][0]["untilMs"]
    group.settle()
    released = group.cluster.read(group.ready)
    assert len(released) == 4
    assert min(each.timestamp_ms for each in released) >= until_ms
    assert all(dict(each.headers)[SCHEDULED_DELIVERY] for each in released)

    _obeyed(group, "pause", "--all", members=2)
    group.stop()
    group.send([["ok"]] * 4, first=4)
    group.worker()
    group.scheduler()
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    members = GroupMembers(settings.kafka)
    with closing(control_tail(settings)) as tail:
        until(
            lambda: observed(tail.read_to_end(), owners_of(settings, members)).applied == 2,
            "both have read the pause at their start",
        )
    _stands_still(group)
    shown = redelivery("status", file=group.file)
    assert "paused: group" in shown.out, shown.err
    resumed = redelivery("resume", "--all", file=group.file)
    assert resumed.code == 0, resumed.err
    assert resumed.out.splitlines()[0] == "nothing is paused"
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(8))


def test_a_pause_that_no_process_can_read_yet_is_ended(group: Group) -> None:
    """It is behind an open transaction, as of a scheduler that was killed as it acted on waiting records."""
    group.prepare()
    opened = group.cluster.begin(f"{group.name}.control", [Sent(b"", b"other")])
    for command in ("pause", "resume"):
        done = in_process(command, "--all", "--wait", "0s", file=group.file)
        assert done.code == 0, done.err
    opened.abort_transaction()
    with closing(control_tail(load_settings(group.file.read_text(encoding="utf-8")))) as tail:
        assert not tail.read_to_end().pauses


@pytest.mark.long
def test_a_pause_ends_with_its_topic(group: Group) -> None:
    """If the control topic is deleted and created again, those that run obey what the new one says, as do others."""
    group.prepare()
    group.scheduler()
    group.worker()
    _joined(group, 1)
    _obeyed(group, "pause", "--all", members=2)
    group.send([["ok"]] * 4)
    _stands_still(group)
    control = f"{group.name}.control"
    group.cluster.delete(control)
    until(lambda: control not in group.cluster.topics(), "it is deleted")
    group.apply()
    group.settle()
    assert group.outputs() == exactly(range(4))
    _obeyed(group, "pause", "--source", group.source, members=2)
    group.stop()


def test_wrong_usage(group: Group) -> None:
    """A source that is not configured, a tier that does not exist, a time that has passed, no control topic."""
    group.configure()
    wrong = [("--source", "other"), ("--tier", "7s"), ("--until", "2020-01-01T00:00:00Z"), ("--until", "soon")]
    for option, value in wrong:
        whole = ("--all",) if option == "--until" else ()
        done = in_process("pause", option, value, *whole, file=group.file)
        assert (done.code, value in done.err) == (exit_codes.USAGE, True), done.err
    seen = in_process("status", file=group.file)
    assert seen.code == exit_codes.FAILED
    assert f"there is no topic {group.source}" in seen.out
    done = in_process("pause", "--all", file=group.file)
    assert done.code == exit_codes.FAILED
    assert "run: redelivery topology apply" in done.err
