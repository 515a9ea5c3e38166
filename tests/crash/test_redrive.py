"""`redelivery dlq redrive`, killed before or after each of its writes, sends each letter exactly once."""

import json

import pytest

from tests.crash.crashing import ended
from tests.crash.points import BOTH
from tests.crash.redriving import LETTERS, RATE, prepare, start
from tests.scenarios.redriving import dlq_json, sent
from tests.scenarios.running import SIGKILLED, Group, exactly
from tests.scenarios.waiting import LONG_S

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


def _die(group: Group, trap: str, *arguments: str) -> None:
    """Run `redelivery dlq` until it dies at a step."""
    process, mark = start(group, trap, *arguments)
    assert process.wait(LONG_S) == SIGKILLED, process.log
    assert mark.exists()


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize("trap", _POINTS)
def test_death_at(group: Group, trap: str) -> None:
    """Its successor sends what is left: by `resume` if there is a job, by `redrive` if there is none."""
    with ended(group):
        prepare(group)
        _die(group, trap, "redrive", "--yes", *RATE)
        jobs = dlq_json(group, "jobs")["jobs"]
        assert bool(jobs) is (trap not in _BEFORE_THE_JOB)
        before = sent(group)
        assert set(before.values()) <= {1}
        if jobs and jobs[0]["state"] == "unfinished":
            assert jobs[0]["sent"] == before.total(), "what is sent and what is said about it are one write"
            result = dlq_json(group, "resume", jobs[0]["job"])
            assert (result["state"], result["sent"]) == ("done", LETTERS)
        elif not jobs:
            assert not before
            dlq_json(group, "redrive", "--yes")
        group.cluster.wait_for_markers(group.ready)
        assert sent(group) == exactly(range(LETTERS))
        assert dlq_json(group, "redrive", "--yes")["sentBefore"] == LETTERS


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
        prepare(group)
        _die(group, "commit:after:2:die", "redrive", "--yes", *RATE)
        (job,) = dlq_json(group, "jobs")["jobs"]
        _die(group, f"{step}:{when}:{n}:die", "cancel", job["job"], "--yes")
        cancelled = dlq_json(group, "cancel", job["job"], "--yes")
        assert (cancelled["state"], cancelled["sent"]) == ("cancelled", 20)
        assert dlq_json(group, "redrive", "--yes")["sent"] == LETTERS - 20
        assert sent(group) == exactly(range(LETTERS))


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.full
def test_commits_with_an_unknown_outcome(group: Group) -> None:
    """A commit that times out for the process, and has reached Kafka, is not repeated."""
    with ended(group):
        prepare(group)
        process, mark = start(group, "produce:after:30:unheard", "redrive", "--yes", *RATE, "--json")
        assert process.wait(60) == 0, process.log
        assert mark.exists()
        assert json.loads(process.log[process.log.index('{\n  "ok"') :])["sent"] == LETTERS
        assert sent(group) == exactly(range(LETTERS))
