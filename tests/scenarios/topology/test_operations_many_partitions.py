"""Tiers and ready topics get fewer partitions, as docs/operations.md says: stop, delete the topics, apply, start."""

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


@pytest.mark.parametrize("client", PROTOCOLS)
def test_topics_are_narrowed(group: Group, client: dict[str, str]) -> None:
    """Every one of 400 records that fail is redelivered, and no partition halts."""
    group.prepare(partitions=6, kafka=client)
    group.worker()
    group.scheduler()
    group.send([["raise", "ok"]] * 200)
    group.settle()
    group.stop()

    narrow = (group.tier("200ms"), group.ready)
    for topic in narrow:
        group.cluster.delete(topic)
    group.configure(topics={"maxPartitions": 2})
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert [group.cluster.partitions(topic) for topic in narrow] == [2, 2]
    group.send([["raise", "ok"]] * 400, first=1000)
    started = [group.worker(), group.scheduler()]
    until(lambda: group.outputs() == exactly([*range(200), *range(1000, 1400)]), "all are redelivered")
    assert not any("is halted" in process.own_log for process in started)
    group.stop()
