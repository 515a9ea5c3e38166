"""The delay scheduler: releases records that are due. Kafka is its only store."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from kafka_redelivery.consumers.clock import Clock, monotonic_s
from kafka_redelivery.consumers.clock_watch import ClockWatch
from kafka_redelivery.consumers.dead_letters.monitor import PartitionShare
from kafka_redelivery.consumers.flow.control import Topics
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.flow.lane import sizes_of
from kafka_redelivery.consumers.process.pause_watch import NoPauses, PauseView
from kafka_redelivery.consumers.routes import counts_to_produce_with
from kafka_redelivery.consumers.scheduler.assigned_tiers import AssignedTiers
from kafka_redelivery.consumers.scheduler.buffer_limits import write_bytes
from kafka_redelivery.consumers.scheduler.full_buffer import FullBuffer
from kafka_redelivery.consumers.scheduler.halted_tiers import HaltedTiers
from kafka_redelivery.consumers.scheduler.release import (
    CommitLeadTime,
    Release,
    ReleaseBuilder,
    TopicMissingError,
)
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.failure_log import FailureLog
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver, Released, SchedulerObserver, TierBacklog
from kafka_redelivery.consumers.writes.abort_deadline import AbortDeadline
from kafka_redelivery.consumers.writes.aborted_write import unreadable_topics
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.consumers.writes.write_limits import WriteLimits
from kafka_redelivery.topology.cluster.acls import configured_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.topics.tiers import SHORTEST_LADDER_TIER_MS, TierSet
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.errors import (
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import (
    BackgroundWriter,
    Message,
    Partition,
    Reader,
    ReleaseTime,
    WriteResult,
)


class KnownTopics:
    """Lists the topics of the cluster once, at the start. From then on it asks for those of the group alone.

    A tier that is created later is in the configuration, or in the control topic, to which `redelivery topology apply`
    adds it. A ready topic that is created later is looked up when a record has to go there.
    """

    def __init__(self, settings: Settings, reader: Reader, watch: Topics) -> None:
        """Know nothing yet.

        Args:
            settings: the configuration.
            reader: lists topics.
            watch: asks again and again.
        """
        self._watch = watch
        self._naming = settings.naming()
        self._reader = reader
        # Brokers may log each request for a topic that the user of a scheduler has no right to.
        others = {output.topic for output in settings.outputs}
        others |= {self._naming.jobs_topic(), self._naming.parking_topic()}
        self._configured = frozenset(topic.name for topic in configured_topics(settings)) - others
        self._found: frozenset[str] = frozenset()
        """Tiers and ready topics that were found, configured or not."""

        self.counts: Mapping[str, int] = {}
        """The partition counts of those that exist."""

        self.found: Mapping[str, FoundTopic] = {}
        """Those that exist, as the watch has found them."""

    @property
    def names(self) -> frozenset[str]:
        """All that may exist. Safe from any thread."""
        return self._configured | self._found

    def list(self) -> None:
        """Find all topics of the group, which needs a list of all topics of the cluster."""
        listed = self._reader.partition_counts()
        self.found = {topic: FoundTopic(count, "") for topic, count in listed.items()}
        self._note(listed)
        self._count(listed)

    def refresh(self, named: Iterable[str]) -> bool:
        """Return whether there are new :attr:`counts`. Does not wait.

        Args:
            named: the tiers that the control topic names.
        """
        self._note(named)
        answer = self._watch.poll(self.names, self.found)
        if answer is not None:
            self.found = answer
            self._count({topic: each.partitions for topic, each in answer.items()})
        return answer is not None

    def look_up(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the partition counts of a few topics; wait until Kafka answers."""
        found = self._reader.partition_counts(topics)
        self._note(found)
        return found

    def _note(self, topics: Iterable[str]) -> None:
        topics = set(topics)
        found = {*self._naming.tiers_among(topics), *self._naming.ready_topics_among(topics)}
        found |= {self._naming.mixed_topic()} & topics
        if not found <= self._found:
            self._found |= found

    def _count(self, found: Mapping[str, int]) -> None:
        ours = {topic: count for topic, count in found.items() if topic in self.names}
        self.counts = counts_to_produce_with(self.counts, ours)


class Refusals:
    """Refused records by tier partition and offset. They are dead-lettered when they are read again."""

    def __init__(self, halted: HaltedPartitions, observer: ProcessObserver) -> None:
        """Start without refusals.

        Args:
            halted: gets the partitions that cannot go on.
            observer: learns of each of them.
        """
        self._halted = halted
        self._observer = observer
        self._reasons: dict[tuple[Partition, int], str] = {}

    def reason(self, partition: Partition, offset: int) -> str | None:
        """Return the broker's reason for refusing a record, ``None`` if it has not refused it."""
        return self._reasons.get((partition, offset))

    def add(self, release: Release, error: WriteRefusedError) -> dict[Partition, Checkpoint]:
        """Add the refused records of a write. If one is a dead letter, or lacks a right or topic, its partition halts.

        Returns:
            The offsets of the other partitions whose records are written nevertheless, if there is no transaction.
        """
        halted: set[Partition] = set()
        for refused in error.refused:
            origin = release.origins[refused.index]
            if origin not in self._reasons and not refused.cause.outside:
                self._reasons[origin] = refused.reason
            elif origin[0] not in halted:
                halted.add(origin[0])
                self._observer.halted(self._halted.halt(*origin, release.records[refused.index], refused))
        if not error.others_written:
            return {}
        return {partition: point for partition, point in release.checkpoints.items() if partition not in halted}

    def confirm(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Drop the refusals that a confirmed write has dealt with."""
        for partition, offset in list(self._reasons):
            if partition in checkpoints and offset < checkpoints[partition].offset:
                del self._reasons[partition, offset]

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop the refusals of partitions that are given up, or whose topics were created again."""
        self._reasons = {origin: reason for origin, reason in self._reasons.items() if origin[0] not in partitions}


class PausedTiers:
    """Applies pauses between two turns of the scheduler. What is buffered of a paused tier stays buffered, in order."""

    def __init__(self, pauses: PauseView) -> None:
        """Hold nothing yet."""
        self._pauses = pauses
        self._current = pauses.current

    def apply(self) -> None:
        """Obey the pauses that hold now. A write that has begun ends as usual."""
        self._current = self._pauses.current
        self._pauses.applied(self._current)

    @property
    def named(self) -> frozenset[str]:
        """The tiers that the control topic names."""
        return self._pauses.tiers

    def running(self, tiers: Mapping[Partition, TierPartition]) -> Mapping[Partition, TierPartition]:
        """Return the partitions that may be released."""
        if not self._current:
            return tiers
        return {each: tier for each, tier in tiers.items() if not self._current.covers(each.topic)}

    def held(self, partitions: Iterable[Partition]) -> set[Partition]:
        """Return the partitions that are paused."""
        return {each for each in partitions if self._current.covers(each.topic)} if self._current else set()

    def report(self, observer: SchedulerObserver, partitions: Iterable[Partition]) -> None:
        """Report what is held: a number for each assigned topic."""
        partitions = list(partitions)
        held = Counter({each.topic: 0 for each in partitions})
        held.update(each.topic for each in self.held(partitions))
        observer.paused(held, self._current.end)


def backlog(tiers: Mapping[Partition, TierPartition], reader: Reader) -> list[TierBacklog]:
    """Return the backlog of each tier.

    Args:
        tiers: the assigned partitions. The topic of one that is about to be revoked may be deleted already.
        reader: knows how many records of a partition are not fetched.
    """
    backlogs: dict[str, TierBacklog] = {}
    lags = reader.lags({partition: tier.progress.next_offset for partition, tier in tiers.items()})
    for partition, tier in tiers.items():
        topic = partition.topic
        pending = len(tier) + lags[partition]
        oldest_ms = tier.oldest_ms
        before = backlogs.get(topic)
        if before is not None:
            pending += before.pending
            oldest_ms = min((ms for ms in (oldest_ms, before.oldest_ms) if ms is not None), default=None)
        owned = 1 if before is None else before.partitions + 1
        backlogs[topic] = TierBacklog(topic, pending, oldest_ms, tier.delay_ms, owned)
    return list(backlogs.values())


_log = logging.getLogger(__name__)

_MAX_WAIT_S = 0.2
_WRITE_WAIT_S = 0.005  # how long a turn waits for the write in flight before it fetches
_REPORT_INTERVAL_S = 1.0


class Scheduler:
    """Releases due records from the tier partitions that the consumer group assigns to it. One thread.

    A record leaves its tier when it is due, or when it has waited there for the tier's delay, whichever is first. A
    record that is due goes to its ready topic, any other record to a shorter tier.

    One write is in flight at a time. It starts before its records leave, by the commit lead time, and commits when they
    leave, so no reader sees them early.
    """

    def __init__(
        self,
        settings: Settings,
        reader: Reader,
        writer: BackgroundWriter,
        observer: SchedulerObserver,
        clock: Clock,
        lead_time: CommitLeadTime | None = None,
        health: Health | None = None,
        first_offsets: FirstOffsets | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._observer = observer
        self._clock = clock
        self._settings = settings
        self._naming = settings.naming()
        first_offsets = first_offsets or FirstOffsets(reader)
        self.topics = KnownTopics(settings, reader, first_offsets.topics)
        self._first_tier = ("", 1)  # its name and number of partitions; the name is empty if there is none
        self._full_buffer = FullBuffer(reader, settings.limits)
        self._builder: ReleaseBuilder
        self._audit = DeadLetterAudit(settings.entries())
        self._failure_log = FailureLog(settings.failure_details)
        self._redrive_outcomes = RedriveOutcomes(self._naming.actions_topic(), {}, self.topics.look_up)
        self._in_flight: Release | None = None
        self._lead_time = lead_time or CommitLeadTime()
        self._abort_deadline = AbortDeadline(endures=True)
        self._limits = WriteLimits(settings.limits.batch_records, write_bytes(settings.limits))
        self._halted = HaltedPartitions()
        self._refusals = Refusals(self._halted, observer)
        self._health = health or Health()
        self._halted_tiers = HaltedTiers(reader, observer, self._health)
        self._assigned = AssignedTiers(reader, first_offsets, self._halted_tiers, self._naming.mixed_topic())
        self._tiers = self._assigned.opened
        self._paused_tiers = PausedTiers(NoPauses())
        self._stopping = False
        self._reported_s = 0.0
        self._clock_watch = ClockWatch()

    def obey(self, pauses: PauseView) -> None:
        """Release nothing that is paused. Call it before :meth:`run`."""
        self._paused_tiers = PausedTiers(pauses)

    def stop(self) -> None:
        """Request a shutdown. Safe in a signal handler and from any thread."""
        self._stopping = True

    def share(self) -> PartitionShare:
        """Return this scheduler's share of the work that the group's schedulers divide. Safe from any thread.

        The share of a scheduler is its partitions of the first tier (by name); Kafka assigns each to one scheduler. In
        a group without tiers every scheduler has everything.
        """
        return PartitionShare.of(*self._first_tier, self._assigned.owned)

    def tiers(self) -> list[str]:
        """Return the tiers that exist, the mixed topic included. Safe from any thread."""
        return list(self._assigned.delays_ms)

    def run(self) -> None:
        """Release records until :meth:`stop` is called.

        Raises:
            TransportError: Kafka refuses the process before it is a member of its group, or the client itself fails.
        """
        try:
            self.topics.list()
            self._use_topics()
            while not self._stopping:
                self._turn()
            self._await_write(None)
            self._assigned.save_positions()  # while it is closed, the client answers no requests
        finally:
            self._health.stopping()
            self._failure_log.report_left_out(ending=True)
            try:
                self._reader.close()
            finally:
                self._writer.close()

    def _turn(self) -> None:
        self._health.turned(self._writer.began_s)
        self._paused_tiers.apply()
        self._check_clock()
        self._await_write(_WRITE_WAIT_S)
        if not self._writer.busy:
            self._halted.begin_trial(self._writer, write_waits=self._wait_s() <= 0)
        self._release_due()
        wait_s = 0.0 if self._writer.busy else self._wait_s()
        self._buffer(self._halted_tiers.fetch(self._settings.limits.batch_records, wait_s, self._tiers))
        self._pause_full()
        now_s = monotonic_s()
        if now_s - self._reported_s >= _REPORT_INTERVAL_S and self._health.alive().ok:
            self._reported_s = now_s
            self._observer.backlog(backlog(self._tiers, self._reader))
            self._halted.report(self._observer, self._health, self._halted_tiers.labels(self._tiers.keys()))
            self._paused_tiers.report(self._observer, self._tiers)
            self._failure_log.report_left_out()
            self._health.waiting("writes", self._abort_deadline.problem)
            self._observer.writes_failing(self._abort_deadline.failing_s)
            self._assigned.note_first_offsets()
        self._assigned.keep()
        if self.topics.refresh(self._paused_tiers.named):
            self._use_topics()
            self._restart()

    def _restart(self) -> None:
        """Read tiers from their start that were created again since they were opened."""
        if partitions := self._assigned.to_restart(self.topics.found):
            self._give_up(partitions)
            self._assigned.restart(partitions)
            self._reader.resume(partitions)

    def _use_topics(self) -> None:
        """Subscribe to every tier of the group that exists: its records must leave even if it is not configured."""
        partition_counts = self.topics.counts
        delays_ms = self._naming.tiers_among(partition_counts)
        tiers = TierSet(tuple(sorted(delays_ms.values())), mixed=self._naming.mixed_topic() in partition_counts)
        if tiers.mixed:
            delays_ms[self._naming.mixed_topic()] = SHORTEST_LADDER_TIER_MS
        self._builder = ReleaseBuilder(
            self._settings,
            tiers,
            partition_counts,
            self._audit,
            self._failure_log,
            self._redrive_outcomes,
            self.topics.look_up,
        )
        self._assigned.rewind(self._halted.resume_existing(partition_counts))
        self._assigned.resume_moved(self._in_flight)
        self._first_tier = next(((topic, partition_counts[topic]) for topic in sorted(delays_ms)), ("", 1))
        if delays_ms != self._assigned.delays_ms:
            self._assigned.delays_ms = delays_ms
            self._reader.subscribe(sorted(delays_ms), self)
        elif not delays_ms:
            self._health.joined()  # no tiers, so nothing to join

    def _check_clock(self) -> None:
        """Shorten waits if the wall clock was set back: records must not wait until it catches up."""
        now_ms = self._clock()
        if set_back_ms := self._clock_watch.set_back_ms(now_ms):
            _log.warning("the clock was set back by %d ms", set_back_ms)
            for tier in self._tiers.values():
                tier.clock_set_back(now_ms)
            self._full_buffer.clock_set_back()

    def _wait_s(self) -> float:
        """Seconds until the next write must begin; a fetched record ends the wait sooner."""
        if self._abort_deadline.pause_left_s > 0:
            return min(_MAX_WAIT_S, self._abort_deadline.pause_left_s)
        running = self._paused_tiers.running(self._tiers).values()
        leaving = [leaves_ms for tier in running if (leaves_ms := tier.next_ms) is not None]
        if not leaving:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, max(0, min(leaving) - self._lead_time.ms - self._clock()) / 1000)

    def _buffer(self, messages: list[Message]) -> None:
        """Add fetched records to their tiers; fetch again later what does not fit into the commit metadata."""
        now_ms = self._clock()
        rejected: dict[Partition, int] = {}
        for message, size in zip(messages, sizes_of(messages), strict=True):
            partition = Partition(message.topic(), message.partition())
            tier = self._tiers.get(partition)
            if tier is None or partition in rejected or partition in self._halted.paused:
                continue
            if not tier.add(message, now_ms, size):
                rejected[partition] = message.offset()
        for partition, offset in rejected.items():
            self._reader.seek(partition, offset)

    def _pause_full(self) -> None:
        """Stop fetching the partitions that are halted or paused, or whose buffer is full, and resume the others."""
        halted = self._halted_tiers.partitions | (self._halted.paused & self._tiers.keys())
        committing = () if self._in_flight is None else self._in_flight.checkpoints
        busy = self._assigned.unwritten.union(committing)
        stopped = self._paused_tiers.held(self._tiers)
        if dropped := self._full_buffer.pause(self._tiers, halted, stopped, busy, self._clock()):
            self._assigned.rewind(dropped)

    def _release_due(self) -> None:
        """Begin one write for the records that leave within the commit lead time, unless a write is in flight."""
        if self._writer.busy or self._abort_deadline.pause_left_s > 0:
            return
        now_ms = self._clock()
        horizon_ms = now_ms + self._lead_time.ms
        space, space_bytes = self._limits.records, self._limits.bytes
        release = Release()
        released: list[Partition] = []
        leaves_ms = 0
        for partition, tier in self._paused_tiers.running(self._tiers).items():
            taken = tier.take(horizon_ms, space, space_bytes)
            if taken:
                try:
                    for record in taken:
                        refusal = self._refusals.reason(partition, record.offset)
                        self._builder.add(release, partition, record, now_ms, refusal)
                except TopicMissingError as error:
                    self._forget_dead_letters(release)
                    refused = RefusedRecord(0, str(error), RefusalCause.MISSING)
                    problem = self._halted.halt(*error.origin, error.record, refused, awaits_topic=True)
                    self._observer.halted(problem)
                    self._assigned.rewind()
                    return
                tier.progress.complete([record.offset for record in taken])
                leaves_ms = max(leaves_ms, *(record.leaves_ms for record in taken))
                released.append(partition)
                space -= len(taken)
                space_bytes -= sum(record.size for record in taken)
                if space <= 0 or space_bytes <= 0:
                    self._tiers[partition] = self._tiers.pop(partition)  # the other partitions come first next time
                    break
        release.checkpoints = self._assigned.checkpoints(released)
        if release.checkpoints:
            release.early = leaves_ms > now_ms
            # If the clock was set back since now_ms was read, the commit must not wait for that difference.
            left_ms = leaves_ms - max(now_ms, self._clock())
            release_time = ReleaseTime(leaves_ms, monotonic_s() + left_ms / 1000) if release.early else None
            self._writer.begin(release.records, release.checkpoints, release_time)
            self._in_flight = release

    def _await_write(self, timeout_s: float | None) -> None:
        """Wait for the write in flight, for at most ``timeout_s`` (``None`` = until it ends), and act on its end."""
        release = self._in_flight
        if release is None:
            resumed = self._halted.await_trial(self._writer, timeout_s)
            if resumed is not None:
                self._assigned.rewind([resumed])
            return
        try:
            result = self._writer.result(timeout_s)
        except WriteRefusedError as error:
            self._forget_dead_letters(release)
            self._finish(self._refusals.add(release, error))
            self._rewind(str(error), counts=not error.outside)
        except WriteAbortedError as error:
            if not error.records_written:
                self._forget_dead_letters(release)
            self._reader.forbid(unreadable_topics(error, self._assigned.unwritten))
            self._limits.aborted(len(release.records))
            self._rewind(str(error), fenced=error.fenced)
            self._abort_deadline.pause()
        else:
            if result is not None:
                if release.early:  # a late write has no preparation to measure
                    self._lead_time.measure(result)
                self._confirm(release, result)
        finally:
            if not self._writer.busy:
                self._in_flight = None

    def _confirm(self, release: Release, result: WriteResult) -> None:
        """Report a confirmed write, and drop the refusals that it has dealt with."""
        self._abort_deadline.succeeded()
        self._limits.committed(result.seconds)
        self._halted.confirm(release.checkpoints)
        self._refusals.confirm(release.checkpoints)
        self._assigned.confirm(release.checkpoints)
        clock_faults = 0
        for tier in self._tiers.values():
            clock_faults, tier.clock_faults = clock_faults + tier.clock_faults, 0
        now_ms = self._clock()
        self._observer.released(
            Released(
                seconds=result.seconds,
                lateness_ms=[now_ms - due_ms for due_ms in release.due_ms],
                moved=release.moved,
                clock_faults=clock_faults,
                outcomes=release.outcomes,
                dead_letters=release.dead_letters,
                discarded=release.discarded,
                redriven=release.redriven,
            )
        )

    def _forget_dead_letters(self, release: Release) -> None:
        """Remove the dead letters of an aborted write from the audit, because they do not exist."""
        for lineage, suffix in release.audited:
            self._audit.forget((lineage,), suffix)

    def _finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Commit offsets after a write that was not complete."""
        try:
            self._writer.finish(checkpoints)
        except WriteAbortedError as error:
            _log.warning("the offsets of the other partitions cannot be committed: %s", error)
            self._reader.forbid(unreadable_topics(error, self._assigned.unwritten))

    def _rewind(self, cause: str, *, counts: bool = True, fenced: bool = False) -> None:
        """Rewind all partitions to their committed offsets after an aborted write. ``counts``: as a failed one."""
        if fenced:
            self._observer.fenced()
        if counts:
            self._abort_deadline.aborted(cause)
        _log.warning("rewinding to the committed offsets: %s", cause)
        self._observer.write_aborted(cause)
        self._assigned.rewind()

    # The reader calls these within its fetch() and close(). Partitions are given up after the write in flight has
    # ended, because their next owner reads the committed offsets.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`RebalanceListener`."""
        self._observer.rebalanced("assigned")
        starts = self._assigned.open(partitions)
        self._health.joined()
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self._give_up(partitions)
        self._observer.rebalanced("revoked")

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self._health.left()
        self._give_up(partitions)
        self._observer.rebalanced("lost")

    def _give_up(self, partitions: Iterable[Partition]) -> None:
        partitions = list(partitions)
        self._assigned.give_up(partitions)
        self._full_buffer.forget(partitions)
        self._await_write(None)
        for partition in partitions:  # the end of the write may have halted them
            self._halted.forget(partition)
        self._refusals.forget(partitions)
