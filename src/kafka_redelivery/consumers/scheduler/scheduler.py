"""The delay scheduler: releases records that are due. Kafka is its only store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from kafka_redelivery.consumers.clock import Clock, ClockWatch, monotonic_s
from kafka_redelivery.consumers.dead_letters.monitor import PartitionShare
from kafka_redelivery.consumers.flow.control import Topics
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.lane import by_partition, sizes_of
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.routes import counts_to_produce_with
from kafka_redelivery.consumers.scheduler.assigned_tiers import AssignedTiers
from kafka_redelivery.consumers.scheduler.full_buffer import FullBuffer, write_bytes
from kafka_redelivery.consumers.scheduler.release import (
    CommitLeadTime,
    Release,
    ReleaseBuilder,
    TopicMissingError,
)
from kafka_redelivery.consumers.scheduler.requests import RequestedWrite, Requests
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.consumers.telemetry.failure_log import FailureLog
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import Released, SchedulerObserver, TierBacklog
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.engine import (
    AbortDeadline,
    Committed,
    End,
    Refused,
    Repeat,
    Rewind,
    WriteEngine,
    WriteLimits,
)
from kafka_redelivery.consumers.writes.redrive_outcomes import RedriveOutcomes
from kafka_redelivery.topology.cluster.acls import configured_topics
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.topics.tiers import SHORTEST_LADDER_TIER_MS, TierSet, tier_set, tiers_to_fill
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    PositionDeletedError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
)
from kafka_redelivery.transport.protocols import (
    BackgroundWriter,
    Message,
    Partition,
    Reader,
    ReleaseTime,
)

_MAX_WAIT_S = 0.2
_WRITE_WAIT_S = 0.005  # how long a turn waits for the write in flight before it fetches
_REPORT_INTERVAL_S = 1.0
_ACT_INTERVAL_S = 0.05
"""The shortest time between two writes about requests of operators. Records that are due leave in between."""

_ACT_AGAIN_S = 0.15
"""How much longer it is until they are looked at again if there is nothing to write about them."""


class KnownTopics:
    """Lists the topics of the cluster once, at the start. From then on it asks for those of the group alone.

    A tier that is created later is in the configuration, or in the control topic, to which `redelivery topology apply`
    adds it. A ready topic that is created later is looked up when a record has to go there.
    """

    def __init__(self, settings: Settings, reader: Reader, watch: Topics) -> None:
        """Know nothing yet."""
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
        self._needed = tier_set(settings.entries().values())
        self._first_tier = ("", 1)  # its name and number of partitions; the name is empty if there is none
        self._full_buffer = FullBuffer(reader, settings.limits)
        self._builder: ReleaseBuilder
        self._reported: set[str] = set()
        """Sources that are not configured, and about which a warning is in the log."""

        self._audit = DeadLetterAudit(settings.entries())
        self._failure_log = FailureLog(settings.failure_details)
        self._redrive_outcomes = RedriveOutcomes(self._naming.actions_topic(), {}, self.topics.look_up)
        self._lead_time = lead_time or CommitLeadTime()
        self._engine: WriteEngine[Release] = WriteEngine(writer, reader, observer, AbortDeadline(endures=True))
        self._limits = WriteLimits(settings.limits.batch_records, write_bytes(settings.limits))
        self._health = health or Health()
        self._stops = Stops(observer, self._health)
        self._assigned = AssignedTiers(reader, first_offsets, self._stops, self._naming.mixed_topic())
        self._tiers = self._assigned.opened
        self._held: AbstractSet[Partition] = frozenset()
        """The partitions that are not released in this turn."""

        self._requests = Requests(self._naming.control_topic())
        self._requested: RequestedWrite | None = None
        """The write in flight, if it is that of a request."""

        self._act_at_s = 0.0

        self._stopping = False
        self._reported_s = 0.0
        self._clock_watch = ClockWatch()

    def obey(self, pauses: PauseView) -> None:
        """Release nothing that is paused. Call it before :meth:`run`."""
        self._stops.pauses = pauses

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
        self._held = self._stops.unhandled(self._tiers)
        self._stops.obey()
        self._check_clock()
        self._await_write(_WRITE_WAIT_S)
        if not self._writer.busy:
            self._stops.begin_trial(self._writer, write_waits=self._wait_s() <= 0)
        if not self._act():
            self._release_due()
        wait_s = 0.0 if self._writer.busy else self._wait_s()
        self._buffer(self._fetch(wait_s))
        self._pause_full()
        now_s = monotonic_s()
        if now_s - self._reported_s >= _REPORT_INTERVAL_S and self._health.alive().ok:
            self._reported_s = now_s
            self._observer.backlog(backlog(self._tiers, self._reader))
            self._stops.report(self._reader, self._tiers.keys())
            self._failure_log.report_left_out()
            self._engine.report(self._health)
            self._assigned.note_first_offsets()
        self._assigned.keep()
        self._assigned.resume_moved(self._engine.writing)
        if self.topics.refresh(self._stops.pauses.tiers):
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
        existing = TierSet(tuple(sorted(delays_ms.values())), mixed=self._naming.mixed_topic() in partition_counts)
        if existing.mixed:
            delays_ms[self._naming.mixed_topic()] = SHORTEST_LADDER_TIER_MS
        self._builder = ReleaseBuilder(
            self._settings,
            tiers_to_fill(self._needed, existing),
            partition_counts,
            self._audit,
            self._failure_log,
            self._redrive_outcomes,
            self.topics.look_up,
            self._reported,
        )
        if self._naming.actions_topic() not in partition_counts:
            self._redrive_outcomes.forget_topic()
        self._assigned.rewind(self._stops.resume_for(partition_counts))
        # Partitions that were added are assigned, too, though nothing is produced to them yet.
        counts = ((topic, self.topics.found[topic].partitions) for topic in sorted(delays_ms))
        self._first_tier = next(counts, ("", 1))
        if delays_ms != self._assigned.delays_ms:
            self._assigned.delays_ms = delays_ms
            self._reader.subscribe(sorted(delays_ms), self)
        elif not delays_ms:
            self._health.joined()  # no tiers, so nothing to join

    def _check_clock(self) -> None:
        """Shorten waits if the wall clock was set back: records must not wait until it catches up."""
        now_ms = self._clock()
        if self._clock_watch.was_set_back(now_ms):
            for tier in self._tiers.values():
                tier.clock_set_back(now_ms)

    def _wait_s(self) -> float:
        """Seconds until the next write must begin; a fetched record ends the wait sooner."""
        if (pause_left_s := self._engine.deadline.pause_left_s) > 0:
            return min(_MAX_WAIT_S, pause_left_s)
        leaving = [leaves_ms for tier in self._running().values() if (leaves_ms := tier.next_ms) is not None]
        if not leaving:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, max(0, min(leaving) - self._lead_time.ms - self._clock()) / 1000)

    def _running(self) -> Mapping[Partition, TierPartition]:
        if not self._held:
            return self._tiers
        return {partition: tier for partition, tier in self._tiers.items() if partition not in self._held}

    def _fetch(self, timeout_s: float) -> list[Message]:
        try:
            return self._reader.fetch(self._settings.limits.batch_records, timeout_s)
        except PositionDeletedError as error:
            self._stops.lose_read(error, self._tiers)
            return []

    def _buffer(self, messages: list[Message]) -> None:
        """Add fetched records to their tiers; fetch again later what does not fit into the commit metadata."""
        now_ms = self._clock()
        for partition, records in by_partition(messages).items():
            tier = self._tiers.get(partition)
            if tier is None or partition in self._stops.unread:
                continue
            again = tier.add(records, sizes_of(records), now_ms)
            if again is not None:
                self._reader.seek(partition, again)

    def _pause_full(self) -> None:
        """Stop fetching the partitions that are halted or paused, or whose buffer is full, and resume the others."""
        halted = self._stops.lost | (self._stops.unread & self._tiers.keys())
        committing = () if self._engine.writing is None else self._engine.writing.checkpoints
        busy = self._assigned.unwritten.union(committing)
        stopped = self._held & self._tiers.keys()
        wanted = [Partition(each.key.topic, each.key.number) for each in self._stops.pauses.requests]
        if dropped := self._full_buffer.pause(self._tiers, halted, stopped, busy, self._clock(), wanted):
            self._assigned.rewind(dropped)

    def _act(self) -> bool:
        """Begin one write about what operators want done with waiting records; return whether there is one to make."""
        requests = self._stops.pauses.requests
        if not requests or self._writer.busy or self._engine.deadline.pause_left_s > 0:
            return False
        if monotonic_s() < self._act_at_s:
            return False
        self._act_at_s = monotonic_s() + _ACT_INTERVAL_S
        for partition, end in self._reader.take_reached_ends().items():
            tier = self._tiers.get(partition)
            if tier is not None and partition not in self._stops.unread:  # its records were dropped
                tier.end = end
        write = self._requests.next_write(
            requests, self._running(), self._builder, self._assigned.mark_of, self._limits.records, self._clock()
        )
        if write is None:
            self._act_at_s = monotonic_s() + _ACT_INTERVAL_S + _ACT_AGAIN_S  # to look may have taken longer
            return False
        # The offsets of the partition are among them in any case: they fence a scheduler that has lost it.
        write.release.checkpoints = self._assigned.checkpoints([Partition(write.key.topic, write.key.number)])
        write.release.starting = self._assigned.unwritten & write.release.checkpoints.keys()
        self._requested = write
        write.release.close()
        self._engine.begin(write.release)
        return True

    def _release_due(self) -> None:
        """Begin one write for the records that leave within the commit lead time, unless a write is in flight."""
        if self._writer.busy or self._engine.deadline.pause_left_s > 0:
            return
        now_ms = self._clock()
        horizon_ms = now_ms + self._lead_time.ms
        space, space_bytes = self._limits.records, self._limits.bytes
        release = Release()
        released: list[Partition] = []
        leaves_ms = 0
        for partition, tier in self._running().items():
            taken = tier.take(horizon_ms, space, space_bytes)
            if taken:
                try:
                    for record in taken:
                        refusal = tier.refusals.get(record.offset)
                        self._builder.add(release, partition, record, now_ms, refusal)
                except TopicMissingError as error:
                    self._withdraw_dead_letters(release)
                    refused = RefusedRecord(0, str(error), RefusalCause.MISSING)
                    self._stops.refuse(*error.origin, error.record, refused, awaits_topic=True)
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
            release.starting = self._assigned.unwritten & release.checkpoints.keys()
            release.close()
            self._engine.begin(release, release_time)

    def _await_write(self, timeout_s: float | None) -> None:
        """Wait for the write in flight, for at most ``timeout_s`` (``None`` = until it ends), and act on its end."""
        release = self._engine.writing
        if release is None:
            resumed = self._stops.await_trial(self._writer, timeout_s)
            if resumed is not None:
                self._assigned.rewind([resumed])
            return
        end = self._engine.end(timeout_s, repeats=False)
        requested = self._end_request(end)
        match end:
            case Committed(seconds, prepared_s):
                if release.early:  # a late write has no preparation to measure
                    self._lead_time.measure(prepared_s)
                self._confirm(release, seconds)
            case Refused(refusal):
                self._withdraw_dead_letters(release)
                if not requested:
                    self._engine.commit_rest(self._assigned.refuse(release, refusal), release)
                self._assigned.rewind()
            case Rewind(error) | Repeat(error):
                self._rewind(release, error)

    def _rewind(self, release: Release, error: WriteAbortedError) -> None:
        """Go on from the committed offsets after an aborted write. They may show that only its answer was lost."""
        outdated = isinstance(error, MembershipOutdatedError)
        if release.produced and not (error.records_written or error.fenced or outdated):
            self._limits.aborted(len(release.produced))
        self._assigned.rewind()
        if not outdated and self._assigned.are_at(release.checkpoints):
            self._confirm(release, self._engine.seconds)
        elif not error.records_written:
            self._withdraw_dead_letters(release)

    def _end_request(self, end: End | None) -> bool:
        """Note how the write of a request has ended; return whether the write was one."""
        if end is None or self._requested is None:
            return False
        requested, self._requested = self._requested, None
        match end:
            case Committed():
                self._requests.committed(requested)
            case Refused(error):
                self._requests.aborted(requested, self._clock(), str(error))
            case _:
                self._requests.aborted(requested, self._clock())
                # The next write may be aborted, too: first that of records that are due.
                self._act_at_s = monotonic_s() + self._engine.deadline.pause_left_s + _ACT_AGAIN_S
        return True

    def _confirm(self, release: Release, seconds: float) -> None:
        """Report a confirmed write, and drop the refusals that it has dealt with."""
        self._limits.committed(seconds)
        self._assigned.confirm(release.checkpoints)
        clock_faults = 0
        for tier in self._tiers.values():
            clock_faults, tier.clock_faults = clock_faults + tier.clock_faults, 0
        now_ms = self._clock()
        self._observer.released(
            Released(
                seconds=seconds,
                lateness_ms=[now_ms - due_ms for due_ms in release.due_ms],
                moved=release.moved,
                clock_faults=clock_faults,
                outcomes=release.outcomes,
                dead_letters=release.dead_letters,
                discarded=release.discarded,
                redriven=release.redriven,
            )
        )

    def _withdraw_dead_letters(self, release: Release) -> None:
        """Remove the dead letters of an aborted write from the audit, because they do not exist."""
        for lineage, suffix in release.audited:
            self._audit.withdraw((lineage,), suffix)

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
        self._assigned.give_up(list(partitions))
        self._await_write(None)
