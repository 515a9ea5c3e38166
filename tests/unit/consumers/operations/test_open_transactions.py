"""What is said to be in an open transaction is, however much other producers write meanwhile."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any, cast

import pytest

from kafka_redelivery.consumers.operations import status
from kafka_redelivery.consumers.operations.status import StatusReader
from kafka_redelivery.consumers.operations.waiting import Positions
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW

ORDERS = Partition("orders", 0)


class Growing:
    """The offsets of partitions to which a record is added between two requests, in no transaction."""

    def __init__(self) -> None:
        self._end = 10

    def log_start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """See :class:`PartitionOffsets`."""
        return dict.fromkeys(partitions, 0)

    def last_stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """See :class:`PartitionOffsets`."""
        self._end += 1
        return dict.fromkeys(partitions, self._end)

    high_watermarks = last_stable_offsets


def test_what_is_written_between_two_requests_is_in_no_transaction() -> None:
    """Each look at a busy topic would count some."""
    positions = Positions.of(cast("PartitionOffsets", Growing()), None, [ORDERS], {})
    assert positions.hidden() == {}


@pytest.mark.parametrize("first", [5, 11])
def test_a_transaction_that_has_ended_is_no_fault(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """However old its records are: their producer may have given them the times of what they are about."""

    def old(_settings: object, hidden: Any) -> dict[Partition, int]:  # noqa: ANN401 - of any partitions
        return dict.fromkeys(hidden, NOW - 3_600_000)

    monkeypatch.setattr(status, "open_since_ms", old)
    settings = load_settings("group: billing\nkafka: {bootstrap.servers: '127.0.0.1:1'}\nsources: [{topic: orders}]")
    with closing(StatusReader(settings)) as reader:
        monkeypatch.setattr(reader, "_offsets", Growing())
        faults = list(reader._open({ORDERS: (first, 12)}, NOW))
    assert len(faults) == (1 if first == 11 else 0)
