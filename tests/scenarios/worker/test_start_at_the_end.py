"""With ``auto.offset.reset: latest``, no record is delivered before the group has committed where it starts."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.scenarios import hanging_commits
from tests.scenarios.running import Group, Process, exactly
from tests.scenarios.waiting import until


@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_new_group_handles_what_is_written_after_its_start(group: Group, mode: str) -> None:
    """It skips what was written before."""
    group.prepare(kafka={"auto.offset.reset": "latest"}, mode=mode)
    group.send([["ok"]] * 10)
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    group.send([["ok"]] * 10, first=10)
    group.settle()
    worker.kill()
    group.send([["ok"]] * 10, first=20)
    group.worker()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(10, 30))


@pytest.fixture
def uncommitted(group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Process, Path]:
    """A worker that owns a partition with five records, and the file while which exists it commits nothing.

    Five more records come after its start.
    """
    hanging = tmp_path / "hanging"
    hanging.touch()
    monkeypatch.setenv(hanging_commits.FILE, str(hanging))
    group.prepare(partitions=1, kafka={"auto.offset.reset": "latest"})
    group.send([["ok"]] * 5)
    worker = group.worker(program=hanging_commits.PROGRAM)
    until(lambda: "starts at offset 5" in worker.log, "the worker owns its partition")
    group.send([["ok"]] * 5, first=5)
    return worker, hanging


def test_no_delivered_record_is_skipped_after_a_crash_before_the_first_commit(
    group: Group, uncommitted: tuple[Process, Path]
) -> None:
    """The successor starts at the end that the log has by then, so none of the records before it may have begun."""
    worker, _ = uncommitted
    with suppress(AssertionError):
        until(group.deliveries.counts, "the records are delivered", within_s=5)
    worker.kill()

    successor = group.worker()
    until(lambda: group.cluster.committed(group.name, group.source), "its start offset is committed")
    group.send([["ok"]] * 5, first=10)
    group.settle()
    successor.stop()
    assert group.outputs() == exactly(range(10, 15))
    assert set(group.deliveries.counts()) == set(range(10, 15))


def test_what_comes_during_a_slow_first_commit_is_handled(group: Group, uncommitted: tuple[Process, Path]) -> None:
    """The worker starts at the end that the log had when it got the partition."""
    _, hanging = uncommitted
    hanging.unlink()
    until(lambda: len(group.deliveries.counts()) == 5, "the records are delivered")
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(5, 10))
