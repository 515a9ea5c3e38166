"""A client that has failed for good is replaced: the process joins its group again, and goes on."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.crash.load import LASTING, SHORT_SESSION_CONSUMER, scripts, settings
from tests.crash.verdict import assert_exactly_once
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import SHORT_SESSION, Group
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full]

_NUMBER = 100


@pytest.fixture
def full_group(tmp_path: Path) -> Iterator[Group]:
    """Yield a group on a broker that allows a group only one member."""
    sizes = {"group.consumer.max.size": "1", "group.max.size": "1"}
    with EmbeddedKafka(properties={**LASTING, **sizes}) as broker:
        found = Group(Cluster(broker.bootstrap_servers), "full", tmp_path)
        try:
            yield found
        finally:
            found.close()


@pytest.mark.parametrize("instance", [None, "w1"])
@pytest.mark.parametrize(
    ("kafka", "refused", "times"),
    [
        (SHORT_SESSION_CONSUMER, "the consumer failed and joins group", 2),
        (SHORT_SESSION, "Consumer group has reached maximum size", 1),  # logged once a minute
    ],
    ids=["consumer", "classic"],
)
def test_a_member_whose_group_is_full(
    full_group: Group, kafka: Mapping[str, object], refused: str, times: int, instance: str | None
) -> None:
    """With the new protocol the refusal is a fatal error of the client. The worker tries again until there is room.

    It keeps its name, which no other process has.
    """
    group = full_group
    group.prepare(**settings(kafka=kafka))
    group.scheduler()
    first = group.worker(instance)
    until(lambda: any(group.cluster.members(group.name).values()), "the first worker has partitions")
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: not group.cluster.members(group.name), "its session has ended")
    second = group.worker(None)
    until(lambda: any(group.cluster.members(group.name).values()), "the second worker has partitions")
    os.kill(first.pid, signal.SIGCONT)
    until(lambda: first.log.count(refused) >= times, "the first one was refused")
    assert first.running
    second.stop()
    group.send(scripts(_NUMBER))
    group.settle()
    assert first.running
    assert "without its name" not in first.log
    group.stop()
    assert_exactly_once(group, _NUMBER)
