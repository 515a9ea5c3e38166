"""A forged job or pause achieves what docs/reference/attacks.md says."""

from collections.abc import Iterable

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget, pause_record
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import in_process
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json
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


def test_a_job_that_no_command_has_created(group: Group) -> None:
    """The person who resumes it has more rights than its author, so it achieves nothing that the command refuses."""
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
        assert dlq_json(group, "cancel", name, "--yes")["state"] == "cancelled"
    assert group.cluster.ends(group.source, own, f"{group.name}.control", group.ready) == before


def test_a_pause_that_no_command_has_written(group: Group) -> None:
    """It holds like any other; the status shows it, and a person withdraws it."""
    group.prepare()
    record = pause_record(PauseTarget(PauseScope.GROUP), None, now_ms())
    group.cluster.produce(f"{group.name}.control", [Sent(record.value, record.key, (), 0)])
    worker = group.worker()
    group.send([["ok"]])
    until(lambda: "paused" in worker.log, "the worker waits")
    assert "paused: group" in in_process("status", file=group.file).out
    assert not group.outputs()
    in_process("resume", "--all", file=group.file)
    until(lambda: group.outputs() == exactly([0]), "it goes on")
