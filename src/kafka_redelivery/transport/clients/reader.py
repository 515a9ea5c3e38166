"""The consumer of a group: its subscription, positions and commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.admin.group_members import UnownedPartitionWatch
from kafka_redelivery.transport.assigned_reader import committed_of, partition_of, take
from kafka_redelivery.transport.client_config import Config, identity_config, is_cooperative
from kafka_redelivery.transport.clients.committed_offsets import checkpoint_of, commit_offsets
from kafka_redelivery.transport.clients.login_watch import LoginWatch
from kafka_redelivery.transport.clients.outage import Outage, Report, ignore
from kafka_redelivery.transport.errors import (
    ConsumerError,
    PartitionUnfetchableError,
    PositionDeletedError,
    ReaderError,
    TopicForbiddenError,
)
from kafka_redelivery.transport.kafka_errors import (
    consumer_error,
    error_of,
    is_end,
    is_fatal,
    is_transient_for_consumer,
)
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition, RebalanceListener
from kafka_redelivery.transport.unreadable import ForbiddenTopics, UnfetchablePartitions

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 5.0
"""Requests are repeated. Python acts on a signal only between two calls of the client, so no call may take long."""

_SHORT_TIMEOUT_S = 2.0
_SHORTEST_TIMEOUT_S = 0.2
_WAITING_SHARE = 0.02
"""The share of its time for which a member waits for leaders that do not answer."""

_LEAVE_INTERVAL_S = 0.2
_LEAVE_TIMEOUT_S = 2.0
_SETTLE_S = 1.0
_SETTLE_INTERVAL_S = 0.1
"""One rebalance is often followed by another: a part is given back, then another is assigned."""

_LOG_GROUP_EVERY_S = 60.0

_NAME_TAKEN = [KafkaError(each).str() for each in (KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID)]
"""Texts of the fatal errors of a static member whose name another one has. The client reports no code of its own."""


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(map(str, partitions))


class GroupReader:
    """A :class:`Reader` that is a member of a consumer group. :meth:`fetch` and :meth:`close` call its listener.

    A *patient* one, that of a running worker or scheduler, waits for Kafka without limit, and also for rights: a topic
    that may not be read is reported, and the others are fetched further; :meth:`committed` leaves out its partitions if
    their offsets may not be read. The same holds for a partition that cannot be fetched, for example because a batch of
    its records is damaged. After a fatal error the client has no partitions, and most of its calls fail; the next
    :meth:`fetch` replaces it.
    """

    def __init__(
        self,
        config: Config,
        unowned: UnownedPartitionWatch | None = None,
        end_offsets: EndOffsets | None = None,
        report: Report | None = None,
        *,
        leave_on_close: bool = False,
    ) -> None:
        """Create the client, which joins the group when it subscribes.

        Args:
            config: settings of the consumer.
            unowned: finds partitions without an owner.
            end_offsets: refreshes the end offsets of paused partitions.
            report: receives what this reader waits for; it is patient then. ``None``: what fails ends with an error.
            leave_on_close: whether a static member leaves its group when it is closed.
        """
        self._leave_on_close = leave_on_close
        self._closing = self._rebalanced = False
        self._listener: RebalanceListener
        self._config = config
        self._login = None if report is None else LoginWatch(config, report)
        report = None if self._login is None else self._login.on_wait
        self._report = report or ignore
        self._requests = Outage("requests", report)
        self._membership = Outage("membership", report)
        self._forbidden = ForbiddenTopics(identity_config(config))
        self._unfetchable = UnfetchablePartitions()
        self._unowned = unowned
        self._end_offsets = end_offsets
        self._paused: set[Partition] = set()
        self._topics: list[str] = []
        self._cooperative = is_cooperative(config)
        self._group = str(config.get("group.id", ""))
        self._joined = False
        """Whether the group has ever assigned something, possibly no partition."""

        self._log_group_again_s = 0.0
        self._patience_s, self._asked_s = _CALL_TIMEOUT_S, monotonic()
        """How long :meth:`bounds_now` still waited for answers that do not come, when it was last called (monotonic).
        """

        self._ends: dict[Partition, int] = {}
        """The end offset of each partition when it was last reached."""

        self._new_ends: dict[Partition, int] = {}
        """The part of ``_ends`` that :meth:`take_reached_ends` has not returned yet."""

        self._foreign: list[Partition] = []
        """Assigned partitions of topics that are not subscribed."""

        self._starts: dict[Partition, int] = {}
        """Where each assigned partition was last told to start."""

        self._deleted: dict[Partition, PositionDeletedError] = {}
        """What was found about the present positions, and the next :meth:`fetch` raises."""

        self._failure: Exception | None = None
        self._started: dict[Partition, int] = {}
        """The start offset of each partition that was assigned, or got a new position by seek, in the current fetch."""

        self._consumer = self._open()

    def _open(self) -> Consumer:
        return open_consumer(self._config, on_error=None if self._login is None else self._login.on_error)

    @property
    def forbidden(self) -> Mapping[str, str]:
        """See :class:`Reader`. Empty if this reader is not patient: :meth:`fetch` raises an error then."""
        return self._forbidden.problems

    def forbid(self, topics: Iterable[str]) -> None:
        """See :class:`Reader`."""
        if self._login is not None:
            for topic in topics:
                self._forbidden.add(TopicForbiddenError(topic, "its offsets may not be committed"))

    @property
    def unfetchable(self) -> Mapping[Partition, str]:
        """See :class:`Reader`. Empty if this reader is not patient."""
        return {partition: str(error) for partition, error in self._unfetchable.errors.items()}

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """See :class:`Reader`."""
        self._listener = listener
        self._topics = list(topics)
        self._forbidden.keep(self._topics)
        self._subscribe()

    def _subscribe(self) -> None:
        if self._unowned is not None:
            self._unowned.start(self._topics)
        try:
            if self._topics:
                self._consumer.subscribe(
                    list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
            else:
                self._consumer.unsubscribe()  # the client refuses an empty subscription
        except KafkaException as exception:
            if self._login is None or not is_fatal(exception.args[0]):
                raise

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """See :class:`Reader`."""
        if self._login is None:
            return self._fetch(maximum, timeout_s)
        self._forbidden.poll()
        self._login.poll()
        if due := self._unfetchable.take_due():
            for partition in due:
                self.seek(partition, self._starts[partition])  # the client may have stopped it meanwhile
            self._consumer.resume([TopicPartition(*partition) for partition in due if partition not in self._paused])
        try:
            messages = self._fetch(maximum, timeout_s)
            return self._without_unfetchable(messages) if self._unfetchable.errors else messages
        except ConsumerError as error:
            if not error.fatal:
                raise
            self._replace_consumer(error)
        except (KafkaException, SystemError) as exception:
            cause = error_of(exception)
            if not is_fatal(cause):
                raise
            self._replace_consumer(consumer_error(cause, "", self._group))
        return []

    def _fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        if self._foreign:
            foreign, self._foreign = self._foreign, []
            self._rejoin(f"this process does not subscribe to {_names(foreign)}, which the group has assigned to it")
        if self._unowned is not None and (unowned := self._unowned.poll()):
            self._rejoin(f"no member of the group owns {_names(unowned)}")
        if self._deleted:
            partition = next(iter(self._deleted))
            self._unfetchable.drop(partition)
            raise self._deleted.pop(partition)
        self._started.clear()
        messages = take(self._consumer, maximum, timeout_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._started:
            messages = self._without_started(messages)
        good = [message for message in messages if message.error() is None]
        if len(good) != len(messages):
            for index, message in enumerate(messages):
                if message.error() is not None:
                    self._on_error(messages, index)
        return cast("list[Message]", good)

    def _without_unfetchable(self, messages: list[Message]) -> list[Message]:
        """Drop the records behind an error, which are fetched again, and end the halts of partitions that go on."""
        kept = []
        fetched = self._unfetchable.errors.keys() & self._ends.keys()
        for message in messages:
            partition = Partition(message.topic(), message.partition())
            if not self._unfetchable.is_halted(partition) or message.offset() < self._starts[partition]:
                kept.append(message)
                fetched.add(partition)
        self._unfetchable.fetched(fetched)
        return kept

    def _rejoin(self, problem: str) -> None:
        """Leave the group and join it again, which makes it assign all partitions again."""
        _log.warning("%s; joining the group again", problem)
        self._consumer.unsubscribe()
        self._subscribe()

    def _without_started(self, messages: list[KafkaMessage]) -> list[KafkaMessage]:
        """Drop and refetch the records of partitions that were assigned, or got a new position by seek, in this fetch.

        One call of the client can return records from before such a change, which may lie beyond the new start.
        """
        kept = []
        refetched: dict[Partition, int] = {}
        for message in messages:
            partition = partition_of(message)
            if partition in self._started:
                refetched[partition] = self._started[partition]
            else:
                kept.append(message)
        for partition, start in refetched.items():
            self.seek(partition, start)
        return kept

    @property
    def paused(self) -> AbstractSet[Partition]:
        """See :class:`Reader`."""
        return self._paused

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`. The client drops its prefetched records and fetches them again after :meth:`resume`."""
        paused = list(partitions)
        self._consumer.pause([TopicPartition(*partition) for partition in paused])
        self._paused.update(paused)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`."""
        resumed = list(partitions)
        self._consumer.resume([TopicPartition(*each) for each in resumed if not self._unfetchable.is_halted(each)])
        self._paused.difference_update(resumed)

    def seek(self, partition: Partition, offset: int) -> None:
        """See :class:`Reader`. During a fetch, by the listener, it also applies to the records of that fetch."""
        self._forget(partition)
        self._started[partition] = self._starts[partition] = offset
        try:
            try:
                self._consumer.seek(TopicPartition(*partition, offset))
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - the client's own name
                    raise
                self._assign_again(partition)  # the client has stopped fetching it, because its position was deleted
        except KafkaException:
            if self._login is None or self._consumer.assignment():
                raise

    def _assign_again(self, partition: Partition) -> None:
        """Make the client fetch a partition again that it has stopped, from its start offset. A pause stays."""
        if self._cooperative:
            self._consumer.incremental_unassign([TopicPartition(*partition)])
            self._consumer.incremental_assign([TopicPartition(*partition, self._starts[partition])])
            return
        positions = self._consumer.position([TopicPartition(*each) for each in self._starts if each != partition])
        others = [(Partition(each.topic, each.partition), each.offset) for each in positions]
        resumed = {each: offset if offset >= 0 else self._starts[each] for each, offset in others}
        resumed[partition] = self._starts[partition]
        self._consumer.assign([TopicPartition(*each, offset) for each, offset in resumed.items()])

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """See :class:`Reader`."""
        asked = [TopicPartition(*partition) for partition in partitions]
        if not asked:
            return {}

        def ask() -> list[TopicPartition]:
            answer = committed_of(self._consumer, asked, _CALL_TIMEOUT_S)
            for entry in answer:
                if entry.error is not None and not self._is_left_out(entry.error):
                    raise KafkaException(entry.error)
            return [entry for entry in answer if entry.error is None]

        right = f"Read on group {self._group} and on topics {', '.join(sorted({entry.topic for entry in asked}))}"
        answer = self._requests.repeat(ask, "the committed offsets cannot be read", right)
        return {Partition(each.topic, each.partition): checkpoint_of(each) for each in answer}

    def _is_left_out(self, error: KafkaError) -> bool:
        """Whether :meth:`committed` leaves out a partition with this error."""
        return self._login is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def committed_now(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """See :class:`Reader`. Waits up to two seconds."""
        asked = [TopicPartition(*partition) for partition in partitions]
        try:
            answer = committed_of(self._consumer, asked, _SHORT_TIMEOUT_S) if asked else []
        except KafkaException as exception:
            _log.debug("the committed offsets cannot be read now: %s", exception)
            return {}
        return {Partition(each.topic, each.partition): checkpoint_of(each) for each in answer if each.error is None}

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """See :class:`Reader`."""
        problem = f"the offsets of {partition} cannot be read"
        ask = partial(self._ask_bounds, partition, _CALL_TIMEOUT_S)
        return self._requests.repeat(ask, problem, f"Describe on topic {partition.topic}")

    def bounds_now(self, partition: Partition) -> tuple[int, int] | None:
        """See :class:`Reader`.

        Partitions that do not answer take five seconds altogether, and then a fiftieth of the time, or 0.2 s each: a
        member that waits fetches nothing, and one that does so for long loses all its partitions.
        """
        began_s = monotonic()
        earned_s = (began_s - self._asked_s) * _WAITING_SHARE
        self._patience_s, self._asked_s = min(self._patience_s + earned_s, _CALL_TIMEOUT_S), began_s
        timeout_s = max(self._patience_s, _SHORTEST_TIMEOUT_S)
        try:
            try:
                return self._ask_bounds(partition, timeout_s)
            except KafkaException as exception:
                if exception.args[0].code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - the client's own name
                    raise
                return self._ask_bounds(partition, timeout_s)  # the client has asked for its leader again
        except KafkaException as exception:
            self._patience_s = max(0.0, self._patience_s - (monotonic() - began_s))
            _log.info("the offsets of %s cannot be read now: %s", partition, exception.args[0].str())
            return None

    def end_at(self, partition: Partition, time_ms: int, end: int) -> int | None:
        """See :class:`Reader`. Waits up to two seconds."""
        with suppress(KafkaException):
            [found] = self._consumer.offsets_for_times([TopicPartition(*partition, time_ms)], _SHORT_TIMEOUT_S)
            if found.error is None:
                return found.offset if found.offset >= 0 else end
        _log.info("the offset of %s at a time cannot be read now", partition)
        return None

    def _ask_bounds(self, partition: Partition, timeout_s: float) -> tuple[int, int]:
        try:
            found = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout_s)
        except KafkaException as exception:
            if exception.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - the client's own name
                self._consumer.list_topics(partition.topic, timeout_s)  # it was added a moment ago
            raise
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the client's own name
        low, high = found
        return low, high

    def lags(self, next_offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """See :class:`Reader`. The end offset of a paused partition is some seconds old."""
        if self._end_offsets is not None:
            self._end_offsets.refresh(self._paused)
        return {partition: self._lag(partition, offset) for partition, offset in next_offsets.items()}

    def _lag(self, partition: Partition, next_offset: int) -> int:
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except (KafkaException, TypeError):
            high = 0
        if self._end_offsets is not None:
            high = max(high, self._end_offsets.end(partition) or 0)
        # Where the end was reached counts, because transaction markers keep a difference of offsets above 0.
        return max(0, high - max(next_offset, self._ends.get(partition) or 0))

    def reached_end(self, partition: Partition) -> int | None:
        """Return the end offset of a partition when :meth:`fetch` last reached it; ``None`` if it has not yet.

        All records of committed transactions before this offset have been fetched.
        """
        return self._ends.get(partition)

    def take_reached_ends(self) -> dict[Partition, int]:
        """See :class:`Reader`."""
        if not self._new_ends:
            return {}
        ends, self._new_ends = self._new_ends, {}
        return ends

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        """See :class:`Reader`. Sends a request for each of ``topics``."""
        found: dict[str, int] = {}
        for each in (None,) if topics is None else topics:
            request = partial(self._consumer.list_topics, each, _CALL_TIMEOUT_S)
            listed = self._requests.repeat(request, "the topics cannot be listed").topics
            found |= {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}
        return found

    def group_metadata(self) -> object:
        """See :class:`GroupMember`."""
        return self._consumer.consumer_group_metadata()

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`GroupMember`. The client has no time-out for it, and allows no other call meanwhile."""
        self._report("commit", "the offsets are not committed yet", call=True)
        try:
            commit_offsets(self._consumer, checkpoints)
        finally:
            self._report("commit", None)

    def leave(self) -> None:
        """Give the assignment back and leave the group, also with static membership. Then call :meth:`close`."""
        self._unowned = None
        self._consumer.unsubscribe()
        deadline = monotonic() + _LEAVE_TIMEOUT_S
        # The client forgets its member id when it leaves.
        while (self._consumer.assignment() or self._consumer.memberid()) and monotonic() < deadline:
            self._consumer.poll(_LEAVE_INTERVAL_S)

    def close(self) -> None:
        """See :class:`Reader`."""
        self._closing = True
        if self._login is not None:
            self._login.close()
        with suppress(KafkaException, SystemError):
            if self._leave_on_close:
                self.leave()
            else:
                self._settle()
        self._consumer.close()

    def _settle(self) -> None:
        """Answer the rebalances of the time in which nothing was fetched, so that none is left to the client's close.

        The client adds one that revokes everything, and ends the group when one of the two is answered. It may then
        drop the answer to the other one without a reply, and the close waits for that for ever, with Python's lock
        (librdkafka#4041).
        """
        self.pause(self._starts)
        end_s, wait_s = monotonic() + _SETTLE_S, 0.0
        while monotonic() < end_s:
            self._rebalanced = False
            if self._consumer.poll(wait_s) is None and not self._rebalanced:
                return
            wait_s = _SETTLE_INTERVAL_S if self._rebalanced else 0.0

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalanced = True
        if self._closing:
            return  # the client answers no requests any more, and gives these partitions back at once
        self._joined = True
        self._membership.over()
        assigned = [Partition(entry.topic, entry.partition) for entry in partitions]
        # A static member that restarts within its session gets its former assignment back, whatever it subscribes to.
        foreign = [partition for partition in assigned if partition.topic not in self._topics]
        try:
            starts = self._listener.assigned([partition for partition in assigned if partition not in foreign])
            self._started.update(starts)
        except Exception as exception:  # noqa: BLE001 - cannot pass through the client's C code; fetch() raises it
            self._failure = exception
            starts = {}
        # A partition without a start is not read: it does not exist, or belongs to a tier that was deleted meanwhile.
        # Any valid offset will do, also after a failure: fetch() raises that before it returns a record.
        offsets = [TopicPartition(*partition, starts.get(partition, OFFSET_BEGINNING)) for partition in assigned]
        unread = [partition for partition in assigned if partition not in starts]
        for partition in assigned:
            self._unfetchable.drop(partition)
            self._forget(partition)
        self._starts.update(zip(assigned, (entry.offset for entry in offsets), strict=True))
        if self._cooperative:
            consumer.incremental_assign(offsets)
        else:
            consumer.assign(offsets)
        # The client keeps a partition paused that was revoked and is assigned again.
        consumer.resume(offsets)
        self._paused.difference_update(assigned)
        if unread:
            self.pause(unread)
        self._foreign = foreign or self._foreign

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(self._listener.revoked, partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._unassign(self._listener.lost, partitions)

    def _unassign(self, notify: Callable[[Iterable[Partition]], None], partitions: list[TopicPartition]) -> None:
        self._rebalanced = True
        gone = [Partition(entry.topic, entry.partition) for entry in partitions]
        self._paused.difference_update(gone)
        for partition in gone:
            self._unfetchable.drop(partition)
            self._forget(partition)
            self._starts.pop(partition, None)
        try:
            notify(gone)
        except Exception as exception:  # noqa: BLE001 - as in _on_assign
            self._failure = exception

    def _forget(self, partition: Partition) -> None:
        self._ends.pop(partition, None)
        self._new_ends.pop(partition, None)
        self._deleted.pop(partition, None)

    def _on_error(self, messages: Sequence[KafkaMessage], index: int) -> None:
        """Act on the error among the fetched messages that has this index."""
        message = messages[index]
        error, at = cast("KafkaError", message.error()), message.offset()
        partition, code = partition_of(message), error.code()
        if self._unfetchable.is_halted(partition) and not is_fatal(error):
            return  # behind a damaged batch, the client continues at a wrong position
        if is_end(error):
            if partition in self._starts:  # it is still assigned
                self._ends[partition] = self._new_ends[partition] = at or 0
        elif code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            if partition not in self._starts:
                return
            judged = judge_position(self._consumer, partition, at, self._starts[partition], error.str())
            if isinstance(judged, int):
                self.seek(partition, judged)
            elif judged.offset >= self._starts[partition]:
                self._deleted[partition] = judged
        elif is_fatal(error) or not is_transient_for_consumer(error):
            start = self._starts.get(partition)
            offset = 0 if start is None else position_before(self._consumer, messages, index, start)
            self._refused(partition, consumer_error(error, partition.topic, self._group, partition.number, offset))
        else:
            _log.warning("consumer: %s", error.str())

    def _refused(self, partition: Partition, error: ReaderError) -> None:
        """Note what Kafka refuses, or raise it if this reader is not patient, or has not joined the group yet."""
        if self._login is None:
            raise error
        if isinstance(error, TopicForbiddenError):
            self._forbidden.add(error)
        elif isinstance(error, PartitionUnfetchableError):
            if partition in self._starts:  # it is still assigned: it is fetched again behind the last record before
                self.seek(partition, error.offset)
                self._unfetchable.add(partition, error)
                self._consumer.pause([TopicPartition(*partition)])
        elif not (isinstance(error, ConsumerError) and not error.fatal and self._joined):
            raise error
        elif monotonic() >= self._log_group_again_s:  # the client tries to join once a second
            self._log_group_again_s = monotonic() + _LOG_GROUP_EVERY_S
            _log.warning("%s; the client tries again by itself", error)

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
        for state in (self._deleted, self._paused, self._ends, self._new_ends):
            state.clear()
        self._unfetchable.clear()
        self._consumer = self._requests.repeat(self._open, "the consumer cannot be opened")
        self._subscribe()


class LoneReader(GroupReader):
    """Reads all partitions of its topics and the committed offsets of a group that it does not join."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._cooperative = False  # each subscription replaces the partitions

    def _subscribe(self) -> None:
        counts = self.partition_counts(self._topics).items()
        every = [TopicPartition(topic, number) for topic, count in counts for number in range(count)]
        self._on_assign(self._consumer, every)


def judge_position(
    consumer: Consumer, partition: Partition, refused: int | None, start: int, detail: str
) -> PositionDeletedError | int:
    """Return the error of a position that does not exist, or the offset to seek to, because it may exist.

    Waits up to two seconds for the broker.

    Args:
        consumer: its client has stopped fetching the partition.
        partition: the partition.
        refused: the refused offset; ``None`` if the client has found itself that the log was truncated (KIP-320).
        start: where the partition was last made to start.
        detail: the client's error.
    """
    expected = _position(consumer, partition, start)
    try:
        found = consumer.get_watermark_offsets(TopicPartition(*partition), _SHORT_TIMEOUT_S)
    except KafkaException:
        found = None
    if found is None:
        return expected
    start_of_log, end = found
    if refused is not None and refused > max(end, expected):
        return expected  # behind a damaged batch, the client jumps to any offset
    # An offset that the log has again was refused because the log was shorter then. Its new record is another one.
    truncated = expected >= 0 if refused is None else refused >= start_of_log
    offset = max(0, expected) if refused is None else refused
    return PositionDeletedError(*partition, offset, detail, end=end if truncated else None)


def position_before(consumer: Consumer, messages: Sequence[KafkaMessage], index: int, start: int) -> int:
    """Return the offset behind the last record of a partition that was fetched before an error of it.

    The error names an offset, too, but that is read from the batch, which may be damaged. So is the position at which
    the client goes on.

    Args:
        consumer: has fetched the messages.
        messages: what one fetch has returned.
        index: the index of the error among them.
        start: where the partition was last made to start.
    """
    partition = partition_of(messages[index])
    fetched = [each for each, message in enumerate(messages) if partition_of(message) == partition]
    records = [each for each in fetched if messages[each].error() is None]
    before = [each for each in records if each < index]
    if before:
        return (messages[before[-1]].offset() or 0) + 1
    if not records:
        return _position(consumer, partition, start)
    # The client's position is that of the records behind the error. Records that are fetched again are recognized.
    try:
        [committed] = consumer.committed([TopicPartition(*partition)], _SHORT_TIMEOUT_S)
    except KafkaException:
        return start
    return max(start, committed.offset)


def _position(consumer: Consumer, partition: Partition, start: int) -> int:
    """Return the offset behind the last record that was fetched."""
    [position] = consumer.position([TopicPartition(*partition)])
    return position.offset if position.offset >= 0 else start
