"""The first request for offsets of a new client does not stand still."""

import time

from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.cluster import Cluster

_CLIENTS = 120
_MAY_BE_SLOW = 5
"""A busy machine is slow for some clients in a row. If each tenth client stood still, five or fewer would be rare."""

_STANDS_STILL_S = 0.9
"""librdkafka 2.16 waits for 1 or 3 s, in a tenth of cases, if it looks up leaders before it is connected."""


def test_a_new_client_answers_at_once(cluster: Cluster, unique: str) -> None:
    """A busy machine may be slow a few times."""
    cluster.create(unique)
    partition = Partition(unique, 0)
    took_s = []
    for _ in range(_CLIENTS):
        offsets = PartitionOffsets({"bootstrap.servers": cluster.servers})
        began_s = time.monotonic()
        assert offsets.high_watermarks([partition]) == {partition: 0}
        took_s.append(time.monotonic() - began_s)
    assert sum(each > _STANDS_STILL_S for each in took_s) <= _MAY_BE_SLOW, took_s
