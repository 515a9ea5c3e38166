"""A renewed membership is a fence: tasks with the earlier one cannot commit. A shutdown does not wait for it."""

from datetime import timedelta

import pytest

from kafka_redelivery.pipeline.stream.membership import membership
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.start_offsets import partition_counts, partitions_of
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.client_config import consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import MembershipOutdatedError, WriterFencedError
from kafka_redelivery.transport.protocols import Partition
from tests.pipeline.streaming import prepare
from tests.scenarios.running import Group


def test_tasks_with_the_earlier_membership_cannot_commit(group: Group) -> None:
    """Whatever their transactional id: the next micro-batch may give their partitions to tasks with other numbers."""
    prepare(group)
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    wanted = partitions_of(settings, partition_counts(settings))
    with membership(settings, wanted, Shutdown(timedelta(seconds=25))) as member:
        first = member.member()
        _commit(settings, group.source, 1, first, task=0)

        member.renew()
        second = member.member()

        with pytest.raises((MembershipOutdatedError, WriterFencedError)):
            _commit(settings, group.source, 2, first, task=1)
        assert group.cluster.committed(group.name, group.source)[group.source, 0] == (1, "")
        _commit(settings, group.source, 3, second, task=0)

    assert group.cluster.committed(group.name, group.source)[group.source, 0] == (3, "")


def test_a_query_that_is_stopped_while_it_joins_ends_in_order(group: Group) -> None:
    """It is not refused, which would be another exit code, and leaves the group."""
    prepare(group)
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    shutdown = Shutdown(timedelta(seconds=25))
    shutdown.request()
    with membership(settings, partitions_of(settings, partition_counts(settings)), shutdown) as member:
        assert not member.joined


def _commit(settings: Settings, topic: str, offset: int, member: object, *, task: int) -> None:
    """Commit an offset of partition 0 as a task does."""
    reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
    writer = TransactionalWriter(
        producer_config(settings.kafka, transactional_id=f"{settings.group}.spark.{task}"), reader
    )
    try:
        writer.write((), {Partition(topic, 0): Checkpoint(offset, "")}, group_metadata=member)
    finally:
        writer.close()
        reader.close()
