"""The consuming side: one consumer, its assignment, its positions. Used by one thread only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from time import monotonic
from typing import TypeVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage

from topology.progress import Checkpoint
from transport.client_config import Config, is_cooperative
from transport.client_log import client_log
from transport.errors import MissingOffsetError, ReaderError
from transport.far_ends import FarEnds
from transport.orphans import OrphanWatch
from transport.protocols import Listener, Message, Partition
from transport.read_refusals import read_refusal

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 30.0
PATIENCE_S = 60.0
"""So long a broker that does not answer is asked again: as long as writes may be undone one after the other."""

_AGAIN_S = 0.2
_LEAVE_S = 2.0
_Answer = TypeVar("_Answer")
_PASSING = frozenset(
    {
        # The broker is starting, stopping, or handing over. The client calls nothing retriable but in transactions.
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._WAIT_COORD,  # noqa: SLF001 - the client's own names
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._WAIT_CACHE,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - the assignment is lost; the listener is told
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # metadata may lag behind the creation of a topic
    }
)


def _patiently(ask: Callable[[], _Answer], problem: str) -> _Answer:
    """Ask the broker; while it is gone, or busy with a change, again and again.

    Raises:
        ReaderError: it refuses, or has not answered for :data:`PATIENCE_S`.
    """
    end = monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            lasting = not (error.retriable() or error.code() in _PASSING)
            if lasting or monotonic() > end:
                raise ReaderError(f"{problem}: {error.str()}") from exception
            _log.warning("%s, trying again: %s", problem, error.str())
        Event().wait(_AGAIN_S)


class Reader:
    """A consumer whose start positions are always explicit.

    Not thread-safe. The listener is called from within :meth:`fetch` and :meth:`close`.
    """

    def __init__(self, config: Config, orphans: OrphanWatch | None = None, far_ends: FarEnds | None = None) -> None:
        self._listener: Listener
        self._orphans = orphans
        self._far_ends = far_ends
        self._paused: set[Partition] = set()
        self._topics: list[str] = []
        self._cooperative = is_cooperative(config)
        self._group = str(config.get("group.id", ""))
        self._ends: dict[Partition, int] = {}
        self._failure: Exception | None = None
        self._started: dict[Partition, int] = {}
        """Partitions assigned or sought during the current fetch, and where they start."""

        self._consumer = Consumer(config, logger=client_log)

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group, or change what is wanted from it."""
        self._listener = listener
        self._topics = list(topics)
        self._subscribe()

    def _subscribe(self) -> None:
        if self._orphans is not None:
            self._orphans.begin(self._topics)
        self._consumer.subscribe(
            list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Up to ``maximum`` records: waits for the first, takes what is there of the rest.

        ``consume(n, timeout)`` would wait for all n; at low rates that adds its time-out to every delay.

        Raises:
            ReaderError: the consumer cannot go on.
            TopicForbiddenError: it can, but not with that topic.
            MissingOffsetError: an internal partition has no offset to start at.
        """
        if self._orphans is not None:
            self._adopt(self._orphans.found())
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
            for message in messages:
                error = message.error()
                if error is not None:
                    place = Partition(message.topic() or "", message.partition() or 0)
                    self._on_error(error, place, message.offset() or 0)
        return cast("list[Message]", good)

    def _adopt(self, orphans: Sequence[Partition]) -> None:
        """Leave the group and join it again, so that what nobody has is given to somebody."""
        if orphans:
            _log.warning("nobody has %s, joining the group again", ", ".join(f"{o.topic}-{o.number}" for o in orphans))
            self._consumer.unsubscribe()
            self._subscribe()

    def _without_started(self, messages: list[KafkaMessage]) -> list[KafkaMessage]:
        """Drop what was fetched of partitions that were assigned or sought meanwhile, and fetch it again.

        One call can return records from before and from after such a change; the former
        may lie beyond the new start and would be taken for a hole in the offsets.
        """
        kept = []
        refetched: dict[Partition, int] = {}
        for message in messages:
            place = Partition(message.topic() or "", message.partition() or 0)
            if place in self._started:
                refetched[place] = self._started[place]
            else:
                kept.append(message)
        for place, start in refetched.items():
            self.seek(place, start)
        return kept

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Fetch no more of these; what was fetched ahead of :meth:`fetch` is fetched again later."""
        places = list(partitions)
        self._consumer.pause([TopicPartition(*place) for place in places])
        self._paused.update(places)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """The opposite."""
        places = list(partitions)
        self._consumer.resume([TopicPartition(*place) for place in places])
        self._paused.difference_update(places)

    def seek(self, partition: Partition, offset: int) -> None:
        """Read on from ``offset``; also what the fetch under way has already, if it is called from within one."""
        self._ends.pop(partition, None)
        self._started[partition] = offset
        self._consumer.seek(TopicPartition(*partition, offset))

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint | None]:
        """What is committed for each; waits for transactions of others that are not finished yet.

        Raises:
            ReaderError: the broker does not tell.
        """
        asked = [TopicPartition(*partition) for partition in partitions]
        if not asked:
            return {}

        def ask() -> list[TopicPartition]:
            answer = self._consumer.committed(asked, _CALL_TIMEOUT_S)
            for entry in answer:
                if entry.error is not None:
                    raise KafkaException(entry.error)
            return answer

        found: dict[Partition, Checkpoint | None] = {}
        for entry in _patiently(ask, "the committed offsets cannot be read"):
            place = Partition(entry.topic, entry.partition)
            found[place] = None if entry.offset < 0 else Checkpoint(entry.offset, entry.metadata or "")
        return found

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """First offset and one past the last, asked of the broker.

        Raises:
            ReaderError: the broker does not tell.
        """

        def ask() -> tuple[int, int]:
            found = self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_TIMEOUT_S)
            if found is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the client's own name
            return found

        low, high = _patiently(ask, f"the offsets of {partition.topic}-{partition.number} cannot be read")
        return low, high

    def ahead(self, partition: Partition, next_offset: int) -> int:
        """About how many records there are from ``next_offset`` on, without waiting for the broker.

        Exactly 0 once the end was reached: transaction markers take up offsets, so a difference of
        offsets alone never gets there. The end of a paused partition is some seconds old.
        """
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except (KafkaException, TypeError):
            high = 0
        if self._far_ends is not None:
            self._far_ends.look(self._paused)
            high = max(high, self._far_ends.end(partition) or 0)
        return max(0, high - max(next_offset, self._ends.get(partition, 0)))

    def end(self, partition: Partition) -> int | None:
        """Where a partition's end was when it was last reached, transaction markers included; ``None`` if it was not.

        Nothing before it that a reader of committed records could see is still to come.
        """
        return self._ends.get(partition)

    def partition_counts(self) -> dict[str, int]:
        """Every topic of the cluster and how many partitions it has.

        Raises:
            ReaderError: the broker does not tell.
        """
        listed = _patiently(lambda: self._consumer.list_topics(timeout=_CALL_TIMEOUT_S), "the topics cannot be listed")
        topics = listed.topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def group_metadata(self) -> object:
        """See :class:`transport.protocols.Group`."""
        return self._consumer.consumer_group_metadata()

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Group`."""
        offsets = [
            TopicPartition(place.topic, place.number, point.offset, metadata=point.metadata)
            for place, point in checkpoints.items()
        ]
        if offsets:
            for entry in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
                if entry.error is not None:
                    raise KafkaException(entry.error)

    def leave(self) -> None:
        """Give everything back and leave the group for good, also where membership is static; then close it."""
        self._orphans = None
        self._consumer.unsubscribe()
        end = monotonic() + _LEAVE_S
        while self._consumer.assignment() and monotonic() < end:
            self._consumer.poll(_AGAIN_S)

    def close(self) -> None:
        """Give the assignment back (the listener is told) and leave the group, unless membership is static."""
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [Partition(entry.topic, entry.partition) for entry in partitions]
        try:
            starts = self._listener.assigned(places)
            self._started.update(starts)
        except Exception as exception:  # noqa: BLE001 - must not travel through the client's C code; raised by fetch()
            self._failure = exception
            starts = {}
        offsets = [TopicPartition(*place, starts.get(place, OFFSET_INVALID)) for place in places]
        if self._failure is not None:
            for entry in offsets:
                entry.offset = OFFSET_BEGINNING  # any valid one: nothing is fetched before fetch() raises
        if self._cooperative:
            consumer.incremental_assign(offsets)
        else:
            consumer.assign(offsets)
        # The client remembers a pause across a partition's leaving and coming back; nobody else does.
        consumer.resume(offsets)
        self._paused.difference_update(places)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._tell(self._listener.revoked, partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._tell(self._listener.lost, partitions)

    def _tell(self, listener: object, partitions: list[TopicPartition]) -> None:
        places = [Partition(entry.topic, entry.partition) for entry in partitions]
        self._paused.difference_update(places)
        for place in places:
            self._ends.pop(place, None)
        try:
            listener(places)  # type: ignore[operator]
        except Exception as exception:  # noqa: BLE001 - as in _on_assign
            self._failure = exception

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _on_error(self, error: KafkaError, partition: Partition, offset: int) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            self._ends[partition] = offset
        elif code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            raise MissingOffsetError(
                f"{partition.topic}-{partition.number}: the offset to read is no longer there ({error.str()}); "
                "records were deleted before they were processed; see `redelivery topology check`"
            )
        elif error.fatal() or (code not in _PASSING and not error.retriable()):
            raise read_refusal(error, partition.topic, self._group)
        else:
            _log.warning("consumer: %s", error.str())
