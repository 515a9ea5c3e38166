"""A source gets more partitions and a delay changes while workers and schedulers run: none of them stops."""

import pytest

from tests.scenarios.commands import topology
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.waiting import until


def _in_new_partitions(group: Group, numbers: range, *do: str) -> None:
    """Write records into the partitions 2 and 3 of the source."""
    group.cluster.produce(group.source, [script(n, do, partition=2 + n % 2) for n in numbers])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_source_grows(group: Group, protocol: dict[str, str]) -> None:
    """Its new partitions are read within seconds, also before ``topology apply``, which works with running members."""
    group.prepare(kafka=protocol)
    running = [group.worker(), group.scheduler()]
    group.send([["raise", "ok"]] * 10)
    until(lambda: group.outputs() == exactly(range(10)), "the group works")

    group.cluster.grow(group.source, 4)
    _in_new_partitions(group, range(10, 20), "raise", "ok")
    until(lambda: group.outputs() == exactly(range(20)), "the new partitions are read, and their retries delivered")
    running.append(group.worker("w2"))
    until(lambda: "w2 of group" in running[-1].log, "a worker starts although the other topics have fewer partitions")

    applied = topology("apply", file=group.file)
    assert applied.code == 0, applied.err
    for topic in (group.ready, group.tier("200ms"), group.dead_letters):
        assert group.cluster.partitions(topic) == 4
    until(
        lambda: all(
            (topic, number) in group.cluster.committed(reader, topic)
            for reader, topic in ((group.name, group.ready), (f"{group.name}.scheduler", group.tier("200ms")))
            for number in (2, 3)
        ),
        "the members commit the first offsets",
    )
    running.append(group.worker("w3"))  # it writes to the new partitions of the tier
    _in_new_partitions(group, range(20, 60), "raise", "ok")
    until(lambda: group.outputs() == exactly(range(60)), "retries go through all partitions")
    group.settle()
    assert all(process.running for process in running)
    group.stop()
    checked = topology("check", file=group.file)
    assert "partition" not in checked.out


def test_a_delay_changes(group: Group) -> None:
    """Records that wait in the former tier are released in time; the scheduler keeps running."""
    policy = {"initialRedeliveryDelay": 8000, "redeliveryDelay": 8000}
    group.prepare(kafka=SHORT_SESSION, policyEntry={"redeliveryPolicy": policy})
    scheduler, old = group.scheduler(), group.worker("old")
    group.send([["raise", "ok"]] * 5)
    until(lambda: len(group.cluster.read(group.tier("8s"))) == 5, "all records wait")

    group.configure(policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 300, "redeliveryDelay": 300}})
    applied = topology("apply", file=group.file)
    assert applied.code == 0, applied.err
    new = group.worker("new")
    until(lambda: group.cluster.members(group.name).keys() == {f"{group.name}.{n}" for n in ("old", "new")}, "it joins")
    old.stop()
    group.send([["raise", "ok"]] * 5, first=5)
    until(lambda: group.outputs() == exactly(range(10)), "records of both tiers are delivered")
    assert len(group.cluster.read(group.tier("300ms"))) == 5
    assert scheduler.running
    assert new.running
    group.settle()
    group.stop()


def test_a_source_is_added(group: Group) -> None:
    """The members know nothing of its ready topic; a worker that knows it commits the first offsets."""
    group.prepare()
    scheduler, old = group.scheduler(), group.worker("old")
    until(lambda: group.cluster.members(group.name), "the worker has joined")
    added = f"{group.name}.in2"
    group.cluster.create(added, partitions=2)
    group.configure(sources=[{"topic": topic, "value": {"format": "json"}} for topic in (group.source, added)])
    applied = topology("apply", file=group.file)
    assert applied.code == 0, applied.err
    new = group.worker("new")
    group.cluster.produce(added, [script(n, ["raise", "ok"]) for n in range(10)])
    until(lambda: group.outputs() == exactly(range(10)), "its records are handled, retries included")
    assert scheduler.running
    assert old.running
    assert new.running
    group.stop()
