"""What a report of the lag costs: the end offsets of the paused partitions are looked through once, however many."""

from collections.abc import Iterable

import pytest

from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.scheduler.scheduler import backlog
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.config.settings import Ordering
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.client_config import Config, consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import no_stops
from tests.unit.consumers.records import route

KAFKA: Config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
COUNTS = pytest.mark.parametrize("count", [10, 40])


class CountedEnds(EndOffsets):
    """Counts what it is asked for. It knows the end of each partition, so it sends no request."""

    def __init__(self) -> None:
        super().__init__(KAFKA)
        self.looked_at = 0

    def refresh(self, partitions: Iterable[Partition]) -> None:
        self.looked_at += len(list(partitions))

    def end(self, partition: Partition) -> int | None:
        return 100 + partition.number


class PausedReader(GroupReader):
    """A member without a connection, whose partitions are all paused and committed at 90."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.ends = CountedEnds()
        super().__init__(consumer_config(KAFKA, group="billing", instance=None), end_offsets=self.ends)
        self.pause(partitions)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        return dict.fromkeys(partitions, Checkpoint(90, ""))


@COUNTS
def test_a_worker_looks_at_each_paused_partition_once_a_report(count: int) -> None:
    """The lag of each is right, too."""
    partitions = [Partition("orders", number) for number in range(count)]
    reader = PausedReader(partitions)
    owned = Assignment([route()], reader, FirstOffsets(reader), no_stops(), {"orders": Lanes(Ordering.PARTITION, 1)})
    owned.open(partitions)
    assert owned.state(0, 0).lag == {"orders": sum(10 + number for number in range(count))}
    assert reader.ends.looked_at == count
    reader.close()


@COUNTS
def test_a_scheduler_looks_at_each_paused_partition_once_a_report(count: int) -> None:
    """A full tier is paused, and a scheduler may have thousands of partitions."""
    topic = "billing.retry.1s"
    tiers = {Partition(topic, n): TierPartition(topic, 1000, Progress(90), ordered=True) for n in range(count)}
    reader = PausedReader(tiers)
    [tier] = backlog(tiers, reader)
    assert tier.pending == sum(10 + number for number in range(count))
    assert reader.ends.looked_at == count
    reader.close()
