"""Finds partitions that no member of the group owns although the group is stable.

With the classic protocol a cooperative rebalance takes two steps: a member gives up partitions and joins again, and
only then are they assigned to another member. A static member that is killed between the two steps and restarted within
its session gets its old assignment back without a rebalance, so the second step never happens. The partitions it had
given up stay unowned until another member joins or leaves. The broker cannot see that, because only the assignor knows
which partitions are free. Therefore every static member checks after its start whether all partitions have owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, GroupMetadata, TopicDescription

from kafka_redelivery.transport.admin.group_members import decode_assignment
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.opening import open_admin
from kafka_redelivery.transport.protocols import Partition

_FIRST_CHECK_S: Final = 2.0
_INTERVAL_S: Final = 3.0
"""Between two checks. A member that still finishes records of a partition it gives up needs less than that."""

_REQUEST_TIMEOUT_S: Final = 10.0
_STABLE: Final = "Stable"
_MAX_REBALANCES: Final = 3
"""How often this process makes the group rebalance at most."""


class UnownedPartitionWatch:
    """Checks without blocking, until it has once seen an owner of every partition. Used by one thread."""

    def __init__(self, config: Config, group: str) -> None:
        """Keep the settings; the client connects with the first check.

        Args:
            config: settings of an admin client.
            group: the consumer group.
        """
        self._config = config
        self._group = group
        self._admin: AdminClient | None = None
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
            self._next_check_s = self._admin = None
        self._unowned = unowned
        return sorted(lasting)

    def _ask(self) -> None:
        if self._admin is None:
            self._admin = open_admin(self._config)
        group: Future[list[GroupMetadata]] = Future()
        Thread(target=_describe, args=(self._admin, self._group, group), name="unowned", daemon=True).start()
        topics = self._admin.describe_topics(TopicCollection(self._topics), request_timeout=_REQUEST_TIMEOUT_S)
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
        except KafkaException:
            return None
        if not described:
            return None
        members = described[0].members
        owned = {partition for member in members for partition in decode_assignment(member.assignment or b"")}
        return frozenset(wanted - owned)


def _describe(admin: AdminClient, group: str, answer: Future[list[GroupMetadata]]) -> None:
    """Send the older request: the newer one ends the process if Kafka becomes unavailable (librdkafka#4605)."""
    try:
        answer.set_result(admin.list_groups(group, _REQUEST_TIMEOUT_S))
    except BaseException as error:  # noqa: BLE001 - raised where the answer is taken
        answer.set_exception(error)
