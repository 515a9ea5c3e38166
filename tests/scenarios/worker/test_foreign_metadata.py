"""A commit with the metadata of another tool halts its partition alone, which goes on when the commit has changed."""

import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.client_config import Config, consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

_HALTED = "redelivery_halted_partitions"


def _commit_beside_members(group: Group, reader: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 in a transaction, which Kafka allows while members of the group run."""
    settings: Config = {"bootstrap.servers": group.cluster.servers}
    config = consumer_config(settings, group=reader, instance=None)
    member = GroupReader(config | {"group.protocol": "classic"})
    writer = TransactionalWriter(producer_config(settings, transactional_id=f"{reader}.tool"), member)
    try:
        writer.write([], {Partition(topic, 0): Checkpoint(offset, "")}, group_metadata=writer.group_metadata())
    finally:
        writer.close()
        member.close()


@pytest.mark.slow
def test_a_worker_halts_the_partition_alone(group: Group) -> None:
    """It names the fix, and the new commit may have the same offset. The partition goes on there."""
    port = free_port()
    group.prepare(metrics={"port": port, "host": "127.0.0.1"})
    group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in range(10)])
    group.cluster.commit(group.name, group.source, 0, 3, "of another tool")
    # Without a name it leaves the group when it stops.
    worker = group.worker(None)
    until(lambda: group.outputs() == exactly([1, 3, 5, 7, 9]), "the other partition is handled")
    until(lambda: value_of(port, _HALTED, refused_by=group.source, cause="metadata") == 1, "the partition is halted")
    for text in (readiness(port), worker.log):
        assert f"{group.source}-0 is halted" in text
        assert "the commit at offset 3 has metadata that is damaged or was not written by this project" in text
        assert "kafka-consumer-groups.sh --reset-offsets --to-offset" in text
    _commit_beside_members(group, group.name, group.source, 3)
    until(lambda: group.outputs() == exactly([1, 3, 5, 6, 7, 8, 9]), "the partition goes on at the offset")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    assert worker.running

    group.stop()
    until(lambda: not group.cluster.members(group.name), "no process runs")
    assert group.cluster.committed(group.name, group.source)[group.source, 0] == (5, "")
    group.cluster.commit(group.name, group.source, 0, 4, "of another tool")
    worker = group.worker(None)
    until(lambda: f"{group.source}-0 is halted" in worker.log, "the partition is halted again")
    group.stop()
    until(lambda: not group.cluster.members(group.name), "no process runs")
    assert group.cluster.committed(group.name, group.source)[group.source, 0] == (4, "of another tool")
    group.cluster.commit(group.name, group.source, 0, 4)
    group.worker(None)
    until(lambda: group.outputs()[8] == 2, "the partition goes on after the fix in a group without members")


@pytest.mark.slow
def test_a_scheduler_halts_the_partition_alone(group: Group) -> None:
    """Redeliveries in other partitions are released meanwhile."""
    port = free_port()
    group.prepare()
    tier, reader = group.tier("200ms"), f"{group.name}.scheduler"
    group.cluster.commit(reader, tier, 0, 0, "of another tool")
    group.worker()
    group.cluster.produce(group.source, [script(n, ["raise", "ok"], partition=n % 2) for n in range(10)])
    until(lambda: sum(group.cluster.ends(tier).values()) >= 10, "the redeliveries wait")
    waiting = {n for n in range(10) if n % 2 == 0}
    scheduler = group.start("scheduler", "s1", f"metrics.port={port}", "metrics.host=127.0.0.1")
    until(lambda: value_of(port, _HALTED, refused_by=tier, cause="metadata") == 1, "the partition is halted")
    assert f"{tier}-0 is halted: the commit at offset 0 has metadata" in readiness(port)
    until(lambda: group.outputs() == exactly(set(range(10)) - waiting), "the other partition is released")
    _commit_beside_members(group, reader, tier, 0)
    until(lambda: group.outputs() == exactly(range(10)), "the partition goes on")
    until(lambda: value_of(port, _HALTED) == 0, "no partition is halted")
    assert scheduler.running
    group.stop()
