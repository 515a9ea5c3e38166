"""`redelivery dlq edit`, killed before or after each of its writes, sends the edited value once, never the original."""

import pytest

from tests.crash.crashing import ended
from tests.crash.load import TRANSACTION_MS
from tests.crash.points import BOTH
from tests.crash.redriving import start
from tests.scenarios.redriving import dead_letter, dlq_json
from tests.scenarios.running import SIGKILLED, Group
from tests.scenarios.waiting import LONG_S

_STEPS = [("init", 1), ("begin", 1), ("produce", 1), ("produce", 2), ("produce", 3), ("commit", 1)]
"""Of the job: its specification, its letter, its value."""

_SENDING = [("init", 2), ("begin", 2), ("produce", 4), ("produce", 5), ("commit", 2)]
"""Of the copy and the progress."""

_SAMPLE = {("commit", "before", 2)}
"""What every test run tries."""

_BEFORE_THE_JOB = {f"{step}:{when}:{n}:die" for step, n in _STEPS for when in BOTH} - {"commit:after:1:die"}
_EDITED = b'{"n": 0, "do": ["ok"], "edited": true}'


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize(
    "trap",
    [
        pytest.param(f"{step}:{when}:{n}:die", id=f"{when}-{step}-{n}", marks=marks)
        for step, n in (*_STEPS, *_SENDING)
        for when in BOTH
        for marks in ([] if (step, when, n) in _SAMPLE else [pytest.mark.full],)
    ],
)
def test_death_at(group: Group, trap: str) -> None:
    """Without a job nothing is sent, and the edit is created again; with one, `resume` sends the edited value."""
    with ended(group):
        group.prepare(kafka={"producer.transaction.timeout.ms": TRANSACTION_MS})
        dead_letter(group, range(2))
        name, file = f"{group.dead_letters}-0@0", group.folder / "edited.json"
        file.write_bytes(_EDITED)
        process, mark = start(group, trap, "edit", name, "--file", str(file), "--yes")
        assert process.wait(LONG_S) == SIGKILLED, process.log
        assert mark.exists()
        jobs = dlq_json(group, "jobs")["jobs"]
        assert bool(jobs) is (trap not in _BEFORE_THE_JOB)
        before = [record.value for record in group.cluster.read(group.ready)]
        if jobs:
            assert (jobs[0]["kind"], jobs[0]["sent"]) == ("edit", len(before))
            if jobs[0]["state"] == "unfinished":
                assert before == []
                file.unlink()  # the job has all that it needs
                assert dlq_json(group, "resume", jobs[0]["job"])["sent"] == 1
        else:
            assert before == []
            assert dlq_json(group, "edit", name, "--file", str(file), "--yes")["sent"] == 1
        group.cluster.wait_for_markers(group.ready)
        assert [record.value for record in group.cluster.read(group.ready)] == [_EDITED]
        assert dlq_json(group, "show", name)["state"] == "sent"
