"""A committed offset that has expired halts its partition alone; nothing is repeated unless an operator accepts it."""

import json

import pytest

from tests.scenarios.cluster import Sent
from tests.scenarios.commands import topology
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until


def _born(group: Group, *topics: str) -> bool:
    """Whether the control topic knows of both partitions of these topics."""
    keys = {record.key for record in group.cluster.read(f"{group.name}.control")}
    return {f"partition/{topic}/{n}".encode() for topic in topics for n in range(2)} <= keys


def _expire(group: Group, topic: str) -> None:
    """Delete the committed offset of partition 0 of a topic, as Kafka does when a group was at zero for too long."""
    readers = {group.source: group.name, group.ready: group.name, group.tier("200ms"): f"{group.name}.scheduler"}
    kept = {each: group.cluster.committed(reader, each) for each, reader in readers.items()}
    reader = readers[topic]
    until(lambda: not group.cluster.members(reader), "no process runs")
    group.cluster.delete_group(reader)
    for each, offsets in kept.items():
        for (_, number), (offset, _) in offsets.items():
            if readers[each] == reader and (each, number) != (topic, 0):
                group.cluster.commit(reader, each, number, offset)


def _drop_saved(group: Group) -> None:
    """Make the control topic what it is when the last processes were killed."""
    records = {record.key: json.loads(record.value or b"") for record in group.cluster.read(f"{group.name}.control")}
    saved = {key: fields for key, fields in records.items() if fields.pop("metadata", None) is not None}
    assert len(saved) == 6, "source, ready topic and tier"
    group.cluster.produce(f"{group.name}.control", [Sent(json.dumps(saved[key]).encode(), key) for key in saved])


def _work(group: Group, *, saved: bool = False) -> None:
    """Let the group handle 20 records in two partitions and note its partitions; then stop it.

    Args:
        group: the group.
        saved: whether the positions stay saved.
    """
    # Without a name a process leaves its group when it stops.
    group.worker("w1" if saved else None)
    group.scheduler("s1" if saved else None)
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the start offsets are committed")
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in range(20)])
    group.settle()
    until(lambda: group.outputs() == exactly(range(20)), "all records are handled")
    until(lambda: _born(group, group.source, group.ready, group.tier("200ms")), "all partitions are noted")
    group.stop()
    if not saved:
        _drop_saved(group)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_an_expired_offset_of_a_source(group: Group, start: str) -> None:
    """Its records are neither repeated nor skipped, and it goes on without a restart once repeats are accepted."""
    port = free_port()
    group.prepare(kafka={"auto.offset.reset": start}, handler={"slots": 1})
    _work(group)
    _expire(group, group.source)
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    worker = group.worker()
    until(lambda: value_of(port, "redelivery_halted_partitions") == 1, "the partition is halted")
    group.cluster.produce(group.source, [script(n, ["ok"], partition=1) for n in range(100, 110)])
    until(lambda: group.outputs() == exactly([*range(20), *range(100, 110)]), "the other partition goes on")
    for text in (readiness(port), worker.log):
        assert f"{group.source}-0 is halted" in text
        assert "its committed offset has expired; up to 10 records would be handled again" in text
        assert "redelivery topology apply --accept-repeats" in text
    check = topology("check", file=group.file)
    assert (check.code, "one at the log start repeats up to 10" in check.out) == (0, True)
    assert topology("apply", file=group.file).code == 0
    assert (group.source, 0) not in group.cluster.committed(group.name, group.source)

    accepted = topology("apply", "--accept-repeats", file=group.file)
    assert accepted.code == 0, accepted.err
    assert f"~ {group.source}: offset of {group.name} in partition 0: expired -> 0, the log start" in accepted.out
    group.configure(metrics={})
    group.scheduler()
    until(lambda: all(group.outputs()[n] == 2 - n % 2 for n in range(20)), "the halted partition goes on")
    until(lambda: value_of(port, "redelivery_halted_partitions") == 0, "no partition is halted")
    assert worker.running
    group.stop()


@pytest.mark.parametrize("kind", ["ready", "tier"])
def test_an_expired_offset_of_an_internal_topic(group: Group, kind: str) -> None:
    """Redeliveries in other partitions are released and delivered; no released record is released again."""
    group.prepare()
    _work(group)
    topic = group.ready if kind == "ready" else group.tier("200ms")
    _expire(group, topic)
    running = [group.worker(), group.scheduler()]
    until(lambda: any(f"{topic}-0 is halted" in process.log for process in running), "the partition is halted")
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=1) for n in range(100, 110)])
    until(lambda: group.outputs() == exactly([*range(20), *range(100, 110)]), "the other partition goes on")
    accepted = topology("apply", "--accept-repeats", file=group.file)
    assert accepted.code == 0, accepted.err
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=0) for n in range(200, 210)])
    until(lambda: set(range(200, 210)) <= group.outputs().keys(), "the halted partition goes on")
    assert all(process.running for process in running)
    group.settle()
    group.stop()
    assert all(count == 1 for n, count in group.outputs().items() if n % 2 or n >= 100)


def test_a_group_that_stops_in_order_may_stay_at_zero_for_a_month(group: Group) -> None:
    """Each process saves its positions, so it does not matter when Kafka forgets them."""
    group.prepare(handler={"ordering": "unordered", "slots": 4}, kafka=SHORT_SESSION)
    _work(group, saved=True)
    for reader in (group.name, f"{group.name}.scheduler"):
        until(lambda reader=reader: not group.cluster.members(reader), "no process runs")  # type: ignore[misc]
        group.cluster.delete_group(reader)
    assert "expired" not in topology("check", file=group.file).out
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in range(20, 40)])
    worker, scheduler = group.worker(), group.scheduler()
    until(lambda: group.outputs() == exactly(range(40)), "the group goes on where it stopped")
    until(lambda: len(group.cluster.committed(group.name, group.source, group.ready)) == 4, "its offsets are committed")
    assert "goes on at the saved one" in worker.log
    assert "goes on at the saved one" in scheduler.log
    group.settle()
    group.stop()


def test_a_saved_position_is_dropped_when_its_partition_is_read_again(group: Group) -> None:
    """The process that reads on is killed: its last position is unknown, and the saved one would repeat records."""
    group.prepare(kafka=SHORT_SESSION)
    _work(group, saved=True)
    worker = group.worker()
    group.cluster.produce(group.source, [script(n, ["ok"], partition=0) for n in range(20, 40)])
    until(lambda: group.outputs() == exactly(range(40)), "the group goes on")
    worker.kill()
    _expire(group, group.source)
    worker = group.worker()
    until(lambda: f"{group.source}-0 is halted" in worker.log, "the partition is halted")
    group.cluster.produce(group.source, [script(n, ["ok"], partition=1) for n in range(40, 50)])
    until(lambda: group.outputs() == exactly(range(50)), "the other partition goes on")
    group.stop()
