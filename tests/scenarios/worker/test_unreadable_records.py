"""A record that cannot be read among dead letters, jobs or actions is a problem of that record alone."""

import json
import os
import signal
from collections.abc import Iterable

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.actions import Outcome, outcome_record
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.wire.headers import RedriveMark
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done
from tests.scenarios.redriving import dead_letter, dlq, dlq_json, sent
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import LONG_S, until

pytestmark = pytest.mark.kafka

_CAUSE = b'{"reason":{"a":[1e999]},"message":"\\ud800"}'
_GARBAGE = [
    Sent(bytes(range(256)), b"\xff\x00\x1b]0;x\x07", (), 0),
    Sent(None, None, (), 0),
    Sent(b"", b"", [("_AMQ_ORIG_QUEUE", b"\xff\x00"), ("", b""), ("dlqDeliveryFailureCause", b"[" * 5_000)], 0),
    Sent(b"{", b"k", [("_AMQ_ORIG_QUEUE", b""), ("JMSExpiration", b"9" * 400), ("_AMQ_ORIG_MESSAGE_ID", b"\x00")], 0),
    Sent(
        b"1",
        b"k",
        [("dlqDeliveryFailureCause", b'{"reason":{"a":[1e999]},"message":"\\ud800"}'), ("redrive", b"\xfe")],
        0,
        1,
    ),
]
"""Of these one names a group, which is no group of ours, and four name none."""

_READING = (["list"], ["list", "--each"], ["list", "--header", "a=b"], ["summary"], ["export"], ["jobs"])


def _write(group: Group, topic: str, records: Iterable[StoredRecord]) -> None:
    group.cluster.produce(f"{group.name}.dlq.{topic}", [Sent(value, key, (), 0) for key, value in records])


def _job(group: Group, name: str, offsets: Iterable[int], version: int | None = None) -> list[StoredRecord]:
    """Make a job of some letters of partition 0, by a program of a version."""
    listed = {SliceId(group.dead_letters, 0): OffsetSet(offsets)}
    options = JobOptions(group=group.name)
    spec = JobSpec(job=name, at_ms=1, by="me", seen=0, options=options, selection={}, slices=tuple(listed))
    records = list(job_records(spec, listed))
    if version is None:
        return records
    return [StoredRecord(key, json.dumps({**json.loads(value), "version": version}).encode()) for key, value in records]


def _states(group: Group) -> dict[str, int]:
    """Return the states of all letters; index and topics must agree."""
    kinds = dlq_json(group, "summary", "--by", "state")["kinds"]
    exported = [json.loads(line)["state"] for line in dlq(group, "export").out.splitlines()]
    states = {str(kind["state"]): int(kind["letters"]) for kind in kinds}
    assert states == {state: exported.count(state) for state in set(exported)}
    return states


def _flat(done: Done) -> str:
    return " ".join(done.err.split())


def test_records_that_are_no_dead_letters(group: Group) -> None:
    """They are counted, never sent and never removed; letters before and behind them are."""
    group.prepare()
    dead_letter(group, range(2))
    group.cluster.produce(group.dead_letters, _GARBAGE)
    dead_letter(group, range(2, 6))
    for command in _READING:
        done = dlq(group, *command)
        assert done.code == 0, (command, done)
        assert "\x1b" not in done.out
    for command in (["list"], ["list", "--header", "a=b"], ["summary"]):
        found = dlq_json(group, *command)
        assert (found["ofOthers"], found["unreadable"]) == (1, 4), command
    assert "4 records that name no group are no dead letters" in dlq(group, "list").out
    for offset in range(1, 6):
        for more in ([], ["--json"], ["--raw", "value"]):
            shown = dlq(group, "show", f"{group.dead_letters}-0@{offset}", *more)
            assert shown.code == (exit_codes.FAILED if offset == 3 else 0), shown
        edited = dlq(group, "edit", f"{group.dead_letters}-0@{offset}", "--print")
        assert edited.code == exit_codes.FAILED, edited
    assert _states(group) == {"waiting": 6}
    assert dlq_json(group, "redrive", "--dry-run")["letters"] == 6
    assert dlq_json(group, "redrive", "--yes")["sent"] == 6
    assert sorted(sent(group).elements()) == list(range(6))
    assert dlq_json(group, "discard", "--state", "sent", "--yes")["setAside"] == 6
    for partition in dlq_json(group, "purge", "--yes")["partitions"]:
        stays = f"{group.dead_letters}-0@1 is not ours" if partition["partition"] == 0 else "nothing is left"
        assert partition["then"] == stays


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b'{"version":1,"type":"cancel","atMs":"soon"}',
        b"\xff\xfe",
        b"[]",
        b'{"version":1}',
    ],
)
def test_a_record_among_the_jobs(group: Group, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """All commands name it and go on. Its job is not sent, keeps its letters, and can be cancelled."""
    group.prepare()
    dead_letter(group, range(0, 8, 2))
    _write(group, "jobs", [*_job(group, "open", range(2)), StoredRecord(b"\xff", value), StoredRecord(b"open", value)])
    readable = b"version" not in value
    for command in _READING:
        caplog.clear()
        done = dlq(group, *command)
        assert done.code == 0, (command, done)
        assert f"{group.name}.dlq.jobs" in caplog.text, (command, done)
    found = dlq_json(group, "jobs")
    assert found["unreadable"]["records"] == 2
    assert found["unreadable"]["first"][1]["id"] == f"{group.name}.dlq.jobs-0@3"
    assert [job["state"] for job in found["jobs"]] == ["unfinished" if readable else "unreadable"]
    assert _states(group) == {"in_job": 2, "waiting": 2}
    assert dlq_json(group, "redrive", "--yes")["sent"] == 2
    assert sent(group) == {4: 1, 6: 1}
    if not readable:
        resumed = dlq(group, "resume", "open")
        assert resumed.code == exit_codes.FAILED
        assert "a record of it in" in _flat(resumed)
        assert dlq_json(group, "cancel", "open", "--yes")["state"] == "cancelled"
        assert _states(group) == {"waiting": 2, "sent": 2}


def test_a_job_of_a_newer_version(group: Group) -> None:
    """Its letters are no other job's; this version does not send it."""
    group.prepare()
    dead_letter(group, range(0, 8, 2))
    _write(group, "jobs", _job(group, "newer", range(2), version=9))
    assert _states(group) == {"in_job": 2, "waiting": 2}
    assert dlq_json(group, "redrive", "--yes")["sent"] == 2
    resumed = dlq(group, "resume", "newer")
    assert resumed.code == exit_codes.FAILED
    assert "version 9" in _flat(resumed)
    assert sent(group) == {4: 1, 6: 1}


@pytest.mark.parametrize(
    "value",
    [
        b'{"version":9,"type":"progress"}',
        pytest.param(b'{"version":1,"type":"progress","through":-7}', marks=pytest.mark.long),
    ],
)
def test_a_record_among_the_actions(group: Group, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Letters of its slice may have been sent: they stay, and are sent with --again only. All others are as before."""
    group.prepare()
    dead_letter(group, range(0, 8, 2))
    _write(group, "jobs", [*_job(group, "open", [0]), *_job(group, "other", [1])])
    _write(
        group, "actions", [StoredRecord(b"open/0", value), StoredRecord(b"\xff/x", value), StoredRecord(b"", b"\x00")]
    )
    for command in _READING:
        caplog.clear()
        done = dlq(group, *command)
        assert done.code == 0, (command, done)
        assert f"{group.name}.dlq.actions" in caplog.text, (command, done)
    assert _states(group) == {"sent": 1, "in_job": 1, "waiting": 2}
    assert dlq_json(group, "jobs")["jobs"][0]["contradictory"] == 1
    assert dlq_json(group, "purge", "--dry-run")["removed"] == 0
    assert dlq(group, "resume", "open").code == exit_codes.FAILED
    assert dlq_json(group, "resume", "other")["sent"] == 1
    assert dlq_json(group, "redrive", "--yes")["sent"] == 2
    assert sent(group) == {2: 1, 4: 1, 6: 1}
    assert dlq(group, "show", f"{group.dead_letters}-0@0").code == 0
    assert dlq_json(group, "cancel", "open", "--yes")["contradictory"] == 1
    assert (
        dlq_json(group, "redrive", "--again", "--state", "sent", "--id", f"{group.dead_letters}-0@0", "--yes")["sent"]
        == 1
    )


def test_an_outcome_that_cannot_be_read(group: Group) -> None:
    """Only the letter that it is about has no outcome."""
    group.prepare()
    dead_letter(group, range(0, 8, 2))
    job = dlq_json(group, "redrive", "--yes")["job"]
    outcome = outcome_record(RedriveMark(job, 0, 0, 1), Outcome.RECOVERED, 1)
    _write(group, "actions", [outcome, StoredRecord(outcome.key, b'{"version":1,"type":"outcome","offset":1}')])
    assert _states(group) == {"recovered": 1, "sent": 3}
    assert dlq_json(group, "purge", "--yes")["removed"] == 1


def test_a_summary_that_follows_goes_on(group: Group) -> None:
    """A record that cannot be read does not end it, and is reported once."""
    group.prepare()
    dead_letter(group, range(4))
    command = [*COMMAND, "dlq", "summary", "--json", "--by", "state", "--every", "200ms", "--config", str(group.file)]
    process = Process("summary", command, os.environ, group.folder / "summary.log", warm=True)
    group.processes.append(process)
    until(lambda: '"letters":4' in process.log.replace(" ", ""), "it shows what is there")
    _write(group, "jobs", [StoredRecord(b"x", b'{"version":1}')])
    _write(group, "actions", [StoredRecord(b"x/0", b"\xff")])
    group.cluster.produce(group.dead_letters, _GARBAGE)
    dead_letter(group, [4])
    until(lambda: '"letters":5' in process.log.replace(" ", ""), "it shows the new letter")
    until(lambda: '"unreadable":4' in process.log.replace(" ", ""), "it counts what is no letter")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(LONG_S) == 0, process.log
    assert "2 records of" in process.log or process.log.count("1 records of") == 1, process.log
