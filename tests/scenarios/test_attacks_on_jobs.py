"""What somebody achieves who may write to the topics of `redelivery dlq`, or a pause, is what docs/security.md says."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.actions import Chunk, Outcome, outcome_record, progress_record
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget, pause_record
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import in_process
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, sent
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_ALL = 2**40
"""An author that has seen every job leaves no letter to another one."""


def _write(group: Group, topic: str, records: Iterable[StoredRecord]) -> None:
    group.cluster.produce(f"{group.name}.dlq.{topic}", [Sent(value, key, (), 0) for key, value in records])


def _forge(group: Group, name: str, topic: str, options: JobOptions) -> None:
    """Write a job with the first three records of partition 0 of a topic."""
    letters = {SliceId(topic, 0): OffsetSet(range(3))}
    spec = JobSpec(
        job=name, at_ms=1, by="\x1b]0;x\x07root", seen=_ALL, options=options, selection={}, slices=tuple(letters)
    )
    _write(group, "jobs", job_records(spec, letters))


def _states(group: Group) -> dict[str, int]:
    return {kind["state"]: kind["letters"] for kind in dlq_json(group, "list")["kinds"]}


def _is_out(group: Group, n: int) -> bool:
    return n in group.outputs()


def test_a_job_that_nobody_has_created(group: Group) -> None:
    """Whoever resumes it has more rights than its author; so it can do nothing that the command itself refuses."""
    group.prepare()
    dead_letter(group, range(6))
    secrets = f"{group.name}.salaries"
    group.cluster.create(secrets)
    group.cluster.produce(secrets, [died(group, 0)] * 3)
    own, other = group.dead_letters, f"{group.name}.other"
    forged = {
        "source": (own, JobOptions(group=group.name, to=group.source), "which every group that reads it would see"),
        "letters": (own, JobOptions(group=group.name, to=own), "is a dead-letter topic"),
        "control": (own, JobOptions(group=group.name, to=f"{group.name}.control"), "is an internal topic"),
        "reads": (secrets, JobOptions(group=group.name), f"{secrets} is no dead-letter topic"),
        "group": (own, JobOptions(group="payroll", ready=other), "it is for the dead letters of group payroll"),
    }
    before = group.cluster.ends(group.source, own, f"{group.name}.control", group.ready)
    for name, (topic, options, problem) in forged.items():
        _forge(group, name, topic, options)
        resumed = dlq(group, "resume", name)
        assert (resumed.code, resumed.out) == (exit_codes.FAILED, "")
        assert problem in resumed.err
        assert f"job {name} is not sent" in resumed.err
        listed = dlq(group, "jobs")
        assert listed.code == 0
        assert "\x1b" not in listed.out
        assert dlq_json(group, "cancel", name)["state"] == "cancelled"
    assert group.cluster.ends(group.source, own, f"{group.name}.control", group.ready) == before

    _forge(group, "plausible", own, JobOptions(group=group.name))
    assert _states(group) == {"waiting": 3, "in_job": 3}
    assert dlq_json(group, "redrive", "--yes")["sent"] == 3
    assert sent(group) == exactly([1, 3, 5])
    dlq_json(group, "cancel", "plausible")
    assert dlq_json(group, "redrive", "--yes")["sent"] == 3
    assert sent(group) == exactly(range(6))


def test_outcomes_that_nobody_has_seen(group: Group) -> None:
    """They are believed. A value that cannot be read stops the commands, and nothing else."""
    group.prepare()
    dead_letter(group, range(8))
    job = dlq_json(group, "redrive", "--yes")["job"]
    assert _states(group) == {"sent": 8}
    group.worker()
    until(lambda: _states(group) == {"recovered": 8}, "the worker notes outcomes")
    dead_letter(group, range(8, 12))  # offsets 4 and 5 of each partition
    now = now_ms()

    # Ready: the record of another one with the mark of a letter.
    mark = RedriveMark(job, 0, 0, 1)
    marked = died(group, 100, do="reject")
    headers = [pair for pair in marked.headers if pair[0] != "dlqDeliveryFailureCause"]
    group.cluster.produce(group.ready, [replace(marked, headers=[*headers, ("redrive", str(mark).encode())])])
    until(lambda: _states(group).get("dead_again") == 1, "the outcome is that of the letter")

    # Actions: a job that seems to have sent the new letters, and their outcomes.
    letters = {SliceId(group.dead_letters, 0): OffsetSet([4, 5]), SliceId(group.dead_letters, 1): OffsetSet([4, 5])}
    spec = JobSpec(
        job="j3", at_ms=1, by="x", seen=_ALL, options=JobOptions(group=group.name), selection={}, slices=tuple(letters)
    )
    _write(group, "jobs", job_records(spec, letters))
    _write(group, "actions", [progress_record("j3", number, Chunk(through=5, sent=2), now) for number in range(2)])
    outcomes = [
        outcome_record(RedriveMark("j3", slice_, at, 1), Outcome.RECOVERED, now) for slice_ in (0, 1) for at in (4, 5)
    ]
    _write(group, "actions", outcomes)
    states = {"recovered": 11, "dead_again": 1, "waiting": 1}
    assert _states(group) == states, "only the record with the mark is left to send"
    assert dlq_json(group, "purge", "--dry-run")["removed"] == 12, "letters that were never sent are removed"

    # Parked: nothing changes.
    group.cluster.produce(f"{group.name}.dlq.parked", [Sent(b"\xff", b"k", (), 0)])
    assert _states(group) == states

    # Jobs: values that have our form. Nothing is read after them.
    for value in (b'{"version":1,"type":"cancel","atMs":1e999}', b'{"version":2}'):
        end = group.cluster.ends(f"{group.name}.dlq.jobs").popitem()[1]
        _write(group, "jobs", [StoredRecord(b"j3", value)])
        for command in ("list", "jobs", "redrive", "purge"):
            options = ["--yes"] if command in {"redrive", "purge"} else []
            done = dlq(group, command, *options)
            assert done.code == exit_codes.FAILED
            assert "the record b'j3' of the redrive jobs cannot be read" in done.err
        group.send([["ok"]], first=200 + end)
        until(partial(_is_out, group, 200 + end), "the worker goes on")
        group.cluster.delete_before(f"{group.name}.dlq.jobs", 0, end + 1)
    assert _states(group) == {"waiting": 13}, "what the jobs had sent waits again, as the page warns"


def test_a_pause_that_nobody_has_ordered(group: Group) -> None:
    """It holds like any other; the status shows it, and a person withdraws it."""
    group.prepare()
    record = pause_record(PauseTarget(PauseScope.GROUP), None, now_ms())
    group.cluster.produce(f"{group.name}.control", [Sent(record.value, record.key, (), 0)])
    worker = group.worker()
    group.send([["ok"]])
    until(lambda: "paused" in worker.log, "the worker waits")
    assert "paused: group" in in_process("status", file=group.file).out
    assert not group.outputs()
    in_process("resume", file=group.file)
    until(lambda: group.outputs() == exactly([0]), "it goes on")
