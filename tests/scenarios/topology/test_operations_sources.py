"""Removing a source from a running group: the processes restart one by one, and then its topics are deleted."""

import json

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, Role, exactly, script
from tests.scenarios.waiting import until


def test_a_source_is_removed(group: Group) -> None:
    """The other source is handled throughout, each record once. What is written to the removed one is not read."""
    removed = f"{group.name}.removed"
    sources = [{"topic": topic, "value": {"format": "json"}} for topic in (group.source, removed)]
    group.cluster.create(removed, partitions=2)
    group.prepare(sources=sources)
    roles: dict[str, Role] = {"s1": "scheduler", "w1": "worker", "w2": "worker"}
    running = {name: group.start(role, name) for name, role in roles.items()}
    group.cluster.produce(removed, [script(n, ["raise", "ok"]) for n in range(10)])
    group.send([["raise", "ok"]] * 10, first=10)
    until(lambda: group.outputs() == exactly(range(20)), "nothing of the source is left")

    group.configure(sources=sources[:1])
    for number, (name, role) in enumerate(roles.items()):
        group.send([["raise", "ok"]] * 10, first=20 + 10 * number)
        running[name].stop()
        running[name] = group.start(role, name)
    until(lambda: group.outputs() == exactly(range(50)), "the other source is handled meanwhile")
    ready, dead_letters = f"{group.name}.ready.{removed}", f"DLQ.{removed}"
    assert ready in _faults(group)
    for topic in (ready, dead_letters):
        group.cluster.delete(topic)
    assert _faults(group) == []

    group.cluster.produce(removed, [script(n, ["ok"]) for n in range(100, 110)])
    group.send([["raise", "ok"]] * 10, first=50)
    group.settle()
    assert all(process.running for process in running.values())
    group.stop()
    assert group.outputs() == exactly(range(60))
    assert group.dead() == exactly([])


def _faults(group: Group) -> list[str]:
    """Return the topics that ``topology check`` reports, none of which prevents a start."""
    done = topology("check", "--json", file=group.file)
    assert done.code == exit_codes.OK, done.out
    return [fault["topic"] for fault in json.loads(done.out)["faults"]]
