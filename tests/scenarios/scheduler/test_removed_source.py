"""Retries of a source that is removed from the configuration wait in its own ready topic, with all their attempts."""

import json

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until


def test_retries_of_a_removed_source_wait_until_it_is_back(group: Group) -> None:
    """None becomes a dead letter of another source, ``topology check`` warns, and the source goes on where it was."""
    other = f"{group.name}.other"
    ready = f"{group.name}.ready.{other}"
    both = [{"topic": topic, "value": {"format": "json"}} for topic in (group.source, other)]
    group.cluster.create(other, partitions=2)
    group.prepare(sources=both)
    worker = group.worker()
    group.cluster.produce(other, [script(n, ["raise", "ok"]) for n in range(10)])
    until(lambda: len(group.cluster.read(group.tier("200ms"))) == 10, "all have failed once")
    worker.stop()

    group.configure(sources=both[:1])
    assert _warnings(group)[ready] == f"is the ready topic of {other}, which is not among the sources"
    scheduler = group.scheduler()
    until(lambda: len(group.cluster.read(ready)) == 10, "all are released to their ready topic")
    assert _warnings(group)[ready].endswith("and records wait in it")
    worker = group.worker()
    group.send([["raise", "ok"]] * 5, first=100)
    until(lambda: group.outputs() == exactly(range(100, 105)), "the other source goes on")
    worker.stop()
    assert f"{other} is not among the sources" in scheduler.log

    group.configure(sources=both)
    group.worker()
    until(lambda: group.outputs() == exactly([*range(10), *range(100, 105)]), "the retries are handled")
    group.settle()
    group.stop()
    assert all(group.deliveries.attempts()[n] == [1, 2] for n in range(10))
    assert group.dead() == exactly([])
    assert ready not in _warnings(group)


def _warnings(group: Group) -> dict[str, str]:
    """Return topic and problem of each warning of ``topology check``, which finds nothing worse."""
    done = topology("check", "--json", file=group.file)
    assert done.code == exit_codes.OK, done.out
    return {fault["topic"]: fault["problem"] for fault in json.loads(done.out)["faults"]}
