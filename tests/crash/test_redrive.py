"""`redelivery dlq redrive`, killed before or after each of its writes, sends each letter exactly once."""

import json
import os
from pathlib import Path

import pytest

from tests.crash.crashing import ended
from tests.crash.load import TRANSACTION_MS
from tests.crash.points import BOTH
from tests.crash.program import PROGRAM
from tests.scenarios.redriving import dead_letter, dlq_json, sent
from tests.scenarios.running import SIGKILLED, Group, Process, exactly

_LETTERS = 80
"""In two slices, each of two chunks with 20 letters and their progress."""

_STEPS = {
    "the job": [("init", 1), ("begin", 1), ("produce", 1), ("produce", 2), ("commit", 1)],
    "the first chunk": [("init", 2), ("begin", 2), ("produce", 4), ("produce", 14), ("produce", 24), ("commit", 2)],
    "the last chunk of a slice": [("begin", 3), ("produce", 45), ("commit", 3)],
    "the next slice": [("init", 3), ("begin", 4), ("commit", 4)],
    "the end of the job": [("produce", 87), ("commit", 5)],
}
_SAMPLE = {("commit", "after", 1), ("produce", "after", 14)}
"""What every test run tries."""

_POINTS = [
    pytest.param(f"{step}:{when}:{n}:die", id=f"{part}-{when}-{step}-{n}".replace(" ", "_"), marks=marks)
    for part, steps in _STEPS.items()
    for step, n in steps
    for when in BOTH
    for marks in ([] if (step, when, n) in _SAMPLE else [pytest.mark.full],)
]


def _prepare(group: Group) -> None:
    group.prepare(kafka={"producer.transaction.timeout.ms": TRANSACTION_MS})
    dead_letter(group, range(_LETTERS))


def _start(group: Group, trap: str, *arguments: str) -> tuple[Process, Path]:
    """Start `redelivery dlq` with a trap; return it and the file that it writes when the trap acts."""
    name = f"dlq-{len(group.processes)}"
    mark = group.folder / f"mark-{name}"
    command = [*PROGRAM, trap, str(mark), "dlq", *arguments, "--config", str(group.file)]
    process = Process(name, command, os.environ, group.folder / f"{name}.log")
    group.processes.append(process)
    return process, mark


def _die(group: Group, trap: str, *arguments: str) -> None:
    """Run `redelivery dlq` until it dies at a step."""
    process, mark = _start(group, trap, *arguments)
    assert process.wait(45) == SIGKILLED, process.log
    assert mark.exists()


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize("trap", _POINTS)
def test_death_at(group: Group, trap: str) -> None:
    """Its successor sends what is left: by `resume` if there is a job, by `redrive` if there is none."""
    with ended(group):
        _prepare(group)
        _die(group, trap, "redrive", "--yes", "--rate", "80")
        jobs = dlq_json(group, "jobs")["jobs"]
        assert bool(jobs) is (trap not in _BEFORE_THE_JOB)
        before = sent(group)
        assert set(before.values()) <= {1}
        if jobs and jobs[0]["state"] == "unfinished":
            assert jobs[0]["sent"] == before.total(), "what is sent and what is said about it are one write"
            result = dlq_json(group, "resume", jobs[0]["job"])
            assert (result["state"], result["sent"]) == ("done", _LETTERS)
        elif not jobs:
            assert not before
            dlq_json(group, "redrive", "--yes")
        assert sent(group) == exactly(range(_LETTERS))
        assert dlq_json(group, "redrive", "--yes")["sentBefore"] == _LETTERS


_BEFORE_THE_JOB = {f"{step}:{when}:{n}:die" for step, n in _STEPS["the job"] for when in BOTH} - {"commit:after:1:die"}


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "n"), [("init", 1), ("commit", 1), ("init", 2), ("commit", 2), ("init", 3), ("commit", 3)]
)
@pytest.mark.parametrize("when", BOTH)
def test_death_of_the_one_who_cancels(group: Group, step: str, when: str, n: int) -> None:
    """Cancelling again completes it, and whatever was not sent is sent by the next job."""
    with ended(group):
        _prepare(group)
        _die(group, "commit:after:2:die", "redrive", "--yes", "--rate", "80")
        (job,) = dlq_json(group, "jobs")["jobs"]
        _die(group, f"{step}:{when}:{n}:die", "cancel", job["job"])
        cancelled = dlq_json(group, "cancel", job["job"])
        assert (cancelled["state"], cancelled["sent"]) == ("cancelled", 20)
        assert dlq_json(group, "redrive", "--yes")["sent"] == _LETTERS - 20
        assert sent(group) == exactly(range(_LETTERS))


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.full
def test_commits_with_an_unknown_outcome(group: Group) -> None:
    """A commit that times out for the process, and has reached Kafka, is not repeated."""
    with ended(group):
        _prepare(group)
        process, mark = _start(group, "produce:after:30:unheard", "redrive", "--yes", "--rate", "80", "--json")
        assert process.wait(60) == 0, process.log
        assert mark.exists()
        assert json.loads(process.log[process.log.index('{\n  "ok"') :])["sent"] == _LETTERS
        assert sent(group) == exactly(range(_LETTERS))
