"""Partitions that nobody has, though the group believes that all is well.

With the classic protocol a cooperative rebalance takes two steps: a member gives partitions back and joins again,
and only then are they given to another. A static member that is killed between the two and started again within its
session gets its former assignment back without a rebalance, so the second step never comes: what it had given back
belongs to nobody until somebody else joins or leaves. The broker cannot tell, since what is free is known to the
assignor only. So whoever starts as a static member looks once whether everything has an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from struct import unpack_from
from threading import Thread
from time import monotonic
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, GroupMetadata, TopicDescription

from transport.client_config import Config
from transport.client_log import client_log
from transport.protocols import Partition

_SOON_S: Final = 2.0
_AGAIN_S: Final = 3.0
"""Between two looks. A member that has yet to finish what it gives away makes others wait, too; it is soon done."""

_REQUEST_S: Final = 10.0
_STABLE: Final = "Stable"
_MOST: Final = 3
"""So often the group is made to rebalance."""


class OrphanWatch:
    """Looks, without blocking, until it has once seen every partition owned. Used by one thread."""

    def __init__(self, config: Config, group: str) -> None:
        """Prepare.

        Args:
            config: settings of an admin client.
            group: the consumer group.
        """
        self._config = config
        self._group = group
        self._admin: AdminClient | None = None
        self._topics: list[str] = []
        self._look_s: float | None = None
        self._seen: frozenset[Partition] = frozenset()
        self._asked: tuple[Future[list[GroupMetadata]], list[Future[TopicDescription]]] | None = None
        self._found = 0

    def begin(self, topics: Iterable[str]) -> None:
        """Look from now on whether the partitions of these have an owner each."""
        self._topics = list(topics)
        self._seen = frozenset()
        self._asked = None
        self._look_s = monotonic() + _SOON_S if self._topics and self._found < _MOST else None

    def found(self) -> Sequence[Partition]:
        """Partitions without an owner, seen twice in a row; then the watch is over. Most often nothing."""
        if self._look_s is None:
            return ()
        if self._asked is None:
            if monotonic() >= self._look_s:
                self._ask()
            return ()
        group, topics = self._asked
        if not (group.done() and all(topic.done() for topic in topics)):
            return ()
        orphans = self._orphans(group, topics)
        self._asked = None
        self._look_s = monotonic() + _AGAIN_S
        if orphans is None:
            return ()
        lasting = orphans & self._seen
        if lasting:
            self._found += 1
        if lasting or not orphans:
            self._look_s = self._admin = None
        self._seen = orphans
        return sorted(lasting)

    def _ask(self) -> None:
        if self._admin is None:
            self._admin = AdminClient(self._config, logger=client_log)
        group: Future[list[GroupMetadata]] = Future()
        Thread(target=_describe, args=(self._admin, self._group, group), name="orphans", daemon=True).start()
        topics = self._admin.describe_topics(TopicCollection(self._topics), request_timeout=_REQUEST_S)
        self._asked = group, list(topics.values())

    def _orphans(
        self, group: Future[list[GroupMetadata]], topics: Iterable[Future[TopicDescription]]
    ) -> frozenset[Partition] | None:
        """``None`` if it cannot be told now."""
        try:
            described = [found for found in group.result() if found.error is None and found.state == _STABLE]
            wanted = {
                Partition(topic.name, entry.id) for topic in (answer.result() for answer in topics)
                for entry in topic.partitions
            }  # fmt: skip
        except KafkaException:
            return None
        if not described:
            return None
        owned = {place for member in described[0].members for place in assigned(member.assignment or b"")}
        return frozenset(wanted - owned)


def _describe(admin: AdminClient, group: str, answer: Future[list[GroupMetadata]]) -> None:
    """Ask for the group the old way; the newer request ends the process if Kafka goes away (librdkafka#4605)."""
    try:
        answer.set_result(admin.list_groups(group, _REQUEST_S))
    except BaseException as error:  # noqa: BLE001 - raised again where the answer is taken
        answer.set_exception(error)


def assigned(assignment: bytes) -> Iterator[Partition]:
    """The partitions that a member of a classic group has. Source: ConsumerProtocolAssignment.json of Apache Kafka.

    Args:
        assignment: as the group keeps it: a version, then topics with their partitions; empty for a member that
            has yet to get one.
    """
    if not assignment:
        return
    (topics,) = unpack_from(">xxi", assignment)
    place = 6
    for _ in range(topics):
        (length,) = unpack_from(">h", assignment, place)
        topic = assignment[place + 2 : place + 2 + length].decode()
        place += 2 + length
        (count,) = unpack_from(">i", assignment, place)
        for number in unpack_from(f">{count}i", assignment, place + 4):
            yield Partition(topic, number)
        place += 4 + 4 * count
