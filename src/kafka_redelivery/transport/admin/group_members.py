"""The members of consumer groups and the partitions assigned to them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from struct import unpack_from
from threading import Thread
from time import monotonic
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, GroupMetadata, TopicDescription

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.client_config import Config, ConfigValue, admin_config
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.opening import LastingAdmin
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_NO_REBALANCE = {"Stable", "Empty"}
_DEAD = "Dead"
_WITH_UUID = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class GroupMembers:
    """Asks for the members of groups. Not thread-safe. Without ``calls`` it has a client of its own."""

    def __init__(
        self, kafka: Mapping[str, ConfigValue], *, calls: AdminCalls | None = None, every_protocol: bool = False
    ) -> None:
        """Keep the arguments.

        Args:
            kafka: the client settings.
            calls: the client that asks.
            every_protocol: whether to ask about groups with the consumer protocol (KIP-848), too. For commands only:
                the request ends the process if Kafka becomes unavailable while it waits (librdkafka#4605).
        """
        self._calls = calls or AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._every_protocol = every_protocol

    def count(self, group: str) -> int:
        """Return the number of members of a group; 0 if it is unknown.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        return len(self.owners(group) or ())

    def any(self, group: str) -> bool | None:
        """Return whether a group has members.

        ``None`` if it is unknown: to the request of the classic protocol the coordinator says ``Dead`` about a group
        with the consumer protocol (KIP-848). A group without members and committed offsets does not exist. While the
        coordinator of a group moves to another broker, the answer is false, too, because no broker lists the group.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        owners = self.owners(group)
        return None if owners is None else bool(owners)

    def owners(self, group: str) -> dict[str, list[Partition]] | None:
        """Return the partitions of each member, by its instance name; of a dynamic member by its member id.

        ``None`` if it is unknown, as of :meth:`any`.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = self._describe(group)
        found = {
            member_name(str(member.id), str(member.client_id)): list(decode_assignment(member.assignment or b""))
            for each in described
            if each.error is None
            for member in each.members
        }
        if found or all(each.error is None and each.state != _DEAD for each in described):
            return found
        return self._of_consumer_protocol(group) if self._every_protocol else None

    def unowned(self, group: str, partitions: Mapping[str, int]) -> dict[str, int] | None:
        """Return the number of partitions of each topic that are assigned to no member.

        Args:
            group: the consumer group.
            partitions: the topics that it reads, and their numbers of partitions.

        Returns:
            a number for each topic, 0 where every partition is assigned; ``None`` if it is unknown: during a rebalance,
            and for a group with the consumer protocol (KIP-848), in which the broker assigns partitions.

        Raises:
            TransportError: the cluster does not answer, or does not allow it.
        """
        described = self._describe(group)
        found = next((each for each in described if each.error is None and each.state in _NO_REBALANCE), None)
        if found is None:
            return None
        owned = _owned(found)
        missing = Counter(
            topic for topic, count in partitions.items() for n in range(count) if Partition(topic, n) not in owned
        )
        return {topic: missing[topic] for topic in partitions}

    def _describe(self, group: str) -> list[GroupMetadata]:
        return self._calls.repeated(
            _list_members(group),
            lambda: self._calls.client.list_groups(group, _TIMEOUT_S),
            right=f"Describe on group {group}",
        )

    def _of_consumer_protocol(self, group: str) -> dict[str, list[Partition]]:
        """Return the partitions of each member of a group with the consumer protocol; of an unknown group nothing."""
        (described,) = self._calls.each(
            _list_members(group),
            lambda: self._calls.client.describe_consumer_groups([group], request_timeout=_TIMEOUT_S),
            f"Describe on group {group}",
        ).values()
        return {
            member.group_instance_id or member.member_id: [
                Partition(each.topic, each.partition) for each in member.assignment.topic_partitions
            ]
            for member in described.members
        }


def _list_members(group: str) -> str:
    return f"list the members of group {group}"


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


def _owned(group: GroupMetadata) -> set[Partition]:
    return {partition for member in group.members for partition in decode_assignment(member.assignment or b"")}


_FIRST_CHECK_S: Final = 2.0
_INTERVAL_S: Final = 3.0
"""Between two checks. A member that still finishes records of a partition it gives up needs less than that."""

_REQUEST_TIMEOUT_S: Final = 10.0
_STABLE: Final = "Stable"
_MAX_REBALANCES: Final = 3
"""How often this process makes the group rebalance at most."""


class UnownedPartitionWatch:
    """Finds partitions that no member of the group owns although the group is stable.

    It checks without blocking, until it has once seen an owner of every partition. Used by one thread.

    With the classic protocol a cooperative rebalance takes two steps: a member gives up partitions and joins again, and
    only then are they assigned to another member. A static member that is killed between the two steps and restarted
    within its session gets its old assignment back without a rebalance, so the second step never happens. The
    partitions it had given up stay unowned until another member joins or leaves. The broker cannot see that, because
    only the assignor knows which partitions are free. Therefore every static member checks after its start whether all
    partitions have owners.
    """

    def __init__(self, config: Config, group: str) -> None:
        """Keep the settings; the client connects with the first check."""
        self._group = group
        self._admin = LastingAdmin(config)
        self._topics: list[str] = []
        self._next_check_s: float | None = None
        self._unowned: frozenset[Partition] = frozenset()
        """Unowned partitions of the last check."""

        self._pending: tuple[Future[list[GroupMetadata]], list[Future[TopicDescription]]] | None = None
        self._found = 0

    def start(self, topics: Iterable[str]) -> None:
        """Begin to check the partitions of these topics."""
        self._topics = list(topics)
        self._unowned = frozenset()
        self._pending = None
        check = bool(self._topics) and self._found < _MAX_REBALANCES
        self._next_check_s = monotonic() + _FIRST_CHECK_S if check else None

    def poll(self) -> Sequence[Partition]:
        """Return the partitions that were unowned in two checks in a row, which ends the watch; usually none."""
        if self._next_check_s is None:
            return ()
        if self._pending is None:
            if monotonic() >= self._next_check_s:
                self._ask()
            return ()
        group, topics = self._pending
        if not (group.done() and all(topic.done() for topic in topics)):
            return ()
        unowned = self._unowned_now(group, topics)
        self._pending = None
        self._next_check_s = monotonic() + _INTERVAL_S
        if unowned is None:
            return ()
        lasting = unowned & self._unowned
        if lasting:
            self._found += 1
        if lasting or not unowned:
            self._next_check_s = None
            self._admin.close()
        self._unowned = unowned
        return sorted(lasting)

    def _ask(self) -> None:
        try:
            admin = self._admin.client()
        except ClientSettingsError as error:
            self._next_check_s = monotonic() + _INTERVAL_S
            _log.warning("it is not known now whether each partition has an owner: %s", error)
            return
        group = Future[list[GroupMetadata]]()
        Thread(target=_describe, args=(admin, self._group, group), name="unowned", daemon=True).start()
        topics = admin.describe_topics(TopicCollection(self._topics), request_timeout=_REQUEST_TIMEOUT_S)
        self._pending = group, list(topics.values())

    def _unowned_now(
        self, group: Future[list[GroupMetadata]], topics: Iterable[Future[TopicDescription]]
    ) -> frozenset[Partition] | None:
        """Return the unowned partitions; ``None`` if they are unknown, as during a rebalance."""
        try:
            described = [found for found in group.result() if found.error is None and found.state == _STABLE]
            wanted = {
                Partition(topic.name, entry.id) for topic in (answer.result() for answer in topics)
                for entry in topic.partitions
            }  # fmt: skip
        except KafkaException as exception:
            self._admin.answered(exception)
            return None
        self._admin.answered()
        if not described:
            return None
        return frozenset(wanted - _owned(described[0]))


def _describe(admin: AdminClient, group: str, answer: Future[list[GroupMetadata]]) -> None:
    """Send the older request: the newer one ends the process if Kafka becomes unavailable (librdkafka#4605)."""
    try:
        answer.set_result(admin.list_groups(group, _REQUEST_TIMEOUT_S))
    except BaseException as error:  # noqa: BLE001 - raised where the answer is taken
        answer.set_exception(error)
