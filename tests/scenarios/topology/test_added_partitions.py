"""With ``auto.offset.reset: latest``, a partition that is added to a source is read from its start."""

import json

from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

LATEST = {"auto.offset.reset": "latest"}


def _send(group: Group, numbers: range, partition: int) -> None:
    group.cluster.produce(group.source, [script(n, ["ok"], partition=partition) for n in numbers])


def _control(group: Group) -> dict[str, dict[str, int]]:
    """The newest value of each key in the control topic."""
    records = group.cluster.read(f"{group.name}.control")
    return {(record.key or b"").decode(): json.loads(record.value or b"") for record in records}


def test_what_is_written_before_a_worker_sees_the_partition_is_handled(group: Group) -> None:
    """The partition is added while a worker runs."""
    group.prepare(kafka=LATEST)
    _send(group, range(5), 0)
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    group.cluster.grow(group.source, 3)
    _send(group, range(10, 60), 2)
    until(lambda: group.outputs() == exactly(range(10, 60)), "all records of the new partition are handled")
    assert worker.running
    group.stop()
    _send(group, range(60, 70), 2)
    group.worker()
    until(lambda: group.outputs() == exactly(range(10, 70)), "and those that come while no worker runs")


def test_what_is_written_while_no_worker_runs_is_handled(group: Group) -> None:
    """The partition is added while the group is at zero. What was there before the group is skipped."""
    group.prepare(kafka=LATEST)
    _send(group, range(5), 0)
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    worker.stop()
    group.cluster.grow(group.source, 3)
    _send(group, range(10, 60), 2)
    group.worker()
    until(lambda: group.outputs() == exactly(range(10, 60)), "all records of the new partition are handled")
    group.stop()


def test_a_group_without_a_control_topic_gets_one(group: Group) -> None:
    """A group of an earlier version has none. `apply` creates it while the group runs, and knows what is older."""
    group.prepare(kafka=LATEST)
    group.cluster.delete(f"{group.name}.control")
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    checked = topology("check", file=group.file)
    assert (checked.code, f"warn: {group.name}.control: does not exist" in checked.out) == (0, True)
    applied = topology("apply", file=group.file)
    assert (applied.code, f"+ {group.name}.control: created, 1 partition" in applied.out) == (0, True), applied.err
    group.cluster.grow(group.source, 3)
    _send(group, range(10, 60), 2)
    until(lambda: group.outputs() == exactly(range(10, 60)), "all records of the new partition are handled")
    assert worker.running
    group.stop()


def test_the_control_topic_says_what_the_group_knows(group: Group) -> None:
    """Sources and tiers by `apply`, partitions by the members that commit in them, each once."""
    group.prepare(partitions=1)
    group.send([["raise", "ok"]] * 3)
    group.worker()
    group.scheduler()
    born = {group.source, group.ready, group.tier("200ms")}
    until(lambda: {f"partition/{topic}/0" for topic in born} <= _control(group).keys(), "all partitions are noted")
    group.settle()
    group.stop()
    found = _control(group)
    assert found.keys() == {"feature-level", "width", f"source/{group.source}", f"tier/{group.tier('200ms')}"} | {
        f"partition/{topic}/0" for topic in born
    }
    assert found[f"source/{group.source}"]["partitions"] == 1
    group.worker()
    until(lambda: group.cluster.members(group.name), "a worker has joined again")
    group.send([["ok"]], first=10)
    group.settle()
    group.stop()
    again = _control(group)
    assert again.keys() == found.keys()
    assert [again[key] for key in again if not key.startswith("partition/")] == [
        found[key] for key in again if not key.startswith("partition/")
    ]
