"""Removes expired dead letters from the start of each partition, and moves them to an expiry topic before.

Which topics a sweep is about: of one that was deleted and created again, the same offsets are other letters.

Up to where letters were moved is committed with the ids of cluster and topic as metadata. So it is believed of that
topic alone. In another cluster, a mirror, it holds: the mirror or an operator has translated it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from kafka_redelivery.consumers.clock import monotonic_s, thread_cpu_s
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
from kafka_redelivery.consumers.telemetry.observers import SweeperObserver, SweeperState, Swept
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import expired_dead_letter_headers
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.broker_time import BrokerTime, BrokerTimeUnavailableError
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.partition_offsets import RecordDeleter
from kafka_redelivery.transport.admin.topics import topic_ids
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.clients.outage import RETRY_TIMEOUT_S
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import (
    PartitionUnfetchableError,
    PositionDeletedError,
    ReaderError,
    TopicForbiddenError,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, Writer

_log = logging.getLogger(__name__)

_REPORT_INTERVAL_S = 1.0
_LOG_INTERVAL_S = 60.0


class SweepReporter:
    """Counts what one sweeper does, and reports it."""

    def __init__(self, observer: SweeperObserver, clock: SweepClock) -> None:
        self._observer = observer
        self._clock = clock
        self.total_moved: Counter[Partition] = Counter()
        self.total_removed: Counter[Partition] = Counter()
        self._removed_since_log: Counter[str] = Counter()
        self._reported_s = self._logged_s = 0.0
        self._problems: dict[Partition, tuple[str, float]] = {}
        """The problem of each partition that was logged last, and when."""

    def moved(self, numbers: Mapping[Partition, int]) -> None:
        """Count dead letters that were moved."""
        self.total_moved.update(numbers)
        self._observer.swept(Swept(moved=_by_topic(numbers)))

    def removed(self, numbers: Mapping[Partition, int]) -> None:
        """Count dead letters that were removed."""
        if numbers:
            self.total_removed.update(numbers)
            self._removed_since_log.update(_by_topic(numbers))
            self._observer.swept(Swept(removed=_by_topic(numbers)))

    def not_moved(self, refused: Mapping[Partition, tuple[int, str]]) -> None:
        """Count and log the first dead letter of each partition that Kafka refused to move, with the reason."""
        self._refused(
            {
                partition: f"the expired dead letter {partition}@{offset} cannot be moved, so it stays, and so does "
                f"every dead letter behind it: {reason}"
                for partition, (offset, reason) in refused.items()
            }
        )

    def not_removed(self, failed: Mapping[Partition, str]) -> None:
        """Count and log the partitions whose dead letters Kafka refused to remove, with the reason."""
        self._refused(
            {
                partition: f"expired dead letters of {partition} cannot be removed, so they stay until the next "
                f"attempt: {reason}"
                for partition, reason in failed.items()
            }
        )

    def _refused(self, problems: Mapping[Partition, str]) -> None:
        """Count refusals by Kafka, and log each problem if it is new or was last logged a minute ago."""
        if problems:
            self._observer.swept(Swept(refused=Counter(partition.topic for partition in problems)))
        now_s = monotonic_s()
        for partition, problem in problems.items():
            logged, logged_s = self._problems.get(partition, ("", 0.0))
            if problem != logged or now_s - logged_s >= _LOG_INTERVAL_S:
                self._problems[partition] = problem, now_s
                _log.error("%s", problem)

    def not_read(self, partition: Partition, problem: str) -> None:
        """Count and log a partition that cannot be read, with the reason."""
        self._refused({partition: f"expired dead letters of {partition} stay until it can be read: {problem}"})

    def forbidden(self, topic: str, problem: str) -> None:
        """Count and log a topic that the user may not read."""
        _log.error("expired dead letters stay: %s", problem)
        self._observer.swept(Swept(refused={topic: 1}))

    def report(self, cursors: Mapping[Partition, SweepCursor], forbidden: Iterable[str]) -> None:
        """Report the state of all partitions, at most once a second."""
        now_s = monotonic_s()
        if now_s - self._reported_s < _REPORT_INTERVAL_S:
            return
        self._reported_s = now_s
        faults, self._clock.faults = self._clock.faults, 0
        if faults:
            self._observer.swept(Swept(clock_faults=faults))
        next_ms: dict[str, int] = {}
        paused: Counter[tuple[str, str]] = Counter()
        for partition, cursor in cursors.items():
            if cursor.pause_reason is None:
                continue
            paused[partition.topic, str(cursor.pause_reason)] += 1
            if cursor.pause_reason is PauseReason.NOT_YET:
                next_ms[partition.topic] = min(cursor.expires_ms, next_ms.get(partition.topic, cursor.expires_ms))
        paused.update((topic, str(PauseReason.REFUSED)) for topic in forbidden)
        self._observer.sweeper_state(SweeperState(next_ms, paused))
        if self._removed_since_log and now_s - self._logged_s >= _LOG_INTERVAL_S:
            self._logged_s = now_s
            for topic, number in self._removed_since_log.items():
                _log.info("removed %d expired dead letters from %s", number, topic)
            self._removed_since_log.clear()


def _by_topic(numbers: Mapping[Partition, int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for partition, number in numbers.items():
        totals[partition.topic] += number
    return totals


@dataclass(slots=True)
class ExpiryWrite:
    """The records of one write to expiry topics."""

    records: list[ProducerRecord] = field(default_factory=list)
    originals: list[tuple[Partition, int]] = field(default_factory=list)
    """For each record the partition and offset of its dead letter."""

    @property
    def numbers(self) -> Counter[Partition]:
        """Number of dead letters by partition."""
        return Counter(partition for partition, _ in self.originals)


class ExpiryWriter:
    """Produces the records for expiry topics, with the offsets behind their originals in one transaction."""

    def __init__(self, plan: SweepPlan, reader: GroupReader, writer: Writer | None) -> None:
        """Use these clients.

        Args:
            plan: maps dead letters to expiry topics.
            reader: knows the topics of the cluster.
            writer: writes the records; ``None`` if no dead letter is moved.
        """
        self._plan = plan
        self._reader = reader
        self._writer = writer
        self._partition_counts: Mapping[str, int] = {}

    def add(self, write: ExpiryWrite, topic: str, message: Message, now_ms: int) -> None:
        """Add the record for a dead letter that has expired and goes to this topic."""
        if not self._partition_counts:
            expiries = {each for each in self._plan.expiries.values() if each is not None}
            self._partition_counts = self._reader.partition_counts(expiries)
        partition = Partition(message.topic(), message.partition())
        number = partition.number % self._partition_counts.get(topic, 1)
        headers = expired_dead_letter_headers(headers_of(message), now_ms)
        write.records.append(ProducerRecord(topic, number, message.key(), message.value(), headers))
        write.originals.append((partition, message.offset()))

    def write(
        self, write: ExpiryWrite, checkpoints: Mapping[Partition, Checkpoint]
    ) -> tuple[dict[Partition, tuple[int, str]], set[Partition]]:
        """Write all records. If any is refused, none is written, or all others without transactions.

        Returns:
            for each partition with refused records the offset of the first refused dead letter, and the reason; and
            the partitions whose records are all written, and their offsets committed.

        Raises:
            WriteAbortedError, WriterFencedError: see :meth:`Writer.write`.
        """
        if self._writer is None:
            raise AssertionError("there is a dead letter to move, but no writer")
        # Producing to a missing topic may create it, or block for a long time.
        reasons = {
            index: f"there is no topic {record.topic}; create it with `redelivery topology apply`"
            for index, record in enumerate(write.records)
            if record.topic not in self._partition_counts
        }
        rest_written = not reasons
        if not reasons:
            try:
                self._writer.write(write.records, checkpoints, group_metadata=self._writer.group_metadata())
            except WriteRefusedError as error:
                reasons = {refused.index: refused.reason for refused in error.refused}
                rest_written = error.rest_written
            except WriteAbortedError:
                self._partition_counts = {}
                raise
        if reasons:
            self._partition_counts = {}  # look the topics up again at the next attempt
        first_refused: dict[Partition, tuple[int, str]] = {}
        for index in sorted(reasons):  # in reading order, so that the first one of a partition is kept
            partition, offset = write.originals[index]
            first_refused.setdefault(partition, (offset, reasons[index]))
        written = {each: at for each, at in checkpoints.items() if rest_written and each not in first_refused}
        if written:
            self._writer.finish(written)
        return first_refused, set(written)

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()


class SweptTopics:
    """The ids of the topics that a sweeper reads."""

    def __init__(self, calls: AdminCalls | None) -> None:
        """Take the client that asks; without one no id is known."""
        self._calls = calls
        self._read = TopicIds()

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Note the ids of topics before their offsets are asked for, which may be those of a later topic."""
        now = self._ask({partition.topic for partition in partitions})
        self._read = TopicIds(cluster=now.cluster, ids={**self._read.ids, **now.ids})

    def created_again(self, partitions: Iterable[Partition]) -> list[str]:
        """Ask which of the topics are others now."""
        topics = {partition.topic for partition in partitions}
        return self._read.only(topics).created_again(self._ask(topics))

    def _ask(self, topics: Iterable[str]) -> TopicIds:
        if self._calls is None:
            return TopicIds()
        return topic_ids(self._calls, topics, cluster=self._read.cluster or None)

    def checkpoint(self, partition: Partition, offset: int) -> Checkpoint:
        """Return what is committed when letters are moved up to ``offset``."""
        known = self._read.ids.get(partition.topic)
        return Checkpoint(offset, f"{self._read.cluster} {known}" if known else "")

    def moved_to(self, partition: Partition, committed: Checkpoint | None) -> int | None:
        """Return up to where letters of the topic were moved; ``None`` if that is not known."""
        if committed is None:
            return None
        cluster, _, known = committed.metadata.partition(" ")
        before = TopicIds(cluster=cluster, ids={partition.topic: known})
        return committed.offset if before.elsewhere(self._read) or before.holds(partition.topic, self._read) else None


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

_NO_BOUNDS = "its leader, if it has one, does not say where its log begins and ends"


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
        self._unplaced: set[Partition] = set()
        """Partitions whose bounds are unknown, because they have no leader. Their cursors are paused."""

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
        except PositionDeletedError:
            _log.info("another program removed dead letters, reading from the new start")
            self._resume(self._cursors)
            return
        except TopicForbiddenError as error:
            self._exclude(error)
            return
        except PartitionUnfetchableError as error:
            self._skip(error)
            return
        write = self._advance(messages)
        if write.records and not self._move(write):
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
        for message in self._until_refused(messages):
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

    def _until_refused(self, messages: list[Message]) -> list[Message]:
        """Leave out what is behind letters that were refused and are tried again; it is fetched again."""
        alone = {partition: cursor.alone for partition, cursor in self._cursors.items() if cursor.alone is not None}
        if not alone:
            return messages
        kept = []
        seen: set[Partition] = set()
        for message in messages:
            partition = Partition(message.topic(), message.partition())
            if partition not in seen:
                kept.append(message)
            if message.offset() == alone.get(partition):
                seen.add(partition)
        for partition in seen:
            self._reader.seek(partition, alone[partition] + 1)
        return kept

    def _now_ms(self) -> int | None:
        """The time for expirations, compared with the brokers' once a minute; ``None`` if that is impossible now."""
        compared_s = self._compared_s
        if self._time is not None and (compared_s is None or monotonic_s() - compared_s > _COMPARE_INTERVAL_S):
            placed = (each for each in self._cursors.items() if each[0] not in self._unplaced)
            partition, cursor = next(placed, (None, None))
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
        if self._begin_anew():
            self._rewind(numbers)  # or those of the other topics would count as moved
            return False
        checkpoints = {each: self._swept.checkpoint(each, self._cursors[each].delete_to) for each in numbers}
        try:
            refused, moved = self._expiry_writer.write(write, checkpoints)
        except WriteAbortedError as error:
            _log.warning("rewinding to the committed offsets: %s", error)
            self._open_again(list(self._cursors))
            # The transaction may have been committed all the same. Then these are not moved again.
            known = {each: self._cursors[each].moved_to for each in numbers if each not in self._unplaced}
            self.reporter.moved({each: numbers[each] for each in known if known[each] >= checkpoints[each].offset})
            return False
        for partition in moved:
            self._cursors[partition].mark_moved()
        self.reporter.moved({partition: numbers[partition] for partition in moved})
        for partition, (offset, reason) in refused.items():
            self._cursors[partition].refuse_move(offset, reason)
        self.reporter.not_moved(refused)
        self._rewind(numbers.keys() - moved)  # the next turn moves the records before the refused ones
        return not refused

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
        self._open_again(again)
        return True

    def _open_again(self, partitions: Collection[Partition]) -> None:
        """Read these partitions from their current first record, and as far as the group has committed moves."""
        starts = self.assigned(partitions)
        for partition, start in starts.items():
            self._reader.seek(partition, start)
        self._reader.resume(starts)
        self._reader.pause(set(partitions) - starts.keys())

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
        """Read these partitions from their current first record. Those without a leader pause."""
        partitions = list(partitions)
        self._open_again([each for each in partitions if each in self._unplaced])
        for partition in partitions:
            if partition in self._unplaced:
                continue
            bounds = self._reader.bounds_now(partition)
            if bounds is None:
                self._pause_unread(partition, _NO_BOUNDS)
                continue
            start, _ = bounds
            self._cursors[partition].resume(start)
            self._reader.seek(partition, start)
            self._reader.resume([partition])

    def _skip(self, error: PartitionUnfetchableError) -> None:
        """Pause a partition that cannot be fetched, and fetch the others again from where they are."""
        partition = Partition(error.topic, error.number)
        if partition in self._cursors:
            self._pause_unread(partition, str(error))
        for each, cursor in self._cursors.items():
            if cursor.pause_reason is None:
                self._reader.seek(each, cursor.next_offset)

    def _pause_unread(self, partition: Partition, problem: str) -> None:
        self._cursors[partition].refuse_read(self._clock.now_ms(), problem)
        self._reader.pause([partition])
        self.reporter.not_read(partition, problem)

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
            self._revoked.discard(partition)
            bounds = self._reader.bounds_now(partition)
            if bounds is None:
                self._unplaced.add(partition)
                cursor = self._cursors[partition] = SweepCursor(self._plan.group, 0, 0, 0)
                cursor.refuse_read(self._clock.now_ms(), _NO_BOUNDS)
                self.reporter.not_read(partition, _NO_BOUNDS)
                continue
            self._unplaced.discard(partition)
            start, end = bounds
            found = self._swept.moved_to(partition, committed)
            moved_to = start if found is None or found > end else found
            self._cursors[partition] = SweepCursor(self._plan.group, start, moved_to, end)
            starts[partition] = start
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        for partition in partitions:
            self._cursors.pop(partition, None)
            self._unplaced.discard(partition)
            self._revoked.add(partition)

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self.revoked(partitions)
