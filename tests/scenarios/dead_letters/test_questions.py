"""Commands that end something for good, or stop a whole group, ask on a terminal, and do nothing without a yes."""

from contextlib import closing

from kafka_redelivery.consumers.operations.pausing import control_tail
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.exit_codes import FAILED, OK
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.scenarios.commands import on_terminal
from tests.scenarios.letters import kept, letter
from tests.scenarios.redriving import created, dead_letter, dlq_json, settings_of
from tests.scenarios.running import Group


def test_a_pass_over_expired_letters(group: Group) -> None:
    """It shows what it would remove, asks, and removes it after a yes."""
    group.prepare(1)
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(3)])

    refused = on_terminal("n", "sweep", file=group.file)
    assert (refused.code, kept(group)) == (FAILED, [0, 1, 2]), refused.err
    assert "3 expired dead letters would be removed" in refused.out

    agreed = on_terminal("y", "sweep", file=group.file)
    assert (agreed.code, kept(group)) == (OK, []), agreed.err
    assert "3 expired dead letters removed" in agreed.out


def test_a_pause_of_the_whole_group(group: Group) -> None:
    """It asks, because an option may have been forgotten; so does the end of all pauses."""
    group.prepare()
    settings = settings_of(group)
    wait = ("--wait", "0s")

    refused = on_terminal("n", "pause", *wait, file=group.file)
    assert (refused.code, _pauses(settings)) == (FAILED, 0), refused.err
    assert f"pause all sources and tiers of the group {group.name}?" in refused.out
    assert on_terminal("y", "pause", *wait, file=group.file).code == OK
    assert _pauses(settings) == 1

    refused = on_terminal("n", "resume", *wait, file=group.file)
    assert (refused.code, _pauses(settings)) == (FAILED, 1), refused.err
    assert on_terminal("y", "resume", *wait, file=group.file).code == OK
    assert _pauses(settings) == 0


def test_the_end_of_a_job(group: Group) -> None:
    """It shows the job, asks, and cancels it after a yes."""
    group.prepare()
    dead_letter(group, range(2))
    settings, options = settings_of(group), JobOptions(group=group.name)
    job = created(settings, options)[1].id

    refused = on_terminal("n", "dlq", "cancel", job, file=group.file)
    assert refused.code == FAILED, refused.err
    assert job in refused.out
    [known] = dlq_json(group, "jobs")["jobs"]
    assert known["state"] not in {"cancelled", "cancelling"}

    assert on_terminal("y", "dlq", "cancel", job, file=group.file).code == OK
    [known] = dlq_json(group, "jobs")["jobs"]
    assert known["state"] == "cancelled"


def _pauses(settings: Settings) -> int:
    with closing(control_tail(settings)) as tail:
        return len(tail.read_to_end().readable().pauses)
