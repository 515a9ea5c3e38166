"""Restoring from a mirror: a group goes on on another cluster, with copies of its topics, whose offsets differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.commands import topology
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

RECORDS = 90


@pytest.fixture
def copy() -> Iterator[Cluster]:
    """The other cluster."""
    with EmbeddedKafka() as broker:
        yield Cluster(broker.bootstrap_servers)


@pytest.mark.parametrize(
    "killed", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.long)]
)
def test_a_group_goes_on_elsewhere(group: Group, copy: Cluster, tmp_path: Path, *, killed: bool) -> None:
    """No record is lost. After an orderly stop none is doubled; after a kill, those that finished out of order are."""
    ordering = "unordered" if killed else "partition"
    # A killed process leaves a transaction, which ends after this time. The mirror cannot copy what is behind it.
    kafka = {"producer.transaction.timeout.ms": 5000}
    group.prepare(handler={"ordering": ordering, "slots": 4}, kafka=kafka)
    processes = [group.worker(), group.scheduler()]
    slow = [["sleep 5"]] if killed else [["ok"]]
    group.send([*slow, *[["ok"], ["raise", "ok"], ["raise", "raise", "ok"]] * RECORDS][:RECORDS])
    until(lambda: len(group.outputs()) > RECORDS // 3, "some records are done")
    for process in processes:
        process.kill() if killed else process.stop()

    _mirror(group, copy)
    folder = tmp_path / "copy"
    folder.mkdir()
    restored = Group(copy, group.name, folder, group.configuration)
    try:
        restored.configure()
        assert topology("apply", file=restored.file).code == exit_codes.OK
        assert topology("check", file=restored.file).code == exit_codes.OK
        restored.worker()
        restored.scheduler()
        restored.settle()
        restored.stop()
        assert set(restored.outputs()) == set(range(RECORDS))
        if not killed:
            assert restored.outputs() == exactly(range(RECORDS))
        assert restored.dead() == exactly([])
    finally:
        restored.close()


def _mirror(group: Group, copy: Cluster) -> None:
    """Copy all committed records of the group's topics, and its offsets in terms of the copies, without metadata."""
    source = group.cluster
    topics = sorted(topic for topic in source.topics() if group.name in topic)
    for topic in topics:
        copy.create(topic, partitions=source.partitions(topic))
        records = source.read(topic)
        copy.produce(
            topic, [Sent(each.value, each.key, each.headers, each.partition, each.timestamp_ms) for each in records]
        )
        for reader in (group.name, scheduler_group(group.name)):
            for (_, partition), (offset, _) in source.committed(reader, topic).items():
                before = [each for each in records if each.partition == partition and each.offset < offset]
                copy.commit(reader, topic, partition, len(before))
