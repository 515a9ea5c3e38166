"""A listed output that disappears halts the partitions whose records need it; they go on when it is back."""

import pytest

from tests.scenarios.running import Group, Process, exactly, script
from tests.scenarios.scraping import free_port, get, readiness
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}}


def _without_output(group: Group, port: int) -> Process:
    """Start a group whose handler emits for partition 0, delete its output, and send records to both partitions."""
    group.prepare(
        partitions=2,
        outputs=[{"topic": group.output}],
        policyEntry=_POLICY,
        metrics={"port": port, "host": "127.0.0.1"},
    )
    group.send([["ok"]] * 10)
    worker = group.worker()
    until(lambda: group.outputs() == exactly(range(10)), "the first records are handled")
    group.cluster.delete(group.output)
    group.cluster.produce(group.source, [script(n, ["ok"], partition=0) for n in range(10, 30)])
    until(lambda: group.output in get(port, "/readyz")[1], "the probe names the topic")
    assert readiness(port).startswith("ready\n")
    return worker


@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_no_record_is_blamed_and_the_other_partition_goes_on(group: Group, mode: str) -> None:
    """No dead letter, no counted attempt; each record is handled once the topic is back, without a restart."""
    group.configure(mode=mode)
    port = free_port()
    worker = _without_output(group, port)
    end = group.cluster.ends(group.source)[group.source, 1]
    group.cluster.produce(group.source, [script(n, ["quiet"], partition=1) for n in range(30, 50)])
    until(
        lambda: group.cluster.committed(group.name, group.source)[group.source, 1][0] >= end + 20,
        "the other partition goes on",
    )
    assert worker.running
    group.cluster.create(group.output, partitions=2)
    until(lambda: set(group.outputs()) == set(range(10, 30)), "all outputs are written")
    until(lambda: not group.pending(), "nothing is pending")
    assert mode == "auto" or group.outputs() == exactly(range(10, 30))
    until(lambda: group.output not in get(port, "/readyz")[1], "nothing is halted")
    assert not group.cluster.read(group.dead_letters, group.tier("100ms"), group.ready)
    group.stop()


def test_a_topic_that_is_not_listed_fails_its_deliveries(group: Group) -> None:
    """The handler named it. Its records end as dead letters, others go on."""
    group.prepare(partitions=2, policyEntry=_POLICY)
    gone = f"{group.name}.gone"
    group.cluster.create(gone)
    group.send([[f"to {gone}"], *[["ok"]] * 9])
    worker = group.worker()
    group.scheduler()
    until(lambda: group.outputs() == exactly(range(1, 10)), "the first records are handled")
    until(lambda: len(group.cluster.read(gone)) == 1, "and so is the one in another topic")
    group.cluster.delete(gone)
    group.send([*[[f"to {gone}"]] * 10, *[["ok"]] * 10], first=10)
    group.settle(within_s=120)
    assert worker.running
    group.stop()
    assert group.outputs() == exactly([*range(1, 10), *range(20, 30)])
    assert group.dead() == exactly(range(10, 20))
    counts = {letter.header("JMSXDeliveryCount") for letter in group.cluster.read(group.dead_letters)}
    assert counts == {"3"}
