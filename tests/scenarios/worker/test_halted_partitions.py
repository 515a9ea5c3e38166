"""A partition whose dead letter Kafka refuses halts alone, and goes on by itself when the cause is gone."""

from collections.abc import Callable

import pytest

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

_HALTED = "redelivery_halted_partitions"
_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}}


def _names(port: int, topic: str) -> Callable[[], bool]:
    return lambda: f"raise max.message.bytes of {topic}" in readiness(port)


@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_worker_goes_on_without_a_restart(group: Group, mode: str) -> None:
    """Meanwhile the other partition is handled, each of its records once, and metric and probe name cause and fix."""
    port = free_port()
    group.prepare(mode=mode, policyEntry=_POLICY, metrics={"port": port, "host": "127.0.0.1"})
    worker = group.worker()
    until(lambda: " reads " in worker.log, "the worker runs")  # at a start, the limit below is refused
    group.cluster.alter(group.dead_letters, max_message_bytes="2000")
    group.cluster.produce(
        group.source,
        [script(0, ["reject"], partition=0, padding=5000), script(1, ["ok"], partition=0)],
    )
    labels = {"refused_by": group.dead_letters, "cause": "too_large"}
    until(lambda: value_of(port, _HALTED, **labels) == 1, "the partition is halted")
    until(_names(port, group.dead_letters), "the probe names the fix")
    for first in (100, 200, 300):
        group.cluster.produce(group.source, [script(first + n, ["ok"], partition=1) for n in range(20)])
        until(lambda: first + 19 in group.outputs(), "the other partition goes on")  # noqa: B023 - called at once
    until(lambda: worker.log.count("stays halted") >= 2, "the dead letter is tried again")
    others = exactly([*range(100, 120), *range(200, 220), *range(300, 320)])
    if mode == "transacted":  # in mode auto, those behind the refused record are written, too
        assert group.outputs() == others
    assert {n: count for n, count in group.deliveries.counts().items() if n in others and count > 1} == {}
    assert value_of(port, _HALTED, **labels) == 1
    assert group.dead() == exactly([])

    group.cluster.alter(group.dead_letters, max_message_bytes="2000000")
    until(lambda: 1 in group.outputs(), "the record behind it is handled")
    group.settle()
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    until(lambda: "halted" not in readiness(port), "the probe names no halted partition")
    group.stop()
    if mode == "transacted":
        assert group.outputs() == others + exactly([1])
        assert group.dead() == exactly([0])
    else:
        assert set(group.outputs()) == {*others, 1}
        assert group.dead() == {0: 2}  # the trial that was accepted is one of them


def test_a_scheduler_goes_on_without_a_restart(group: Group) -> None:
    """A record that fits neither its ready topic nor the dead-letter topic halts its partition of the tier alone."""
    port = free_port()
    group.prepare(policyEntry=_POLICY)
    worker = group.worker()
    until(lambda: " reads " in worker.log, "the worker runs")
    group.configure(metrics={"port": port, "host": "127.0.0.1"})
    scheduler = group.scheduler()
    until(lambda: " reads " in scheduler.log, "the scheduler runs")  # at a start, the limits below are refused
    for topic in (group.ready, group.dead_letters):
        group.cluster.alter(topic, max_message_bytes="2000")
    group.cluster.produce(group.source, [script(0, ["raise", "ok"], partition=0, padding=5000)])
    labels = {"refused_by": group.dead_letters, "cause": "too_large"}
    until(lambda: value_of(port, _HALTED, role="scheduler", **labels) == 1, "the partition is halted")
    until(_names(port, group.dead_letters), "the probe names the fix")
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=1) for n in range(1, 20)])
    until(lambda: group.outputs() == exactly(range(1, 20)), "the other partition goes on")
    until(lambda: scheduler.log.count("stays halted") >= 2, "the dead letter is tried again")
    assert group.dead() == exactly([])

    group.cluster.alter(group.dead_letters, max_message_bytes="2000000")
    group.settle()
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    worker.stop()
    group.stop()
    assert [number(letter) for letter in group.cluster.read(group.dead_letters)] == [0]
    assert group.outputs() == exactly(range(1, 20))


def test_compacted_topics_decide_about_no_record(group: Group) -> None:
    """A record without a key waits in its source, then in its tier, until each topic takes it. It is no dead letter."""
    group.prepare(partitions=1, policyEntry=_POLICY)
    worker, scheduler = group.worker(), group.scheduler()
    until(lambda: " reads " in worker.log and " reads " in scheduler.log, "both run")  # a start would be refused
    tier = group.tier("200ms")
    for topic in (tier, group.ready):
        group.cluster.alter(topic, cleanup_policy="compact")
    group.cluster.produce(group.source, [Sent(b'{"n": 0, "do": ["raise", "ok"]}')])
    for halted, topic in ((worker, tier), (scheduler, group.ready)):
        until(lambda: f"change the configuration of {topic}" in halted.log, "the cause is named")  # noqa: B023 - called at once
        until(lambda: "stays halted" in halted.log, "it is tried again")  # noqa: B023
        group.cluster.alter(topic, cleanup_policy="delete")
    group.settle()
    group.stop()
    assert group.outputs() == exactly([0])
    assert group.dead() == exactly([])
