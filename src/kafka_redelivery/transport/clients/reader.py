"""The consumer of a group: its subscription, positions and commits."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.admin.unowned_partitions import UnownedPartitionWatch
from kafka_redelivery.transport.client_config import Config, is_cooperative
from kafka_redelivery.transport.clients.committed_offsets import checkpoint_of, commit_offsets
from kafka_redelivery.transport.clients.outage import Outage, Report
from kafka_redelivery.transport.clients.refused_position import judge_position, partition_of, position_before
from kafka_redelivery.transport.errors import PositionDeletedError
from kafka_redelivery.transport.kafka_errors import consumer_error, is_fatal, is_transient_for_consumer
from kafka_redelivery.transport.opening import open_consumer
from kafka_redelivery.transport.protocols import Message, Partition, RebalanceListener


class ReachedEnds:
    """Keeps the end offset of each partition when it was last reached. Used by one thread."""

    def __init__(self) -> None:
        """Start without partitions."""
        self._ends: dict[Partition, int] = {}
        self._new: dict[Partition, int] = {}
        """The part of ``_ends`` that :meth:`take` has not returned yet."""

    def reach(self, partition: Partition, end: int) -> None:
        """Note that the end of a partition is reached."""
        self._ends[partition] = self._new[partition] = end

    def get(self, partition: Partition) -> int | None:
        """Return the end offset; ``None`` if it was not reached."""
        return self._ends.get(partition)

    def take(self) -> dict[Partition, int]:
        """Return the ends that were reached since the last call."""
        if not self._new:
            return self._new
        ends, self._new = self._new, {}
        return ends

    def forget(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned, or is read from another position."""
        self._ends.pop(partition, None)
        self._new.pop(partition, None)

    def clear(self) -> None:
        """Drop all partitions."""
        self._ends.clear()
        self._new.clear()


_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 5.0
"""Requests are repeated. Python acts on a signal only between two calls of the client, so no call may take long."""

_SHORT_TIMEOUT_S = 2.0
_LEAVE_INTERVAL_S = 0.2
_LEAVE_TIMEOUT_S = 2.0


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(map(str, partitions))


class GroupReader:
    """A :class:`Reader` that is a member of a consumer group. :meth:`fetch` and :meth:`close` call its listener."""

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
            report: receives what a request waits for; it is then repeated without limit. ``None``: it ends with an
                error.
            leave_on_close: whether a static member leaves its group when it is closed.
        """
        self._leave_on_close = leave_on_close
        self._closing = False
        self._left_out: frozenset[int] = frozenset()  # error codes of partitions that committed() leaves out
        self._listener: RebalanceListener
        self._config = config
        self._requests = Outage("requests", report)
        self._unowned = unowned
        self._end_offsets = end_offsets
        self._paused: set[Partition] = set()
        self._topics: list[str] = []
        self._cooperative = is_cooperative(config)
        self._group = str(config.get("group.id", ""))
        self._ends = ReachedEnds()
        self._foreign: list[Partition] = []
        """Assigned partitions of topics that are not subscribed."""

        self._starts: dict[Partition, int] = {}
        """Where each assigned partition was last told to start."""

        self._deleted: deque[PositionDeletedError] = deque()
        self._failure: Exception | None = None
        self._started: dict[Partition, int] = {}
        """The start offset of each partition that was assigned, or got a new position by seek, in the current fetch."""

        self._consumer = self._open()

    def _open(self) -> Consumer:
        return open_consumer(self._config)

    @property
    def forbidden(self) -> Mapping[str, str]:
        """See :class:`Reader`. Always empty: :meth:`fetch` raises an error instead."""
        return {}

    def forbid(self, topics: Iterable[str]) -> None:
        """See :class:`Reader`. Does nothing: the next :meth:`fetch` raises an error."""

    @property
    def unfetchable(self) -> Mapping[Partition, str]:
        """See :class:`Reader`. Always empty: :meth:`fetch` raises an error instead."""
        return {}

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """See :class:`Reader`."""
        self._listener = listener
        self._topics = list(topics)
        self._subscribe()

    def _subscribe(self) -> None:
        if self._unowned is not None:
            self._unowned.start(self._topics)
        if not self._topics:
            self._consumer.unsubscribe()  # the client refuses an empty subscription
            return
        self._consumer.subscribe(
            list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """See :class:`Reader`.

        Waits for one record and then takes what is there, because ``consume(n, timeout)`` would wait for all n.
        """
        if self._foreign:
            foreign, self._foreign = self._foreign, []
            self._rejoin(f"this process does not subscribe to {_names(foreign)}, which the group has assigned to it")
        if self._unowned is not None and (unowned := self._unowned.poll()):
            self._rejoin(f"no member of the group owns {_names(unowned)}")
        self._raise_if_deleted()
        self._started.clear()
        first = self._consumer.poll(timeout_s)
        self._raise_failure()
        if first is None:
            return []
        messages = [first]
        if maximum > 1:
            messages += self._consumer.consume(maximum - 1, 0)
            self._raise_failure()
        if self._started:
            messages = self._without_started(messages)
        good = [message for message in messages if message.error() is None]
        if len(good) != len(messages):
            for index, message in enumerate(messages):
                if message.error() is not None:
                    self._on_error(messages, index)
        return cast("list[Message]", good)

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
            partition = Partition(message.topic() or "", message.partition() or 0)
            if partition in self._started:
                refetched[partition] = self._started[partition]
            else:
                kept.append(message)
        for partition, start in refetched.items():
            self.seek(partition, start)
        return kept

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`. The client drops its prefetched records and fetches them again after :meth:`resume`."""
        paused = list(partitions)
        self._consumer.pause([TopicPartition(*partition) for partition in paused])
        self._paused.update(paused)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See :class:`Reader`."""
        resumed = list(partitions)
        self._consumer.resume([TopicPartition(*partition) for partition in resumed])
        self._paused.difference_update(resumed)

    def seek(self, partition: Partition, offset: int) -> None:
        """See :class:`Reader`. During a fetch, by the listener, it also applies to the records of that fetch."""
        self._ends.forget(partition)
        self._forget_deleted([partition])
        self._started[partition] = self._starts[partition] = offset
        try:
            self._consumer.seek(TopicPartition(*partition, offset))
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - the client's own name
                raise
            self._assign_again(partition)  # the client has stopped fetching it, because its position was deleted

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
            answer = self._consumer.committed(asked, _CALL_TIMEOUT_S)
            for entry in answer:
                if entry.error is not None and entry.error.code() not in self._left_out:
                    raise KafkaException(entry.error)
            return [entry for entry in answer if entry.error is None]

        right = f"Read on group {self._group} and on topics {', '.join(sorted({entry.topic for entry in asked}))}"
        answer = self._requests.repeat(ask, "the committed offsets cannot be read", right)
        return {Partition(each.topic, each.partition): checkpoint_of(each) for each in answer}

    def committed_now(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """See :class:`Reader`. Waits up to two seconds."""
        asked = [TopicPartition(*partition) for partition in partitions]
        try:
            answer = self._consumer.committed(asked, _SHORT_TIMEOUT_S) if asked else []
        except KafkaException as exception:
            _log.debug("the committed offsets cannot be read now: %s", exception)
            return {}
        return {Partition(each.topic, each.partition): checkpoint_of(each) for each in answer if each.error is None}

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """See :class:`Reader`."""

        def ask() -> tuple[int, int]:
            try:
                found = self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_TIMEOUT_S)
            except KafkaException as exception:
                if exception.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - the client's own name
                    self._consumer.list_topics(partition.topic, _CALL_TIMEOUT_S)  # it was added a moment ago
                raise
            if found is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the client's own name
            return found

        problem = f"the offsets of {partition} cannot be read"
        low, high = self._requests.repeat(ask, problem, f"Describe on topic {partition.topic}")
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
        return self._ends.take()

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
        """See :class:`GroupMember`."""
        commit_offsets(self._consumer, checkpoints)

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
        if self._leave_on_close:
            with suppress(KafkaException):
                self.leave()
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._closing:
            return  # the client answers no requests any more, and gives these partitions back at once
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
        self._forget_deleted(assigned)
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
        gone = [Partition(entry.topic, entry.partition) for entry in partitions]
        self._paused.difference_update(gone)
        for partition in gone:
            self._ends.forget(partition)
            self._starts.pop(partition, None)
        try:
            notify(gone)
        except Exception as exception:  # noqa: BLE001 - as in _on_assign
            self._failure = exception

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _forget_deleted(self, partitions: Collection[Partition]) -> None:
        """Drop what was found about positions before the present ones."""
        if self._deleted:
            self._deleted = deque(each for each in self._deleted if (each.topic, each.number) not in partitions)

    def _raise_if_deleted(self) -> None:
        """Raise what the previous fetch found, unless the partition has a new start since then."""
        while self._deleted:
            error = self._deleted.popleft()
            if error.offset >= self._starts.get(Partition(error.topic, error.number), error.offset + 1):
                raise error

    def _on_error(self, messages: Sequence[KafkaMessage], index: int) -> None:
        """Act on the error among the fetched messages that has this index."""
        message = messages[index]
        error, at = cast("KafkaError", message.error()), message.offset()
        partition, code = partition_of(message), error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            self._ends.reach(partition, at or 0)
        elif code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            if partition not in self._starts:
                return
            judged = judge_position(self._consumer, partition, at, self._starts[partition], error.str())
            if isinstance(judged, int):
                self.seek(partition, judged)
            else:
                self._deleted.append(judged)
        elif is_fatal(error) or not is_transient_for_consumer(error):
            start = self._starts.get(partition)
            offset = 0 if start is None else position_before(self._consumer, messages, index, start)
            raise consumer_error(error, partition.topic, self._group, partition.number, offset)
        else:
            _log.warning("consumer: %s", error.str())
