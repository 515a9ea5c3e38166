"""The consumer of a running worker or scheduler, which goes on after every outage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.admin.unowned_partitions import UnownedPartitionWatch
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.forbidden_topics import ForbiddenTopics
from kafka_redelivery.transport.clients.login_watch import LoginWatch
from kafka_redelivery.transport.clients.outage import Outage, Report
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.refused_position import partition_of
from kafka_redelivery.transport.clients.unfetchable_partitions import UnfetchablePartitions
from kafka_redelivery.transport.errors import (
    ConsumerFailedError,
    ConsumerRefusedError,
    PartitionUnfetchableError,
    PositionDeletedError,
    TopicForbiddenError,
)
from kafka_redelivery.transport.kafka_errors import consumer_error, error_of, is_fatal
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

_LOG_GROUP_EVERY_S = 60.0

_NAME_TAKEN = [KafkaError(each).str() for each in (KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID)]
"""Texts of the fatal errors of a static member whose name another one has. The client reports no code of its own."""


class EnduringReader(GroupReader):
    """A :class:`GroupReader` that waits for Kafka without limit, and replaces a consumer that has failed for good.

    It also waits for rights: a topic that may not be read is reported, and the others are fetched further;
    :meth:`committed` leaves out its partitions if their offsets may not be read. The same holds for a partition that
    cannot be fetched, for example because a batch of its records is damaged.

    After a fatal error the client has no partitions, and most of its calls fail. The next :meth:`fetch` replaces it.
    """

    def __init__(
        self,
        config: Config,
        unowned: UnownedPartitionWatch | None,
        end_offsets: EndOffsets | None,
        report: Report,
        forbidden: ForbiddenTopics,
        *,
        leave_on_close: bool = False,
    ) -> None:
        """See :class:`GroupReader`. ``forbidden`` gets the topics that may not be read."""
        self._login = LoginWatch(config, report)
        report = self._login.on_wait
        super().__init__(config, unowned, end_offsets, report, leave_on_close=leave_on_close)
        self._forbidden = forbidden
        self._left_out = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED})
        self._unfetchable = UnfetchablePartitions()
        self._log_group_again_s = 0.0
        self._report = report
        self._membership = Outage("membership", report)
        self._joined = False
        """Whether the group has ever assigned something, possibly no partition."""

    @property
    def forbidden(self) -> Mapping[str, str]:
        """See :class:`Reader`."""
        return self._forbidden.problems

    def forbid(self, topics: Iterable[str]) -> None:
        """See :class:`Reader`."""
        for topic in topics:
            self._forbidden.add(TopicForbiddenError(topic, "its offsets may not be committed"))

    @property
    def unfetchable(self) -> Mapping[Partition, str]:
        """See :class:`Reader`."""
        return {partition: str(error) for partition, error in self._unfetchable.errors.items()}

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """See :class:`Reader`."""
        self._forbidden.poll()
        self._login.poll()
        if due := self._unfetchable.take_due():
            for partition in due:
                self.seek(partition, self._starts[partition])  # the client may have stopped it meanwhile
            self._consumer.resume([TopicPartition(*partition) for partition in due if partition not in self._paused])
        try:
            messages = super().fetch(maximum, timeout_s)
            return self._without_unfetchable(messages) if self._unfetchable.errors else messages
        except PositionDeletedError as error:
            self._unfetchable.forget(Partition(error.topic, error.number))
            raise
        except ConsumerFailedError as error:
            self._replace_consumer(error)
        except (KafkaException, SystemError) as exception:
            cause = error_of(exception)
            if not is_fatal(cause):
                raise
            self._replace_consumer(consumer_error(cause, "", self._group))
        return []

    def _without_unfetchable(self, messages: list[Message]) -> list[Message]:
        """Drop the records behind an error, which are fetched again, and end the halts of partitions that go on."""
        kept = []
        fetched = {partition for partition in self._unfetchable.errors if self._ends.get(partition) is not None}
        for message in messages:
            partition = Partition(message.topic(), message.partition())
            if not self._unfetchable.is_halted(partition) or message.offset() < self._starts[partition]:
                kept.append(message)
                fetched.add(partition)
        self._unfetchable.fetched(fetched)
        return kept

    def _open(self) -> Consumer:
        return open_consumer(self._config, on_error=self._login.on_error)

    def close(self) -> None:
        """See :class:`Reader`."""
        self._login.close()
        super().close()

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`."""
        resumed = list(partitions)
        super().resume(resumed)
        self._pause_unfetchable(resumed)

    def _pause_unfetchable(self, partitions: Iterable[Partition]) -> None:
        halted = [TopicPartition(*partition) for partition in partitions if self._unfetchable.is_halted(partition)]
        if halted:
            self._consumer.pause(halted)

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`GroupMember`. The client has no time-out for it, and allows no other call meanwhile."""
        self._report("commit", "the offsets are not committed yet", call=True)
        try:
            super().commit(checkpoints)
        finally:
            self._report("commit", None)

    def seek(self, partition: Partition, offset: int) -> None:
        """See :class:`Reader`."""
        try:
            super().seek(partition, offset)
        except KafkaException:
            if self._consumer.assignment():
                raise

    def _subscribe(self) -> None:
        try:
            super()._subscribe()
        except KafkaException as exception:
            if not is_fatal(exception.args[0]):
                raise

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._joined = True
        self._membership.over()
        self._forget_unfetchable(partitions)
        super()._on_assign(consumer, partitions)

    def _unassign(self, notify: Callable[[Iterable[Partition]], None], partitions: list[TopicPartition]) -> None:
        self._forget_unfetchable(partitions)
        super()._unassign(notify, partitions)

    def _forget_unfetchable(self, partitions: list[TopicPartition]) -> None:
        for entry in partitions:
            self._unfetchable.forget(Partition(entry.topic, entry.partition))

    def _on_error(self, messages: Sequence[KafkaMessage], index: int) -> None:
        partition = partition_of(messages[index])
        if self._unfetchable.is_halted(partition) and not is_fatal(cast("KafkaError", messages[index].error())):
            return  # behind a damaged batch, the client continues at a wrong position
        try:
            super()._on_error(messages, index)
        except TopicForbiddenError as denied:
            self._forbidden.add(denied)
        except PartitionUnfetchableError as unfetchable:
            self._halt(partition, unfetchable)
        except ConsumerRefusedError as refused:
            if not self._joined:
                raise
            if monotonic() >= self._log_group_again_s:  # the client tries to join once a second
                self._log_group_again_s = monotonic() + _LOG_GROUP_EVERY_S
                _log.warning("%s; the client tries again by itself", refused)

    def _halt(self, partition: Partition, error: PartitionUnfetchableError) -> None:
        """Stop fetching a partition. It will be fetched again behind the last record before the error."""
        if partition not in self._starts:
            return  # it is not assigned any more
        self.seek(partition, error.offset)
        self._unfetchable.add(partition, error)
        self._pause_unfetchable([partition])

    def _replace_consumer(self, error: Exception) -> None:
        """Join the group again with a new client. What the old one held is void.

        If another member has the name of this one, it goes on as a dynamic member: to take the name back would make the
        two fence each other for ever.

        Raises:
            ReaderError: a process that has just started, and whose name no other has, does not wait.
        """
        name = self._config.get("group.instance.id")
        taken = name is not None and any(each in str(error) for each in _NAME_TAKEN)
        if not (taken or self._joined):
            raise error
        problem = f"the consumer failed and joins group {self._group} again"
        if taken:
            problem += (
                f" without its name, because another process may have joined as group.instance.id {name}: give each "
                "process its own 'instance'"
            )
            self._config = {key: value for key, value in self._config.items() if key != "group.instance.id"}
        held: Sequence[Partition] = list(self._starts)
        self._starts.clear()
        self._listener.lost(held)
        self._consumer.close()
        self._membership.wait(f"{problem} ({error})")
        self._unowned = None
        self._foreign = []
        self._deleted.clear()
        self._paused.clear()
        self._ends.clear()
        self._unfetchable.clear()
        self._consumer = self._open()
        self._subscribe()
