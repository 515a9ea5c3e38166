"""Retention that empties a source stops no worker: idle positions are safe, a deleted one halts one partition alone."""

import pytest

from tests.scenarios.commands import topology
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.running import Group, exactly, leave_the_first_unfinished, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until


def _transaction(group: Group, numbers: range, partition: int = 0) -> None:
    """Write records that succeed in one transaction."""
    group.cluster.transact(group.source, [script(n, ["ok"], partition=partition) for n in numbers])


def _empty(group: Group) -> None:
    """Delete everything in partition 0 of the source, as its retention does."""
    end = group.cluster.ends(group.source)[group.source, 0]
    group.cluster.delete_before(group.source, 0, end)
    assert group.cluster.starts(group.source)[group.source, 0] == end


def _committed(group: Group) -> int:
    """Return the committed offset of partition 0 of the source."""
    return group.cluster.committed(group.name, group.source)[group.source, 0][0]


def test_an_idle_position_lies_behind_the_marker(group: Group) -> None:
    """The end of an idle partition is committed, so nothing changes when retention empties the log."""
    group.prepare(partitions=1)
    worker = group.worker()
    _transaction(group, range(3))
    until(
        lambda: group.cluster.committed(group.name, group.source) == {(group.source, 0): (4, "")},
        "the end is committed",
    )
    _empty(group)
    _transaction(group, range(3, 6))
    until(lambda: _committed(group) == 8, "the worker goes on")
    worker.stop()
    _empty(group)
    check = topology("check", file=group.file)
    assert (check.code, "below the log start" in check.out) == (0, False)
    group.worker()
    _transaction(group, range(6, 9))
    until(lambda: len(group.outputs()) == 9, "a worker that starts goes on, too")
    group.stop()
    assert group.outputs() == exactly(range(9))


def test_an_aborted_transaction_is_passed(group: Group) -> None:
    """Its records take up offsets that no reader sees."""
    group.prepare(partitions=1)
    group.cluster.abort(group.source, [script(n, ["ok"]) for n in range(200)])
    group.worker()
    until(
        lambda: group.cluster.committed(group.name, group.source) == {(group.source, 0): (201, "")},
        "the end is committed",
    )
    _empty(group)
    group.send([["ok"]] * 3)
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(3))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_deleted_position_halts_its_partition_alone(group: Group, protocol: dict[str, str]) -> None:
    """It shows everywhere, claims no loss, and goes on without a restart once an operator accepts the loss."""
    port = free_port()
    group.prepare(kafka=protocol)
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    _transaction(group, range(3))
    _empty(group)
    group.cluster.commit(group.name, group.source, 0, 3)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=1) for n in range(100, 110)])
    worker = group.worker()
    until(lambda: value_of(port, "redelivery_halted_partitions") == 1, "the partition is halted")
    until(lambda: group.outputs() == exactly(range(100, 110)), "the other partition goes on")
    # The broker refuses this output, so all partitions are rewound.
    group.cluster.produce(group.source, [script(110, ["big 3000000", "ok"], partition=1)])
    group.configure(metrics={})
    group.scheduler()
    until(lambda: group.outputs() == exactly(range(100, 111)), "the other partition still goes on")

    name = f"{group.source}-0"
    for text in (readiness(port), worker.log):
        assert f"{name} is halted" in text
        assert "its next offset 3 does not exist any more; whether records were lost is unknown" in text
        assert "redelivery topology apply --accept-loss" in text
    check = topology("check", file=group.file)
    assert check.code == 0
    assert "whether records were deleted with them before the group read them is unknown" in check.out
    assert "redelivery topology apply --accept-loss" in check.out
    unchanged = topology("apply", file=group.file)
    assert (unchanged.code, unchanged.out) == (0, "nothing to do\n")
    dry = topology("apply", "--accept-loss", "--dry-run", file=group.file)
    assert "would change offset" in dry.out
    assert _committed(group) == 3

    moved = topology("apply", "--accept-loss", file=group.file)
    assert moved.code == 0, moved.err
    assert f"~ {group.source}: offset of {group.name} in partition 0: 3 -> 4, the log start" in moved.out
    _transaction(group, range(3, 6))
    until(lambda: group.outputs() == exactly([*range(3, 6), *range(100, 111)]), "the halted partition goes on")
    until(lambda: value_of(port, "redelivery_halted_partitions") == 0, "no partition is halted")
    until(lambda: readiness(port) == "ready\n", "the probe names no partition")
    assert worker.running
    group.stop()


def test_what_was_fetched_before_the_deletion_is_finished(group: Group) -> None:
    """A running worker whose next offset is deleted handles what it holds, halts the partition, and can go on later."""
    port = free_port()
    group.prepare(partitions=1, limits={"batch": 10, "bufferRecords": 40}, handler={"slots": 1})
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    deleted = group.folder / "deleted"
    group.send([[f"wait {deleted}"], *[["ok"]] * 999])
    worker = group.worker()
    until(lambda: group.deliveries.counts()[0] == 1, "the first call begins")
    group.cluster.delete_before(group.source, 0, 900)
    deleted.touch()
    until(lambda: value_of(port, "redelivery_halted_partitions") == 1, "the partition is halted")
    until(lambda: 1 < len(group.outputs()) == _committed(group), "what was fetched is handled and committed")

    moved = topology("apply", "--accept-loss", file=group.file)
    assert moved.code == 0, moved.err
    until(lambda: 999 in group.outputs(), "the partition goes on at the log start")
    assert worker.running
    group.stop()
    held = [n for n in group.outputs() if n < 900]
    assert sorted(held) == list(range(len(held)))
    assert len(held) < 900
    assert group.outputs() == exactly([*held, *range(900, 1000)])


def test_what_is_finished_beyond_the_log_start_stays_finished(group: Group) -> None:
    """The new commit keeps what the metadata of the deleted position says about the records that are left."""
    leave_the_first_unfinished(group)
    group.cluster.delete_before(group.source, 0, 10)
    assert topology("apply", "--accept-loss", file=group.file).code == 0
    group.worker()
    group.send([["ok"]], first=20)
    until(lambda: 20 in group.outputs(), "the partition goes on")
    group.stop()
    assert group.outputs() == exactly(range(1, 21))
