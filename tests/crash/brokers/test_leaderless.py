"""A partition without a leader, or with too few replicas in sync, halts only what has to be written to it.

It goes on when its broker is back.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.brokers.three import Three
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.scraping import free_port, get, readiness, value_of
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_PARTITIONS = 3
_LONG_S = 180.0


@pytest.fixture
def group(three: Three, unique: str, tmp_path: Path) -> Iterator[Group]:
    """Yield a group without processes."""
    found = Group(Cluster(three.kafka.bootstrap_servers), unique, tmp_path)
    try:
        yield found
    finally:
        found.close()
        three.heal()
        if made := [topic for topic in found.cluster.topics() if unique in topic]:
            found.cluster.delete(*made)


def _create_on(three: Three, topic: str, *nodes: int) -> None:
    """Create a topic with one partition, whose replicas some nodes have. All of them must be in sync."""
    new = NewTopic(topic, 1, replica_assignment=[list(nodes)], config={"min.insync.replicas": str(len(nodes))})
    admin = AdminClient({"bootstrap.servers": three.kafka.bootstrap_servers})
    admin.create_topics([new])[topic].result(30)
    until(lambda: three.leader(topic) == nodes[0], f"{topic} has a leader")


@pytest.mark.parametrize("left", [0, 1], ids=["no leader", "too few in sync"])
@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_an_output_that_lacks_a_replica(group: Group, three: Three, mode: str, left: int) -> None:
    """The partition whose records need it halts, the others go on; no record is lost, blamed or handled often.

    A partition with too few replicas in sync takes no marker of an aborted transaction either.
    """
    receipts, node, port = f"{group.name}.receipts", max(three.nodes), free_port()
    group.configure(mode=mode, kafka=SHORT_SESSION)
    _create_on(three, receipts, *sorted(three.nodes)[:left], node)
    group.prepare(
        _PARTITIONS,
        outputs=[{"topic": group.output}, {"topic": receipts}],
        metrics={"port": port, "host": "127.0.0.1"},
    )
    does = [[f"to {receipts}"], ["ok"], ["ok"]]
    group.cluster.produce(group.source, [script(n, does[n % 3], partition=n % 3) for n in range(6)])
    worker = group.worker()
    group.settle()
    assert len(group.cluster.read(receipts)) == 2

    others = {n for n in range(300) if n % 3}
    with group.cluster.follow(group.output) as outputs:  # it knows the leaders, and one of them dies now

        def has(wanted: set[int]) -> bool:
            outputs.read_on()
            return wanted <= {int(record.value or b"-1") for record in outputs.records}

        three.nodes[node].kill()
        group.cluster.produce(group.source, [script(n, does[n % 3], partition=n % 3) for n in range(6, 60)])
        until(lambda: has({n for n in others if n < 60}), "the other partitions go on", within_s=_LONG_S)
        halted = "redelivery_halted_partitions"
        until(lambda: value_of(port, halted, refused_by=receipts, cause="offline") == 1, "one partition is halted")
        halt = f"{group.source}-0 is halted at offset 2"  # not ready yet while the killed node is the controller
        until(lambda: halt in get(port, "/readyz")[1], "the probe names it")
        assert "start a broker that has a replica of the partition" in readiness(port)
        group.cluster.produce(group.source, [script(n, does[n % 3], partition=n % 3) for n in range(60, 300)])
        until(lambda: has(others), "the other partitions still go on")
    assert worker.running

    three.heal()
    group.settle()
    until(lambda: value_of(port, halted) == 0, "no partition is halted")
    group.stop()
    written = group.cluster.read(receipts)
    assert {int(record.value or b"-1") for record in written} == set(range(0, 300, 3))
    assert set(group.outputs()) == others
    if mode == "transacted":
        assert len(written) == 100
        assert group.outputs() == exactly(others)
    assert not group.cluster.read(group.dead_letters, group.tier("200ms"), group.ready)
    assert {attempt for attempts in group.deliveries.attempts().values() for attempt in attempts} == {1}
