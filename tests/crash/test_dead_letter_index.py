"""A process that writes the index of dead letters may be killed at any instruction: the index stays whole."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from kafka_redelivery.dead_letters.index import files
from kafka_redelivery.dead_letters.index.files import Manifest
from kafka_redelivery.dead_letters.index.index import Index
from tests.scenarios.redriving import dead_letter, dlq_json, in_topics, settings_of
from tests.scenarios.running import Group, Process
from tests.scenarios.waiting import LONG_S

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]

_STEPS = 400
"""More than a refresh has."""

_STRIDE, _STRIDE_OF_SAMPLE = 3, 42
"""Of the steps, each third one is tried, or a few of them in a sample."""


def _letters(index: Index) -> dict[str, tuple[str, int]]:
    found = {row.id: (str(row.state), row.sends) for row in index.select()}
    index.close()
    return found


def _expected(group: Group) -> dict[str, tuple[str, int]]:
    return {name: (state, sends) for name, (state, _, sends) in in_topics(settings_of(group)).items()}


def _prepared(group: Group) -> tuple[Path, dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Build an index, and change the topics; return its folder, and what it says before and after a refresh."""
    group.prepare()
    dead_letter(group, range(25))
    dlq_json(group, "redrive", "--id", f"{group.dead_letters}-0@2", "--yes")
    folder = group.folder / "built"
    index = Index.open(settings_of(group), path=folder)
    index.refresh()
    before = _letters(index)
    dead_letter(group, range(25, 70))
    dlq_json(group, "discard", "--id", f"{group.dead_letters}-1@4", "--yes")
    group.cluster.delete_before(group.dead_letters, 0, 6)
    return folder, before, _expected(group)


def _killed(group: Group, folder: Path, step: int) -> Process:
    command = ["-m", "tests.crash.indexing", str(group.file), str(folder), str(step)]
    return Process(f"index-{step}", command, os.environ, group.folder / f"index-{step}.log")


def _assert_whole(
    group: Group,
    folder: Path,
    before: object,
    after: dict[str, tuple[str, int]],
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader finds a published state, a refresh completes it, and no file is left over."""
    index = Index.open(settings_of(group), path=folder)
    found = index._folder.manifest()
    assert isinstance(found, Manifest), when
    assert index._folder.is_intact(found), when
    assert set(_letters(index)) <= set(after) | set(before), when  # type: ignore[call-overload]
    index.refresh()
    assert _letters(index) == after, when
    monkeypatch.setattr(files, "GRACE_S", 0.0)
    for _ in range(2):  # the first begins the time of what is replaced
        index.refresh()
    manifest = index._folder.manifest()
    assert manifest is not None
    left = {each.name for each in index.path.iterdir()} - {"manifest", "writer.lock"}
    assert left == {each.name for each in manifest.files}, when


@pytest.mark.timeout(900)
def test_killed_before_each_step(group: Group, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it writes, synchronises, renames, deletes or locks a file, or DuckDB runs a statement."""
    built, before, after = _prepared(group)
    stride = _STRIDE if pytestconfig.getoption("crash") else _STRIDE_OF_SAMPLE
    for step in range(1, _STEPS, stride):
        folder = group.folder / f"step-{step}"
        shutil.copytree(built, folder)
        code = _killed(group, folder, step).wait(LONG_S)
        assert code in {0, -signal.SIGKILL}, step
        _assert_whole(group, folder, before, after, f"killed before step {step}", monkeypatch)
        shutil.rmtree(folder)
        if code == 0:
            assert step > 30, "too few steps to prove anything"
            return
    raise AssertionError(f"more than {_STEPS} steps")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_killed_at_any_time(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """From outside, also in the middle of a file."""
    built, before, after = _prepared(group)
    for attempt in range(8):
        folder = group.folder / f"time-{attempt}"
        shutil.copytree(built, folder)
        process = _killed(group, folder, 0)
        deadline = time.monotonic() + 60
        written = len(list(built.rglob("*.parquet")))
        while len(list(folder.rglob("*.parquet"))) <= written and process.running and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(attempt * 0.03)
        if process.running:
            process.kill()
        _assert_whole(group, folder, before, after, f"attempt {attempt}", monkeypatch)
