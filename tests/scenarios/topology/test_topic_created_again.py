"""A topic that was deleted and created again is another topic: whatever was remembered, all its records are handled."""

import json

import pytest

from tests.scenarios.commands import redelivery, topology
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.running import Group, Process, exactly, script
from tests.scenarios.waiting import until

KEPT = {"retention.ms": "-1", "max.message.bytes": "1060000"}
"""What a tier and a ready topic must have."""


def create_again(group: Group, topic: str, config: dict[str, str] | None = None) -> None:
    """Delete a topic and create it again."""
    group.cluster.delete(topic)
    group.cluster.create(topic, partitions=2, config=config)


def status_faults(group: Group) -> list[str]:
    """Return what `redelivery status` reports."""
    faults: list[str] = json.loads(redelivery("status", "--json", file=group.file).out)["faults"]
    return faults


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_source_between_two_runs(group: Group, client: dict[str, str], start: str) -> None:
    """All 80 records of the new one, also those at offsets that the group has read of the older one.

    The worker warns once. `status` and `check` say it, until `apply` has ended the message.
    """
    group.prepare(kafka={**client, "auto.offset.reset": start})
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the worker has begun")
    group.send([["ok"]] * 50)
    until(lambda: group.outputs() == exactly(range(50)), "the older one is handled")
    worker.stop()
    create_again(group, group.source)
    group.send([["ok"]] * 80, first=100)
    found = f"{group.source} was deleted and created again; of the older topic the group had read partitions 0, 1"
    assert found in topology("check", file=group.file).out.replace(":", "")
    worker = group.worker()
    until(lambda: group.outputs() == exactly([*range(50), *range(100, 180)]), "the new one is handled")
    warned = f"topic {group.source} was deleted and created again: the group had read partition 0 (to offset "
    assert worker.own_log.count(warned) == 1
    until(lambda: any(found in each for each in status_faults(group)), "it is noted")
    until(lambda: "of an older topic of this name" in topology("apply", file=group.file).out, "it has been read")
    assert not any(found in each for each in status_faults(group))
    worker.stop()
    assert not any(found in each for each in status_faults(group))
    assert "of an older topic of this name" not in topology("apply", file=group.file).out
    worker = group.worker()
    group.send([["ok"]] * 10, first=200)
    until(lambda: group.outputs() == exactly([*range(50), *range(100, 180), *range(200, 210)]), "nothing is repeated")
    worker.stop()
    assert warned not in worker.own_log


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_source_while_a_worker_runs(group: Group, client: dict[str, str], start: str) -> None:
    """It had read the older one to offset 100 of each partition. None of these offsets is skipped in the new one."""
    group.prepare(kafka={**client, "auto.offset.reset": start})
    worker = group.worker()
    until(lambda: len(group.cluster.committed(group.name, group.source)) == 2, "the worker has begun")
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in range(200)])
    until(lambda: group.outputs() == exactly(range(200)), "the older one is handled")
    create_again(group, group.source)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in range(1000, 1400)])
    handled = {*range(200), *range(1000, 1400)}
    until(lambda: group.outputs().keys() == handled, "the new one is handled")
    assert worker.running
    assert f"topic {group.source} was deleted and created again" in worker.log
    worker.stop()
    assert max(group.outputs().values()) <= 2, "of the new one, what was read before it was noticed is read again"


def work(group: Group, numbers: range) -> list[Process]:
    """Let a worker and a scheduler handle records that fail once."""
    processes = [group.worker(), group.scheduler()]
    group.send([["raise", "ok"]] * len(numbers), first=numbers.start)
    until(lambda: set(numbers) <= group.outputs().keys(), "the records are redelivered")
    group.settle()
    return processes


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_tier_between_two_runs(group: Group, client: dict[str, str]) -> None:
    """All 400 redeliveries of the new tier come, not only those above the offsets of the older one."""
    group.prepare(kafka=client)
    for process in work(group, range(300)):
        process.stop()
    tier = group.tier("200ms")
    group.cluster.delete(tier)
    applied = topology("apply", file=group.file)
    assert f"~ {tier}: forgot partitions 0-1 of an older topic of this name" in applied.out
    worker = group.worker()
    group.send([["raise", "ok"]] * 400, first=1000)
    until(lambda: sum(group.cluster.ends(tier).values()) >= 400, "all have failed")
    scheduler = group.scheduler()
    until(lambda: group.outputs() == exactly([*range(300), *range(1000, 1400)]), "all are redelivered")
    worker.stop()
    scheduler.stop()


def test_a_tier_that_was_created_by_another_tool(group: Group) -> None:
    """No `apply` has withdrawn what was saved of the older one."""
    group.prepare()
    for process in work(group, range(300)):
        process.stop()
    create_again(group, group.tier("200ms"), KEPT)
    worker = group.worker()
    group.send([["raise", "ok"]] * 400, first=1000)
    until(lambda: sum(group.cluster.ends(group.tier("200ms")).values()) >= 400, "all have failed")
    scheduler = group.scheduler()
    until(lambda: group.outputs() == exactly([*range(300), *range(1000, 1400)]), "all are redelivered")
    worker.stop()
    scheduler.stop()


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_tier_and_a_ready_topic_while_the_group_runs(group: Group, client: dict[str, str]) -> None:
    """What fails later is redelivered, though both topics begin again at offset 0."""
    group.prepare(kafka=client)
    worker, scheduler = work(group, range(200))
    for topic in (group.tier("200ms"), group.ready):
        create_again(group, topic, KEPT)
    group.send([["raise", "ok"]] * 200, first=1000)
    until(lambda: group.outputs().keys() == {*range(200), *range(1000, 1200)}, "all are redelivered")
    assert worker.running
    assert scheduler.running
    group.stop()


def test_a_source_that_is_added_again_after_its_ready_topic_was_deleted(group: Group) -> None:
    """As docs/operations.md says for a removed source: all of its redeliveries come."""
    other = f"{group.name}.other"
    group.cluster.create(other, partitions=2)
    sources = [{"topic": topic, "value": {"format": "json"}} for topic in (group.source, other)]
    group.prepare(sources=sources)
    for process in work(group, range(100)):
        process.stop()
    group.configure(sources=sources[1:])
    group.cluster.delete(group.ready)
    rest = [group.worker(), group.scheduler()]
    group.cluster.produce(other, [script(n, ["raise", "ok"]) for n in range(500, 510)])
    until(lambda: set(range(500, 510)) <= group.outputs().keys(), "the other source is handled")
    for process in rest:
        process.stop()
    group.configure(sources=sources)
    assert topology("apply", file=group.file).code == 0
    work(group, range(1000, 1200))
    assert group.outputs() == exactly([*range(100), *range(500, 510), *range(1000, 1200)])
    group.stop()
