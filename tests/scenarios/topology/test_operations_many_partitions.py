"""Tiers and ready topics get fewer partitions, as docs/operations.md says: stop, delete the topics, apply, start."""

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


@pytest.mark.parametrize("client", PROTOCOLS)
def test_topics_are_narrowed(group: Group, client: dict[str, str]) -> None:
    """`check` says when they may be deleted. Every one of 400 records that fail is redelivered, no partition halts."""
    group.prepare(partitions=6, kafka=client)
    group.configure(topics={"maxPartitions": 2})
    worker = group.worker()
    group.send([["raise", "ok"]] * 200)
    until(lambda: len(group.cluster.read(group.tier("200ms"))) == 200, "all wait")
    worker.stop()
    _assert_advice(group, "records wait in them")
    group.worker()
    group.scheduler()
    until(lambda: group.outputs() == exactly(range(200)), "all are redelivered")
    group.stop()
    _assert_advice(group, "no record waits in them")

    narrow = (group.tier("200ms"), group.ready)
    for topic in narrow:
        group.cluster.delete(topic)
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert [group.cluster.partitions(topic) for topic in narrow] == [2, 2]
    group.send([["raise", "ok"]] * 400, first=1000)
    started = [group.worker(), group.scheduler()]
    until(lambda: group.outputs() == exactly([*range(200), *range(1000, 1400)]), "all are redelivered")
    assert not any("is halted" in process.own_log for process in started)
    assert "are enough" not in topology("check", file=group.file).out
    group.stop()


def _assert_advice(group: Group, held: str) -> None:
    checked = topology("check", file=group.file)
    assert checked.code == exit_codes.OK, checked.out
    topics = f"{group.tier('200ms')}, {group.ready}"
    assert f"{topics} have up to 6 partitions, of which 2 are enough for most groups; {held}" in checked.out
