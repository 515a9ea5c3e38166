"""Offsets of partitions, committed offsets of groups, and the deletion of records below an offset."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.calls import AdminCalls, admin_error, answers_of
from kafka_redelivery.transport.admin.errors import AdminError, NoLeaderError, NotAuthorisedError
from kafka_redelivery.transport.assigned_reader import committed_of
from kafka_redelivery.transport.client_config import ConfigValue, admin_config, consumer_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import BrokerUnavailableError, TransportError
from kafka_redelivery.transport.kafka_errors import with_right
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 30.0
_DENIED_S = 1.0
"""How soon it is noticed that the user may not ask about a group."""

_LEADERS_S = 2.0
"""How long to ask which partitions have no leader, after a request has failed."""

_READ_OFFSETS = "read the offsets of partitions"

_WAITING = frozenset({KafkaError._TIMED_OUT, KafkaError._WAIT_COORD})  # noqa: SLF001 - the client's own names


class PartitionOffsets:
    """Asks the cluster for offsets. Not thread-safe; connects with the first request.

    Without ``calls`` it has an admin client of its own. Every method raises :class:`BrokerUnavailableError` when no
    broker answers, :class:`NotAuthorisedError` when the user may not, :class:`NoLeaderError` when partitions still have
    no leader after ``timeout_s``, and :class:`AdminError` when the cluster refuses for another reason.
    """

    def __init__(
        self, kafka: Mapping[str, ConfigValue], *, timeout_s: float = _TIMEOUT_S, calls: AdminCalls | None = None
    ) -> None:
        self._kafka = kafka
        self.calls = calls or AdminCalls(admin_config(kafka), timeout_s=timeout_s)
        """The admin client, which other requests of the same thread may use, too."""

    def log_start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the first offset of each partition that has not been deleted."""
        return self._ask(partitions, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)

    def last_stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end offset of each partition for consumers of committed records: before open transactions."""
        return self._ask(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def high_watermarks(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end offset of each partition, open transactions included."""
        return self._ask(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def offsets_for_time(self, partitions: Iterable[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the first offset of each with a timestamp at or after ``epoch_ms``; without one it is missing."""
        found = self._ask(partitions, OffsetSpec.for_timestamp(epoch_ms), IsolationLevel.READ_COMMITTED)
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        """Return a group's committed offsets with their metadata; a partition without a commit is missing."""
        wanted = list(partitions)
        return committed(self.calls, self._kafka, group, wanted) if wanted else {}

    def _ask(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        return list_offsets(self.calls, partitions, spec, isolation)


def list_offsets(
    calls: AdminCalls,
    partitions: Iterable[Partition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    passed_on: Collection[int] = (),
) -> dict[Partition, int]:
    """Return the offset of each partition that ``spec`` describes; -1 if no record has the timestamp asked for.

    ``passed_on`` is that of :meth:`AdminCalls.repeated`.

    Raises:
        BrokerUnavailableError, NotAuthorisedError, NoLeaderError, AdminError: as :class:`PartitionOffsets`.
    """
    wanted = {TopicPartition(*partition): spec for partition in partitions}
    if not wanted:
        return {}
    try:
        answers = calls.each(
            _READ_OFFSETS,
            lambda: calls.connected(_READ_OFFSETS).list_offsets(wanted, isolation_level=isolation),
            passed_on=passed_on,
        )
    except NotAuthorisedError:
        raise
    except (AdminError, BrokerUnavailableError) as error:
        leaderless = _leaderless(calls, [Partition(each.topic, each.partition) for each in wanted])
        raise NoLeaderError(_READ_OFFSETS, leaderless) if leaderless else error from None
    return {Partition(entry.topic, entry.partition): answer.offset for entry, answer in answers.items()}


def _leaderless(calls: AdminCalls, partitions: Iterable[Partition]) -> list[Partition]:
    """Return those that have no leader; none if Kafka does not say so soon."""
    try:
        topics = calls.client.list_topics(timeout=_LEADERS_S).topics
    except KafkaException:
        return []
    leaderless = {
        Partition(name, each.id)
        for name, topic in topics.items()
        for each in topic.partitions.values()
        if each.leader < 0
    }
    return sorted(leaderless.intersection(partitions))


def readable_offsets(
    calls: AdminCalls, partitions: Iterable[Partition], spec: OffsetSpec
) -> tuple[dict[Partition, int], dict[Partition, str]]:
    """Return the offsets as :func:`list_offsets`, and why those of the other partitions cannot be read now.

    Raises:
        BrokerUnavailableError, NotAuthorisedError, AdminError: the cluster does not answer.
    """
    wanted = {TopicPartition(*partition): spec for partition in partitions}
    if not wanted:
        return {}, {}
    client = calls.connected(_READ_OFFSETS)
    answers, errors = answers_of(client.list_offsets(wanted, request_timeout=calls.timeout_s), calls.timeout_s)
    return (
        {Partition(entry.topic, entry.partition): answer.offset for entry, answer in answers.items()},
        {Partition(entry.topic, entry.partition): error.str() for entry, error in errors.items()},
    )


def committed(
    calls: AdminCalls,
    kafka: Mapping[str, ConfigValue],
    group: str,
    partitions: Iterable[Partition],
    right: str = "Describe",
) -> dict[Partition, Checkpoint]:
    """Return a group's committed offsets with their metadata, as :meth:`CommittedOffsets.ask`, and ask no more."""
    with closing(CommittedOffsets(calls, kafka, group, right)) as offsets:
        return offsets.ask(partitions)


class CommittedOffsets:
    """Asks for the committed offsets of a group. Not thread-safe.

    The requests go through a consumer, which does not join the group. The admin client crashes while the group's
    coordinator starts or moves (librdkafka#5040, open in 2.16), which on a new cluster is always.
    """

    def __init__(
        self, calls: AdminCalls, kafka: Mapping[str, ConfigValue], group: str, right: str = "Describe"
    ) -> None:
        """Open the consumer, which connects with the first request.

        Args:
            calls: repeats requests; its time limit is that of each of them.
            kafka: the client settings.
            group: the consumer group.
            right: what the caller needs on the group, for messages.

        Raises:
            ClientSettingsError: as :func:`open_consumer`.
        """
        self._calls, self._group, self._right = calls, group, right
        # Without waiting for open transactions: the offset before one is good enough here, and the transaction of a
        # process that died can stay open for longer than a start should wait.
        config = consumer_config(kafka, group=group, instance=None) | {"isolation.level": "read_uncommitted"}
        self._errors: list[KafkaError] = []
        self._consumer = open_consumer(config, admin_log, self._errors.append)

    def ask(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        """Return the committed offsets with their metadata; a partition without a commit is missing.

        Raises:
            BrokerUnavailableError, NotAuthorisedError, AdminError: as :class:`PartitionOffsets`.
        """
        wanted = [TopicPartition(*partition) for partition in partitions]
        if not wanted:
            return {}
        operation = f"read the offsets of group {self._group}"

        def ask() -> list[TopicPartition]:
            try:
                return _committed(self._consumer, wanted, self._calls.timeout_s)
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise
                right = f"{self._right} on group {self._group}"
                raise NotAuthorisedError(operation, error.str(), right, group=self._group) from None

        answer = self._calls.repeated(operation, ask, self._errors)
        self._errors.clear()
        found = {}
        for entry in answer:
            if entry.error is not None:
                raise admin_error(operation, entry.error, f"Describe on topic {entry.topic}")
            if entry.offset >= 0:
                found[Partition(entry.topic, entry.partition)] = Checkpoint(entry.offset, entry.metadata or "")
        return found

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()


def _committed(consumer: Consumer, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
    """Ask once. If the user may not ask for the group's coordinator, only a poll says it, and the request waits."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return committed_of(consumer, wanted, min(_DENIED_S, timeout_s))
        except KafkaException as exception:
            message = consumer.poll(0)
            refused = None if message is None else message.error()
            if refused is not None and refused.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise KafkaException(refused) from None
            if exception.args[0].code() not in _WAITING or time.monotonic() > deadline:
                raise


class RecordDeleter:
    """Deletes the oldest records of partitions for good. A partition that refuses does not affect the others.

    Not thread-safe; connects with the first request. Without ``calls`` it has an admin client of its own.
    """

    def __init__(self, kafka: Mapping[str, ConfigValue], *, calls: AdminCalls | None = None) -> None:
        self._calls = calls or AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def delete_before(self, ends: Mapping[Partition, int]) -> dict[Partition, str]:
        """Delete the records below these offsets.

        Returns:
            the reason for each partition that refused, or did not confirm in time.
        """
        wanted = [TopicPartition(*partition, end) for partition, end in ends.items()]
        try:
            client = self._calls.connected("delete records")
        except TransportError as error:
            return dict.fromkeys(ends, str(error))
        _, errors = answers_of(client.delete_records(wanted, request_timeout=_TIMEOUT_S), _TIMEOUT_S)
        return {
            Partition(entry.topic, entry.partition): with_right(error, f"Delete on topic {entry.topic}").str()
            for entry, error in errors.items()
        }
