"""The members of consumer groups and the partitions assigned to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from struct import unpack_from

from confluent_kafka.admin import GroupMetadata

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 10.0
_NO_REBALANCE = {"Stable", "Empty"}
_DEAD = "Dead"
_WITH_UUID = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class GroupMembers:
    """Asks for the members of groups. Not thread-safe. Without ``calls`` it has a client of its own."""

    def __init__(self, kafka: Mapping[str, ConfigValue], *, calls: AdminCalls | None = None) -> None:
        self._calls = calls or AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def count(self, group: str) -> int:
        """Return the number of members of a group.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        return sum(len(each.members) for each in self._describe(group))

    def any(self, group: str) -> bool | None:
        """Return whether a group has members.

        ``None`` if it is unknown: to this request the coordinator says ``Dead`` about a group with the consumer
        rebalance protocol (KIP-848). A group without members and committed offsets does not exist. While the
        coordinator of a group moves to another broker, the answer is false, too, because no broker lists the group.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = self._describe(group)
        if any(each.members for each in described):
            return True
        return False if all(each.error is None and each.state != _DEAD for each in described) else None

    def names(self, group: str) -> set[str]:
        """Return the instance names of a group's members; of a dynamic member its member id.

        Empty for a group with the consumer rebalance protocol (KIP-848), whose members this request does not list.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = (each for each in self._describe(group) if each.error is None)
        return {member_name(str(member.id), str(member.client_id)) for each in described for member in each.members}

    def owners(self, group: str) -> dict[str, list[Partition]]:
        """Return the partitions of each member, by names as :meth:`names` returns them.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = (each for each in self._describe(group) if each.error is None)
        return {
            member_name(str(member.id), str(member.client_id)): list(decode_assignment(member.assignment or b""))
            for each in described
            for member in each.members
        }

    def unowned(self, group: str, partitions: Mapping[str, int]) -> dict[str, int] | None:
        """Return the number of partitions of each topic that are assigned to no member.

        Args:
            group: the consumer group.
            partitions: the topics that it reads, and their numbers of partitions.

        Returns:
            a number for each topic, 0 where every partition is assigned; ``None`` if it is unknown: during a rebalance,
            and for a group with the consumer rebalance protocol (KIP-848), in which the broker assigns partitions.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = self._describe(group)
        found = next((each for each in described if each.error is None and each.state in _NO_REBALANCE), None)
        if found is None:
            return None
        owned = {partition for member in found.members for partition in decode_assignment(member.assignment or b"")}
        missing = Counter(
            topic for topic, count in partitions.items() for n in range(count) if Partition(topic, n) not in owned
        )
        return {topic: missing[topic] for topic in partitions}

    def _describe(self, group: str) -> list[GroupMetadata]:
        # The newer request ends the process if Kafka becomes unavailable while it waits (librdkafka#4605).
        return self._calls.repeated(
            f"list the members of group {group}",
            lambda: self._calls.client.list_groups(group, _TIMEOUT_S),
            right=f"Describe on group {group}",
        )


def member_name(member_id: str, client_id: str) -> str:
    """Return the instance name of a static member; of a dynamic one its member id, which no other member has.

    The broker makes a member id of the instance name and a UUID, or for a dynamic member of its ``client.id`` (by
    default ``rdkafka``) and a UUID.
    """
    found = _WITH_UUID.match(member_id)
    return member_id if found is None or found[1] == client_id else found[1]


def decode_assignment(assignment: bytes) -> Iterator[Partition]:
    """Decode the partitions assigned to a member of a classic group.

    Source: ConsumerProtocolAssignment.json of Apache Kafka.

    Args:
        assignment: a version, then topics with their partitions; empty for a member without an assignment.
    """
    if not assignment:
        return
    (topics,) = unpack_from(">xxi", assignment)
    position = 6
    for _ in range(topics):
        (length,) = unpack_from(">h", assignment, position)
        topic = assignment[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (count,) = unpack_from(">i", assignment, position)
        for number in unpack_from(f">{count}i", assignment, position + 4):
            yield Partition(topic, number)
        position += 4 + 4 * count
