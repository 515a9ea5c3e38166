"""Removes expired dead letters from the start of each partition, and moves them to an expiry topic before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from kafka_redelivery.consumers.clock import monotonic_s, thread_cpu_s
from kafka_redelivery.consumers.dead_letters.expiry_writer import ExpiryWrite, ExpiryWriter
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
from kafka_redelivery.consumers.dead_letters.sweep_reporter import SweepReporter
from kafka_redelivery.consumers.dead_letters.swept_topics import SweptTopics
from kafka_redelivery.consumers.telemetry.observers import SweeperObserver, SweeperState
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan
from kafka_redelivery.transport.admin.broker_time import BrokerTime, BrokerTimeUnavailableError
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.record_deletion import RecordDeleter
from kafka_redelivery.transport.clients.outage import RETRY_TIMEOUT_S
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import MissingOffsetError, ReaderError, TopicForbiddenError, WriteAbortedError
from kafka_redelivery.transport.protocols import Message, Partition, Writer

_log = logging.getLogger(__name__)

_BATCH = 250
"""Records per turn: a few milliseconds, the time that the scheduler's thread may have to wait for this one."""

_IDLE_FACTOR = 4.0
"""Idle time as a multiple of the processor time used: a sweeper takes at most a fifth of one processor."""

_MAX_EXPIRED = 10_000
"""Expired dead letters of a partition that are removed before the sweep reads on."""

_MAX_WAIT_S = 1.0
"""Longest fetch. A fetch cannot be interrupted, so this delays a shutdown and a rebalance."""

_COMPARE_INTERVAL_S = 60.0
"""Interval at which the clock is compared with the brokers' clock."""

_FORBIDDEN_RETRY_S = 600.0
"""Time after which a topic that may not be read is tried again."""

_ERROR_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class SweeperDependencies:
    """The clients and the clock of a sweeper. ``writer`` is ``None`` if no dead letter is moved.

    Without ``deleter`` it is a dry run, which only counts; without ``time`` the clock is not compared with Kafka's.
    """

    reader: GroupReader
    writer: Writer | None
    deleter: RecordDeleter | None
    time: BrokerTime | None
    clock: SweepClock
    observer: SweeperObserver
    calls: AdminCalls | None = None
    """Asks for the ids of topics; without it none is known."""


class Sweeper:
    """Sweeps the partitions that the consumer group assigns to it. Used by one thread.

    A sweep reads a partition from its first record as long as records have expired, removes what it has read with
    DeleteRecords, and pauses until the next record expires. No record stays in memory, and none is read twice except
    after an error.

    Expired dead letters that go to an expiry topic are written there, with the offset behind them, in one transaction
    that commits before the removal. After a crash the next sweeper finds the originals below the committed offset and
    removes them without writing them again.

    Before each move and removal it asks whether the topics are still those that it has read, because Kafka removes
    records by the name of their topic. One that was deleted and created again is swept from its start.
    """

    def __init__(self, plan: SweepPlan, dependencies: SweeperDependencies, batch: int = _BATCH) -> None:
        """Create a sweeper; :meth:`run` and :meth:`sweep_once` join the group.

        Args:
            plan: the topics to sweep.
            dependencies: its clients, which the sweeper closes.
            batch: maximum number of records per turn and per transaction.
        """
        self._plan = plan
        self._batch = batch
        self._reader = dependencies.reader
        self._deleter = dependencies.deleter
        self._time = dependencies.time
        self._clock = dependencies.clock
        self._observer = dependencies.observer
        self._swept, self._asked_s = SweptTopics(dependencies.calls), monotonic_s()
        self._expiry_writer = ExpiryWriter(plan, dependencies.reader, dependencies.writer)
        self.reporter = SweepReporter(dependencies.observer, dependencies.clock)
        self._cursors: dict[Partition, SweepCursor] = {}
        self._compared_s: float | None = None
        self.topics: dict[str, int] = {}
        """Partition counts of the topics of the plan that exist."""

        self.forbidden: dict[str, str] = {}
        """Topics that the user may not read, with the error of each."""

        self._forbidden_s = 0.0
        self._revoked: set[Partition] = set()
        self._ended = Event()

    def run(self, ended: Event) -> None:
        """Sweep until the event is set.

        Raises:
            TransportError: this sweeper cannot go on; a new one may.
        """
        with self._membership(ended):
            if not self.topics:
                raise ReaderError("there is no dead-letter topic; see `redelivery topology check`")
            while not ended.is_set():
                started_s = thread_cpu_s()
                self._resume_due()
                if monotonic_s() - self._asked_s > _COMPARE_INTERVAL_S:
                    self._begin_anew()
                self._turn()
                ended.wait((thread_cpu_s() - started_s) * _IDLE_FACTOR)

    def sweep_once(self, ended: Event, progress: Callable[[int, int], None]) -> Mapping[Partition, SweepCursor]:
        """Sweep each partition once, without idle time, or until the event is set.

        Args:
            ended: ends the sweep early.
            progress: called after each turn with the number of offsets that are swept, and of all.

        Returns:
            the cursor of each partition, without those that another member of the group has taken over and those of
            :attr:`forbidden` topics.

        Raises:
            TransportError: this sweeper cannot go on, or Kafka has sent nothing for a long time.
        """
        with self._membership(ended):
            moved_s, before = monotonic_s(), -1
            while not ended.is_set() and not self._is_complete():
                self._turn()
                cursors = self._cursors.values()
                progress(sum(cursor.swept for cursor in cursors), sum(cursor.size for cursor in cursors))
                now = sum(cursor.next_offset + (cursor.pause_reason is not None) for cursor in cursors)
                if now != before:
                    moved_s, before = monotonic_s(), now
                elif monotonic_s() - moved_s > RETRY_TIMEOUT_S:
                    raise ReaderError(f"Kafka sent no dead letter for {RETRY_TIMEOUT_S:g} s; unread dead letters stay")
            if self._deleter is None:
                # Not before: what is read again is not counted twice.
                self.reporter.moved({partition: cursor.to_move for partition, cursor in self._cursors.items()})
                self.reporter.removed({partition: cursor.expired for partition, cursor in self._cursors.items()})
            return dict(self._cursors)

    @contextmanager
    def _membership(self, ended: Event) -> Iterator[None]:
        """Be a member of the group while the block runs, then close all clients."""
        try:
            self._ended = ended
            existing = self._reader.partition_counts(self._plan.topics)
            self.topics = {topic: existing[topic] for topic in self._plan.topics if topic in existing}
            self._reader.subscribe(list(self.topics), self)
            yield
        finally:
            try:
                self._reader.close()
            finally:
                self._expiry_writer.close()
                self._observer.sweeper_state(SweeperState())  # absent metrics rather than outdated ones

    def _turn(self) -> None:
        """Fetch records, move those that have expired, remove them, and report."""
        try:
            messages = self._reader.fetch(self._batch, self._wait_s())
        except MissingOffsetError:
            _log.info("another program removed dead letters, reading from the new start")
            self._resume(self._cursors)
            return
        except TopicForbiddenError as error:
            self._exclude(error)
            return
        write = self._advance(messages)
        if write.records and (self._begin_anew() or not self._move(write)):
            self._ended.wait(_ERROR_PAUSE_S)
            return
        for partition, cursor in self._cursors.items():
            end = self._reader.reached_end(partition)
            if end is not None:
                cursor.reach_end(end)
        self._remove()
        self.reporter.report(self._cursors, self.forbidden)

    def _wait_s(self) -> float:
        """Seconds until a paused partition resumes; a new record in another partition ends the fetch sooner."""
        due = [cursor.resume_ms for cursor in self._cursors.values() if cursor.pause_reason is not None]
        if not due:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, max(0, min(due) - self._clock.now_ms()) / 1000)

    def _advance(self, messages: list[Message]) -> ExpiryWrite:
        """Advance the cursors over fetched records, and return what has to be moved."""
        write = ExpiryWrite()
        if not messages:
            return write
        now_ms = self._now_ms()
        if now_ms is None:
            self._rewind({Partition(message.topic(), message.partition()) for message in messages})
            self._ended.wait(_ERROR_PAUSE_S)
            return write
        paused: dict[Partition, SweepCursor] = {}
        for message in messages:
            partition = Partition(message.topic(), message.partition())
            cursor = self._cursors.get(partition)
            if cursor is None or cursor.pause_reason is not None:
                continue
            fate = cursor.advance(message, now_ms)
            if fate is not None and message.offset() >= cursor.moved_to:
                topic = self._plan.expiry_topic(partition.topic, fate.source)
                cursor.to_move += topic is not None
                if topic is not None and self._deleter is not None:
                    self._expiry_writer.add(write, topic, message, now_ms)
            elif cursor.pause_reason is not None:
                paused[partition] = cursor
        self._reader.pause(paused)
        for partition, cursor in paused.items():
            if cursor.pause_reason is PauseReason.OTHERS:
                _log.debug("%s-%d@%d has expired; another group removes it", *partition, cursor.next_offset)
        return write

    def _now_ms(self) -> int | None:
        """The time for expirations, compared with the brokers' once a minute; ``None`` if that is impossible now."""
        compared_s = self._compared_s
        if self._time is not None and (compared_s is None or monotonic_s() - compared_s > _COMPARE_INTERVAL_S):
            partition, cursor = next(iter(self._cursors.items()), (None, None))
            if partition is None or cursor is None:
                return None
            try:
                brokers_ms = self._time.ask({partition: self._swept.checkpoint(partition, cursor.moved_to)})
            except BrokerTimeUnavailableError as error:
                _log.debug("the brokers' time is not available now: %s", error)
                return None
            self._compared_s = monotonic_s()
            if brokers_ms is not None:
                self._clock.compare(brokers_ms)
        return self._clock.now_ms()

    def _move(self, write: ExpiryWrite) -> bool:
        """Write to the expiry topics; return whether the write is confirmed."""
        numbers = write.numbers
        checkpoints = {each: self._swept.checkpoint(each, self._cursors[each].delete_to) for each in numbers}
        try:
            refused = self._expiry_writer.write(write, checkpoints)
        except WriteAbortedError as error:
            _log.warning("rewinding to the committed offsets: %s", error)
            for partition, start in self.assigned(list(self._cursors)).items():
                self._reader.seek(partition, start)
            self._reader.resume(self._cursors)
            return False
        if refused:
            for partition, (offset, reason) in refused.items():
                self._cursors[partition].refuse_move(offset, reason)
            self.reporter.not_moved(refused)
            self._rewind(numbers)  # the next turn moves the records before the refused ones
            return False
        for partition in numbers:
            self._cursors[partition].mark_moved()
        self.reporter.moved(numbers)
        return True

    def _remove(self) -> None:
        """Remove expired records of partitions that are paused, read to their end, or have many of them."""
        if self._deleter is None:
            return
        ready = {
            partition: cursor
            for partition, cursor in self._cursors.items()
            if cursor.expired
            and (
                cursor.pause_reason is not None
                or cursor.expired >= _MAX_EXPIRED
                or self._reader.reached_end(partition) == cursor.delete_to
            )
        }
        if not ready or self._begin_anew():
            return
        failed = self._deleter.delete_before({partition: cursor.delete_to for partition, cursor in ready.items()})
        self.reporter.removed({partition: ready[partition].expired for partition in ready if partition not in failed})
        for partition, cursor in ready.items():
            if partition in failed:
                cursor.refuse_removal(self._clock.now_ms(), failed[partition])
            else:
                cursor.mark_removed()
        self._reader.pause(failed)
        self.reporter.not_removed(failed)

    def _begin_anew(self) -> bool:
        """Read topics from their start that were deleted and created again; return whether there are any."""
        self._asked_s = monotonic_s()
        topics = self._swept.created_again(self._cursors)
        if not topics:
            return False
        again = [partition for partition in self._cursors if partition.topic in topics]
        _log.warning("%s was deleted and created again, and is swept from its start", ", ".join(topics))
        for partition, start in self.assigned(again).items():
            self._reader.seek(partition, start)
        self._reader.resume(again)
        return True

    def _rewind(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions again from where the removed records end."""
        for partition in partitions:
            cursor = self._cursors.get(partition)
            if cursor is not None:
                cursor.pause_reason = None
                cursor.rewind(cursor.start)
                self._reader.seek(partition, cursor.start)
                self._reader.resume([partition])

    def _resume(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions from their current first record."""
        for partition in list(partitions):
            start, _ = self._reader.bounds(partition)
            self._cursors[partition].resume(start)
            self._reader.seek(partition, start)
            self._reader.resume([partition])

    def _resume_due(self) -> None:
        now_ms = self._clock.now_ms()
        due = [
            partition
            for partition, cursor in self._cursors.items()
            if cursor.pause_reason is not None and cursor.resume_ms <= now_ms
        ]
        if due:
            self._resume(due)
        if self.forbidden and monotonic_s() - self._forbidden_s > _FORBIDDEN_RETRY_S:
            self.forbidden.clear()
            self._reader.subscribe(list(self.topics), self)

    def _exclude(self, error: TopicForbiddenError) -> None:
        """Stop reading a topic that may not be read, and read the other topics again from where they are.

        Raises:
            TopicForbiddenError: there is no other topic.
        """
        if error.topic not in self.topics or len(self.forbidden) + 1 == len(self.topics):
            raise error
        self.forbidden[error.topic] = str(error)
        self._forbidden_s = monotonic_s()
        self.reporter.forbidden(error.topic, str(error))
        self._cursors = {place: cursor for place, cursor in self._cursors.items() if place.topic != error.topic}
        self._reader.subscribe([topic for topic in self.topics if topic not in self.forbidden], self)
        self._resume(self._cursors)

    def _is_complete(self) -> bool:
        """Whether each partition is paused, read to its end, or taken over by another member."""
        return all(
            self._is_swept(Partition(topic, number))
            for topic, count in self.topics.items()
            if topic not in self.forbidden
            for number in range(count)
        )

    def _is_swept(self, partition: Partition) -> bool:
        cursor = self._cursors.get(partition)
        if cursor is None:
            return partition in self._revoked
        if cursor.pause_reason is not None:
            return True
        return self._reader.reached_end(partition) is not None and (self._deleter is None or not cursor.expired)

    # The reader calls these within fetch() and close(), when no write and no removal is under way.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`RebalanceListener`."""
        partitions, starts = list(partitions), {}
        self._swept.begin(partitions)
        for partition, committed in self._reader.committed(partitions).items():
            start, end = self._reader.bounds(partition)
            found = self._swept.moved_to(partition, committed)
            moved_to = start if found is None or found > end else found
            self._cursors[partition] = SweepCursor(self._plan.group, start, moved_to, end)
            self._revoked.discard(partition)
            starts[partition] = start
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        for partition in partitions:
            self._cursors.pop(partition, None)
            self._revoked.add(partition)

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self.revoked(partitions)
