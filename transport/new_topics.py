"""Topics of an embedded broker, for trying things out. The topics of a group are made by :mod:`transport.admin`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from confluent_kafka.admin import NewTopic

from transport.admin_calls import AdminCalls

_TIMEOUT_S = 30.0


def make_topics(servers: str, partitions: Mapping[str, int]) -> None:
    """Make the topics that are not there yet, each with its number of partitions and one replica.

    Raises:
        AdminError: the broker refuses a name or a number.
        BrokerUnavailableError: it does not answer.
    """
    calls = AdminCalls({"bootstrap.servers": servers}, timeout_s=_TIMEOUT_S)
    there = calls.metadata().topics
    for name, number in partitions.items():
        if name not in there:
            new = NewTopic(name, num_partitions=number, replication_factor=1)
            calls.each(f"create topic {name}", partial(calls.client.create_topics, [new]))
