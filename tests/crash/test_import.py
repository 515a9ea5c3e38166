"""`redelivery dlq import`, killed before or after each of its writes, imports each letter exactly once."""

import os
import signal
from pathlib import Path

import pytest

from kafka_redelivery.topology.redrive.job import CHUNK
from tests.crash.crashing import ended
from tests.crash.points import BOTH
from tests.crash.redriving import prepare, start, suspended_at
from tests.scenarios.redriving import dlq, dlq_json, sent
from tests.scenarios.running import SIGKILLED, Group, exactly
from tests.scenarios.waiting import LONG_S, until

_LETTERS = CHUNK + 20
"""In two chunks."""

_STEPS = {
    "the first chunk": [("init", 1), ("begin", 1), ("produce", 1), ("produce", 30), ("produce", CHUNK), ("commit", 1)],
    "the last chunk": [("begin", 2), ("produce", CHUNK + 10), ("commit", 2)],
}
_SAMPLE = {("commit", "after", 1)}
"""What every test run tries."""

_POINTS = [
    pytest.param(f"{step}:{when}:{n}:die", done, id=f"{part}-{when}-{step}-{n}".replace(" ", "_"), marks=marks)
    for chunk, (part, steps) in enumerate(_STEPS.items())
    for step, n in steps
    for when in BOTH
    for done in [min(_LETTERS, CHUNK * (chunk + ((step, when) == ("commit", "after"))))]
    for marks in ([] if (step, when, n) in _SAMPLE else [pytest.mark.full],)
]


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.parametrize(("trap", "done"), _POINTS)
def test_death_at(group: Group, trap: str, done: int) -> None:
    """The next import leaves out the ``done`` letters that are committed, and imports the rest."""
    with ended(group):
        file = _exported(group)
        process, mark = start(group, trap, "import", file, "--yes")
        assert process.wait(LONG_S) == SIGKILLED, process.log
        assert mark.exists()
        assert dlq_json(group, "import", file, "--yes")["letters"] == _LETTERS - done
        _assert_each_is_imported_once(group, file)


@pytest.mark.kafka
@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("step", ["init:after:1", "produce:after:30", "commit:before:1", "commit:after:1"])
def test_two_imports_of_one_file(group: Group, step: str) -> None:
    """The newer one aborts the chunk of the older one, which is fenced and says so, or finds nothing left."""
    with ended(group):
        file = _exported(group)
        older = suspended_at(group, step, "import", file, "--yes")
        done = CHUNK if step == "commit:after:1" else 0
        assert dlq_json(group, "import", file, "--yes")["letters"] == _LETTERS - done
        os.kill(older.pid, signal.SIGCONT)
        code = older.wait(60)
        assert (code, "another import for this group has begun" in older.log) in {(1, True), (0, False)}, older.log
        _assert_each_is_imported_once(group, file)


def _exported(group: Group) -> str:
    """Create dead letters, export them to a file, and delete them; return its name."""
    prepare(group, _LETTERS)
    file: Path = group.folder / "letters.jsonl"
    file.write_text(dlq(group, "export").out, encoding="utf-8")
    for (_, partition), end in group.cluster.ends(group.dead_letters).items():
        group.cluster.delete_before(group.dead_letters, partition, end)
    return str(file)


def _assert_each_is_imported_once(group: Group, file: str) -> None:
    assert dlq_json(group, "import", file, "--yes")["letters"] == 0
    assert dlq_json(group, "list")["letters"] == _LETTERS
    assert dlq_json(group, "redrive", "--yes")["sent"] == _LETTERS
    # Kafka lets readers see a transaction a little later than it answers the commit.
    until(lambda: sent(group).total() >= _LETTERS, "the last chunk can be read")
    assert sent(group) == exactly(range(_LETTERS))
