"""Several people and processes send the same dead letters at the same time; each letter is sent exactly once."""

import os
import signal
from dataclasses import replace

import pytest

from tests.crash.crashing import ended
from tests.crash.redriving import LETTERS, RATE, prepare, suspended_at
from tests.scenarios.redriving import died, dlq_json, sent
from tests.scenarios.running import Group, exactly
from tests.scenarios.words import script_with_text

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full]

_IN_A_CHUNK = ["produce:after:14", "commit:before:2"]
"""With copies that are produced, before the progress is; and with the progress, before the commit."""

_SOME = ("--key", "k0", "--key", "k1", "--key", "k2")


@pytest.mark.parametrize("step", ["init:after:1", "commit:after:1", *_IN_A_CHUNK, "commit:after:2"])
def test_two_operators_with_overlapping_selections(group: Group, step: str) -> None:
    """One creates and runs a job while the other one is anywhere in his; no letter is in both jobs."""
    with ended(group):
        prepare(group)
        first = suspended_at(group, step, "redrive", "--yes", *RATE)
        second = dlq_json(group, "redrive", "--yes", *_SOME)
        took = second["sent"] if second["job"] else 0
        assert (took > 0) == (step == "init:after:1"), "whose job is first in the log has all letters"
        os.kill(first.pid, signal.SIGCONT)
        code = first.wait(60)
        job = next(each for each in dlq_json(group, "jobs")["jobs"] if each["job"] != second["job"])
        if code:  # its transaction was open for too long
            assert "is continued elsewhere" in first.log
            job = dlq_json(group, "resume", job["job"])
        assert (job["state"], job["sent"], job["inOtherJobs"]) == ("done", LETTERS - took, took)
        assert sent(group) == exactly(range(LETTERS))


@pytest.mark.parametrize("step", ["init:after:2", *_IN_A_CHUNK, "commit:after:2", "commit:after:3"])
def test_two_processes_on_one_job(group: Group, step: str) -> None:
    """The newer one takes the job over and ends it. The older one is fenced, or finds nothing left to send."""
    with ended(group):
        prepare(group)
        older = suspended_at(group, step, "redrive", "--yes", *RATE)
        (job,) = dlq_json(group, "jobs")["jobs"]
        newer = dlq_json(group, "resume", job["job"])
        assert (newer["state"], newer["sent"]) == ("done", LETTERS)
        os.kill(older.pid, signal.SIGCONT)
        code = older.wait(60)
        assert (code, "is continued elsewhere" in older.log) in {(1, True), (0, False)}, older.log
        assert sent(group) == exactly(range(LETTERS))


@pytest.mark.parametrize("step", ["init:before:3", "init:before:4"])
def test_taken_over_while_a_producer_is_replaced(group: Group, step: str) -> None:
    """A letter fits with better compression only. The older one takes its id back, and finds nothing left to send."""
    with ended(group):
        prepare(group, 0)
        letters = [died(group, n) for n in range(0, 20, 2)]  # in one slice
        letters[3] = replace(letters[3], value=script_with_text(6, ["ok"], 20_000).value)
        group.cluster.produce(group.dead_letters, letters)
        group.cluster.alter(group.ready, max_message_bytes="10000")
        older = suspended_at(group, step, "redrive", "--yes")
        (job,) = dlq_json(group, "jobs")["jobs"]
        assert (job["state"], job["sent"]) == ("unfinished", 0)
        newer = dlq_json(group, "resume", job["job"])
        assert (newer["state"], newer["sent"]) == ("done", 10)
        os.kill(older.pid, signal.SIGCONT)
        assert older.wait(60) == 0, older.log
        assert sent(group) == exactly(range(0, 20, 2))


@pytest.mark.parametrize("step", _IN_A_CHUNK)
def test_a_job_is_cancelled_in_a_chunk(group: Group, step: str) -> None:
    """The chunk is aborted. Its letters and all later ones are free, and the process that ran the job ends."""
    with ended(group):
        prepare(group)
        running = suspended_at(group, step, "redrive", "--yes", *RATE)
        (job,) = dlq_json(group, "jobs")["jobs"]
        cancelled = dlq_json(group, "cancel", job["job"], "--yes")
        assert (cancelled["state"], cancelled["sent"]) == ("cancelled", 0)
        os.kill(running.pid, signal.SIGCONT)
        assert running.wait(60) == 1
        assert f"job {job['job']} is cancelled: 0 of {LETTERS} letters sent" in running.log
        assert not sent(group)
        assert dlq_json(group, "redrive", "--yes")["sent"] == LETTERS
        assert sent(group) == exactly(range(LETTERS))
