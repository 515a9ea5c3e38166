"""Who is in a consumer group, and how many partitions of each topic none of them has, as Kafka tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from confluent_kafka.admin import GroupMetadata

from transport.admin_calls import AdminCalls
from transport.client_config import Value, admin_config
from transport.orphans import assigned
from transport.protocols import Partition

_TIMEOUT_S = 10.0
_SETTLED = {"Stable", "Empty"}
_STATIC = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Owners:
    """Asks for the members of groups. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, Value]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def members(self, group: str) -> int:
        """How many members a consumer group has.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        return sum(len(each.members) for each in self._described(group))

    def unowned(self, group: str, partitions: Mapping[str, int]) -> dict[str, int] | None:
        """How many partitions of each topic have no owner.

        Args:
            group: the consumer group.
            partitions: the topics that it reads, and how many partitions each has.

        Returns:
            a number for each topic, 0 where all is well; ``None`` while it cannot be told: during a rebalance, and
            of a group with the new protocol (KIP-848), whose partitions the broker itself gives out.

        Raises:
            TransportError: the cluster does not answer.
        """
        found = next((each for each in self._described(group) if each.error is None and each.state in _SETTLED), None)
        if found is None:
            return None
        owned = {place for member in found.members for place in assigned(member.assignment or b"")}
        missing = Counter(
            topic for topic, count in partitions.items() for n in range(count) if Partition(topic, n) not in owned
        )
        return {topic: missing[topic] for topic in partitions}

    def _described(self, group: str) -> list[GroupMetadata]:
        # The newer request ends the process if Kafka goes away while it waits (librdkafka#4605).
        return self._calls.repeated(
            f"look at the members of group {group}", lambda: self._calls.client.list_groups(group, _TIMEOUT_S)
        )

    def names(self, group: str) -> set[str]:
        """The members of a group: the names of their processes, or the client's own where they have none.

        Of a group with the new protocol (KIP-848) nothing is told.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = (each for each in self._described(group) if each.error is None)
        return {_name(str(member.id)) for each in described for member in each.members}


def _name(member_id: str) -> str:
    """A static member's id is its name and a UUID; the older answer does not have the name itself."""
    found = _STATIC.match(member_id)
    return member_id if found is None else found[1]
