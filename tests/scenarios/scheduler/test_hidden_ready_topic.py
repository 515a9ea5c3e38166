"""A scheduler that may not even describe a ready topic any more waits for the right, and dead-letters nothing."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.gatekeeper import Gatekeeper
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

_THREE_LOOKS_S = 16.0
_ALL = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "DELETE", "WRITE")


@pytest.fixture
def group(gatekeeper: Gatekeeper, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group that runs as the limited user."""
    found = Group(gatekeeper.cluster, unique, tmp_path)
    policy = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 15000, "redeliveryDelay": 15000}}
    found.prepare(2, policyEntry=policy)
    found.configure(kafka=gatekeeper.kafka)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.kafka
def test_a_hidden_ready_topic(group: Group, gatekeeper: Gatekeeper) -> None:
    """The right is taken away as a whole while records wait, as when all ACLs of a prefix are replaced."""
    scheduler = group.scheduler()
    worker = group.worker()
    group.send([["raise", "ok"]] * 20)
    until(lambda: len(group.cluster.read(group.tier("15s"))) == 20, "the records wait in their tier")
    gatekeeper.allow(group.ready, "DESCRIBE_CONFIGS")
    until(lambda: "is halted at offset" in scheduler.log, "their partitions halt")
    assert scheduler.running
    assert not group.dead()
    gatekeeper.allow(group.ready, *_ALL)
    group.settle()
    assert worker.running
    assert not group.dead()
    assert set(group.outputs()) == set(range(20))


@pytest.mark.kafka
@pytest.mark.long
def test_hidden_tiers(group: Group, gatekeeper: Gatekeeper) -> None:
    """A running scheduler never ends because of a right."""
    scheduler = group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.scheduler"), "the scheduler has joined")
    gatekeeper.allow(group.tier("15s"), "DESCRIBE_CONFIGS")
    time.sleep(_THREE_LOOKS_S)
    assert scheduler.running, scheduler.own_log[-3000:]
    gatekeeper.allow(group.tier("15s"), *_ALL)
    group.worker()
    group.send([["raise", "ok"]])
    until(lambda: group.outputs() == {0: 1}, "the record is released")
