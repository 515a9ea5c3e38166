"""What brokers accept as the metadata of commits: less than a commit may need is refused at the start; many fit."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config, consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery
from tests.scenarios.running import Group, exactly

PARTITIONS, WAITING, NOW_MS = 400, 48, 1_780_000_000_000


@pytest.mark.long
def test_brokers_that_accept_too_little_metadata(unique: str, tmp_path: Path) -> None:
    """Workers that may need more do not start and name the setting. Records that are handled in order need none."""
    with EmbeddedKafka(properties={"offset.metadata.max.bytes": "1024"}) as kafka:
        group = Group(Cluster(kafka.bootstrap_servers), unique, tmp_path)
        try:
            group.prepare(handler={"ordering": "key", "slots": 4})
            for command in ("worker", "scheduler"):
                refused = redelivery(command, file=group.file)
                assert refused.code == exit_codes.TOPOLOGY_REFUSED
                assert "set offset.metadata.max.bytes=4096 on the brokers" in refused.err

            group.configure(handler={"ordering": "partition"})
            group.send([["ok"], ["raise", "ok"]] * 20)
            group.worker()
            group.scheduler()
            group.settle()
            group.stop()
            assert group.outputs() == exactly(range(40))
        finally:
            group.close()


def test_the_longest_commit_of_a_full_buffer_fits(kafka: EmbeddedKafka, cluster: Cluster, unique: str) -> None:
    """The default buffer holds 20,000 records. That many wait in place in 400 partitions, in one commit."""
    cluster.create(unique, partitions=PARTITIONS)
    longest = _longest()
    checkpoints = {Partition(unique, number): longest for number in range(PARTITIONS)}
    assert _committed(kafka, unique, checkpoints) == checkpoints


def test_the_longest_metadata_of_a_partition_is_accepted(kafka: EmbeddedKafka, cluster: Cluster, unique: str) -> None:
    """A partition is read on until its metadata could become too long, and it becomes as long as that."""
    cluster.create(unique)
    progress = Progress(0)
    while progress.can_track(1):
        progress.track(progress.next_offset)
    progress.complete([offset for offset in range(progress.next_offset) if pow(offset, 3, 7919) % 2])
    point = progress.checkpoint()
    assert METADATA_LIMIT - 150 < len(point.metadata) < METADATA_LIMIT
    assert _committed(kafka, unique, {Partition(unique, 0): point}) == {Partition(unique, 0): point}


def _committed(
    kafka: EmbeddedKafka, group: str, checkpoints: Mapping[Partition, Checkpoint]
) -> dict[Partition, Checkpoint | None]:
    """Commit in one transaction, and return what the broker has then."""
    settings: Config = {"bootstrap.servers": kafka.bootstrap_servers}
    reader = GroupReader(consumer_config(settings, group=group, instance=None))
    writer = TransactionalWriter(producer_config(settings, transactional_id=group), reader)
    try:
        writer.write([], checkpoints, group_metadata=writer.group_metadata())
        return reader.committed(checkpoints)
    finally:
        writer.close()
        reader.close()


def _longest() -> Checkpoint:
    """Return a commit of a partition in which as many records wait as may, each far from the next."""
    progress = Progress(10**9)
    offsets = range(10**9, 10**9 + WAITING * 400)
    for offset in offsets:
        progress.track(offset)
    for offset in offsets[::400]:
        progress.wait_in_place(offset, 1000, NOW_MS)
    progress.complete([offset for offset in offsets if offset % 400])
    return progress.checkpoint()
