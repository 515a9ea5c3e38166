"""Why a partition stands still while others go on, and the one place of a process that knows all of it.

| cause (label of the metric) | noticed by | next try | ends when |
|---|---|---|---|
| a refused record: ``too_large``, ``forbidden``, ``missing``, ``offline``, ``clock``, ``configuration`` | a write | the record alone, after 1 to 30 s; a scheduler looks for a missing topic instead | an offset behind the record is committed |
| a lost position: ``deleted``, ``truncated``, ``expired`` | the reader, or :class:`FirstOffsets` | the committed offset is read, after 1 to 30 s | an operator has moved it |
| a position that cannot be read: ``forbidden``, ``control``, ``metadata`` | :class:`FirstOffsets` | the same | it can be read, or has changed |
| no position, and no leader that says where the log begins: ``offline`` | :class:`FirstOffsets` | the leader is asked, after 1 to 30 s | it answers |
| a record that cannot be handled yet: ``unavailable`` | a handler's slot | the record, after 1 to 30 s | the record has an outcome |
| a topic that may not be read: ``forbidden`` | the reader (:class:`ForbiddenTopics`) | its rights are read, after 1 to 30 s | it may be read |
| an error of its fetch: ``unfetchable`` | the reader (:class:`UnfetchablePartitions`) | it is fetched, after 1 to 30 s | a record or the end is fetched |
| a pause | :class:`PauseWatch` | | the pause ends; a metric of its own |

A new cause is a kind of :class:`Stop` here, a :class:`RefusalCause`, or is found by the reader; it has a row in this
table and is a :class:`HaltCause`; tests then ask for the runbook and the alert.
"""  # noqa: E501 - a table

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Self

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.process.pause_watch import NoPauses, PauseView
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel, ProcessObserver
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import newer_format
from kafka_redelivery.transport.errors import (
    PositionDeletedError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
    grant,
)
from kafka_redelivery.transport.protocols import BackgroundWriter, Partition, ProducerRecord, Reader

_log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff()
_MAX_LISTED: Final = 5

_REST_FACTOR: Final = 2
"""After a trial without an answer no other begins for twice the time that it took, or for the longest pause if that is
shorter. Writes use that time."""

FIXES: Final[Mapping[RefusalCause, str]] = {
    RefusalCause.TOO_LARGE: "raise max.message.bytes of {topic}",
    RefusalCause.FORBIDDEN: "grant the right Write on {topic} (`redelivery topology acls` prints the command), or "
    "remove the rule that denies it",
    RefusalCause.MISSING: "run `redelivery topology apply`, or create {topic} yourself if it is an output",
    RefusalCause.OFFLINE: "start a broker that has a replica of the partition, or repair its storage; `redelivery "
    "topology check` says whether min.insync.replicas of {topic} is too high",
    RefusalCause.CLOCK: "correct the clock of this machine, or raise message.timestamp.after.max.ms and "
    "message.timestamp.before.max.ms of {topic}",
    RefusalCause.CONFIGURATION: "change the configuration of {topic} so that it accepts the record; `redelivery "
    "topology check` names a property that prevents it",
}
"""How to end the halt of each refusal."""

_EXPIRED: Final = -1
_UNKNOWN: Final = -2
_ACCEPT: Final = "to go on at the log start, run: redelivery topology apply {}"
_CHANGED: Final = "it goes on by itself when the commit has changed"
_COMMIT_AGAIN: Final = (
    "stop the processes of the group, commit the offset again without metadata "
    "(kafka-consumer-groups.sh --reset-offsets --to-offset {offset}), and start them"
)
_RESET: Final = (
    "stop the processes of the group, reset its offset (kafka-consumer-groups.sh --reset-offsets --to-earliest), and "
    "start them"
)


@dataclass(slots=True, eq=False)
class Stop:
    """One partition that stands still."""

    partition: Partition
    offset: int
    """Of the record or position at which it stands."""

    label: HaltLabel
    cause: str
    fix: str = ""
    backoff: Backoff = field(default_factory=lambda: _BACKOFF, kw_only=True)
    """When it is tried again (monotonic). A partition goes on at most 30 s after the cause is gone."""

    def postpone(self) -> None:
        """Try again after a pause that is longer than the one before."""
        self.backoff = self.backoff.failed(monotonic_s())

    @property
    def due(self) -> bool:
        """Whether it is to be tried again now."""
        return self.backoff.is_due(monotonic_s())


@dataclass(slots=True, eq=False, kw_only=True)
class RefusedStop(Stop):
    """Kafka refuses a record that has to be written before the partition can go on.

    It counts as halted until an offset behind its consumed record is committed.
    """

    record: ProducerRecord
    """The record that Kafka refuses."""

    awaits_topic: bool = False
    """Whether the topic of the record does not exist, so that there is nothing to try."""

    output: bool = False
    """Whether a handler has named the topic of the record."""

    unread: bool = True
    """Whether the partition is not read. It is read again once Kafka accepts the record."""

    def __str__(self) -> str:
        """Say what is halted, why, and how to go on."""
        return (
            f"{self.partition} is halted at offset {self.offset}: Kafka refuses a record for {self.record.topic}: "
            f"{self.cause}; {self.fix}"
        )

    def is_judged_by(self, error: WriteRefusedError) -> bool:
        """Whether the cause outside the record is gone, and a refusal that may be its own fault has taken its place.

        The partition goes on then, and the next write decides about the record. That a topic is missing may be the
        fault of an output.
        """
        known = RefusalCause(self.label.cause)
        if not self.output:
            return known.outside and not error.judged([each.for_topic_of_group() for each in error.refused]).outside
        missing = any(each.cause is RefusalCause.MISSING for each in error.refused)
        return known.outside and (not error.outside or (missing and known is not RefusalCause.MISSING))

    def can_go_on(self, topics: Mapping[str, int]) -> bool:
        """Whether the awaited topic exists, or that of the refused record, or its partition, does not."""
        if self.awaits_topic:
            return self.record.topic in topics
        missing = self.label.cause is HaltCause.MISSING
        return missing and (self.record.partition or 0) >= topics.get(self.record.topic, 0)

    def is_like(self, other: RefusedStop) -> bool:
        """Whether the same topic, or its partition, refuses any record, so that one trial answers for both."""
        if self.label != other.label or self.label.cause in {HaltCause.TOO_LARGE, HaltCause.CONFIGURATION}:
            return False
        return self.label.cause is not HaltCause.OFFLINE or self.record.partition == other.record.partition


@dataclass(slots=True, eq=False)
class LostPosition(Stop):
    """The offset from which a partition has to be read does not exist, or is unknown.

    Kafka does not say whether deleted offsets held records that this group had to handle, or only transaction markers
    and records of aborted transactions. So the partition does not go on by itself: an operator decides, with
    ``redelivery topology apply --accept-loss``. What was fetched before is still handled and committed.

    An operator also decides about a committed offset that Kafka has deleted because the group had no members for too
    long (``offsets.retention.minutes``): nothing shows which records are finished. A position lies beyond the end of
    the log if Kafka has elected a replica that was not in sync: it has lost records that this group has read, and gives
    their offsets to new ones. A committed offset that the user may not read, and a first one that depends on a control
    topic that cannot be read, or on a partition without a leader, need no decision.

    The offset is -1 if it has expired, and -2 if it is unknown.
    """

    committed: Checkpoint | None = None
    """What is committed, if its metadata cannot be read."""

    def __str__(self) -> str:
        """Say what is halted, why, and how to go on."""
        return f"{self.partition} is halted, other partitions are not: {self.cause}; {self.fix}"

    @classmethod
    def of(cls, error: PositionDeletedError) -> Self:
        """Return what the reader has found: the next offset was deleted, or was beyond the end of the log."""
        partition = Partition(error.topic, error.number)
        if error.end is None:
            return cls.deleted(partition, error.offset)
        return cls.truncated(partition, error.offset, error.end)

    @classmethod
    def truncated(cls, partition: Partition, offset: int, end: int) -> Self:
        """Return what a next offset means that is beyond the end of the log."""
        cause = (
            f"its next offset {offset} was beyond the end of the log, which is {end} now; Kafka has lost "
            "records at the end of the log, or the topic was created again, which ends this halt within seconds"
        )
        return cls._of(partition, offset, HaltCause.TRUNCATED, cause, f"if it is still halted in a minute, {_RESET}")

    @classmethod
    def deleted(cls, partition: Partition, offset: int) -> Self:
        """Return what a next offset means that was deleted."""
        cause = f"its next offset {offset} does not exist any more; whether records were lost is unknown"
        return cls._of(partition, offset, HaltCause.DELETED, cause, _ACCEPT.format("--accept-loss"))

    @classmethod
    def expired(cls, partition: Partition, records: int, repeated: str) -> Self:
        """Return what an expired offset means.

        Args:
            partition: the partition.
            records: how many of its records would be repeated at most.
            repeated: what would be done again with them, as a participle.
        """
        cause = f"its committed offset has expired; up to {records} records would be {repeated} again"
        return cls._of(partition, _EXPIRED, HaltCause.EXPIRED, cause, _ACCEPT.format("--accept-repeats"))

    @classmethod
    def forbidden(cls, partition: Partition) -> Self:
        """Return what a committed offset means that may not be read."""
        cause = "its committed offset may not be read; it goes on by itself when it may"
        fix = grant(f"Read on topic {partition.topic}").removeprefix("; ")
        return cls._of(partition, _UNKNOWN, HaltCause.FORBIDDEN, cause, fix)

    @classmethod
    def control(cls, partition: Partition, problem: str) -> Self:
        """Return what a missing committed offset means while the control topic cannot be read, because of a problem."""
        cause = f"it has no committed offset, and where it starts is unknown: {problem}"
        return cls._of(
            partition, _UNKNOWN, HaltCause.CONTROL, cause, "it goes on by itself when the control topic can be read"
        )

    @classmethod
    def offline(cls, partition: Partition) -> Self:
        """Return what a missing committed offset means while no leader says where the log begins and ends."""
        cause = "it has no committed offset, and its leader, if it has one, does not say where its log begins"
        fix = FIXES[RefusalCause.OFFLINE].partition(";")[0] + "; it goes on by itself then"
        return cls._of(partition, _UNKNOWN, HaltCause.OFFLINE, cause, fix)

    @classmethod
    def metadata(cls, partition: Partition, position: Checkpoint, problem: str, *, saved: bool) -> Self:
        """Return what a position means whose metadata cannot be read.

        Args:
            partition: the partition.
            position: where it would start.
            problem: what is wrong with the metadata.
            saved: whether it is a saved position, and nothing is committed.
        """
        fix = _CHANGED if newer_format(position.metadata) else _COMMIT_AGAIN.format(offset=position.offset)
        lost = cls._of(partition, position.offset, HaltCause.METADATA, problem, fix)
        lost.committed = None if saved else position
        return lost

    @classmethod
    def _of(cls, partition: Partition, offset: int, label: HaltCause, cause: str, fix: str) -> Self:
        return cls(partition, offset, HaltLabel(partition.topic, label), cause, fix)

    @property
    def had_position(self) -> bool:
        """Whether the partition had a position. Without one, errors about where the client starts mean nothing."""
        return self.label.cause in {HaltCause.DELETED, HaltCause.TRUNCATED, HaltCause.EXPIRED}

    def repeats(self, known: LostPosition | None) -> bool:
        """Whether what is ``known`` of the partition, and was reported, says the same."""
        found = (self.offset, self.label, self.committed)
        return known is not None and (known.offset, known.label, known.committed) == found

    def can_go_on(
        self, committed: Checkpoint | None, *, control_read: bool, answers: Callable[[Partition], bool]
    ) -> bool:
        """Whether the partition can go on.

        Args:
            committed: its committed offset, which may have been moved, or may be read now.
            control_read: whether the control topic was read since the partition was assigned.
            answers: asks the leader of a partition for its bounds; returns whether it answers.
        """
        if self.label.cause is HaltCause.OFFLINE:
            return committed is not None or answers(self.partition)
        if self.label.cause is HaltCause.CONTROL:
            return control_read or committed is not None
        if self.label.cause is HaltCause.METADATA:
            return committed != self.committed
        return (_EXPIRED if committed is None else committed.offset) > self.offset


class HeldPartitions:
    """Partitions whose next record cannot be handled yet, because something outside it does not answer.

    That is a schema registry, Kafka when it is asked whether the topic of an output exists, or what a process of the
    handler needs at its start. No delivery is counted. Only one thread uses it.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self._held: dict[Partition, Stop] = {}

    def __bool__(self) -> bool:
        """Whether a partition is held or tried again."""
        return bool(self._held)

    def stops(self) -> Iterable[Stop]:
        """Return what is held or tried again."""
        return self._held.values()

    def hold(self, partition: Partition, offset: int, cause: str) -> None:
        """Hold a partition at the offset of its next record."""
        held = self._held.get(partition)
        if held is None:
            held = self._held[partition] = Stop(
                partition, offset, HaltLabel(partition.topic, HaltCause.UNAVAILABLE), ""
            )
        elif not held.due:
            return  # another record of the same partition
        held.cause = f"{partition} waits at offset {held.offset}, uncounted: {cause}"
        held.postpone()
        _log.warning("%s; it is tried again in %g s", held.cause, held.backoff.pause_s)

    def waiting(self) -> frozenset[Partition]:
        """Return the partitions of which no record may start now."""
        return frozenset(partition for partition, each in self._held.items() if not each.due)

    def left_s(self, max_s: float = _BACKOFF.longest_s) -> float:
        """Return the seconds until a partition may be tried again, at most ``max_s``."""
        now_s = monotonic_s()
        return min((max(0.0, each.backoff.due_s - now_s) for each in self._held.values()), default=max_s)

    def progressed(self, partition: Partition, offsets: Container[int]) -> None:
        """Records of the partition have got their outcomes. If the one that holds it is among them, it goes on."""
        held = self._held.get(partition)
        if held is not None and held.offset in offsets:
            del self._held[partition]
            _log.info("%s-%d goes on", *partition)

    def drop(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned."""
        self._held.pop(partition, None)


class Stops:
    """The partitions of one process that stand still. Only its polling thread uses it.

    A refused record is tried again alone, so that a refusal aborts nothing else. Once Kafka accepts it, or refuses it
    for what it is and no longer for a cause outside it, the partition is read again from its committed offset.
    """

    def __init__(self, observer: ProcessObserver, health: Health, pauses: PauseView | None = None) -> None:
        """Start without stops.

        Args:
            observer: gets the number of partitions that stand still, by cause.
            health: gets what is wrong and how to fix it.
            pauses: what operators have paused; ``None`` = nothing, ever.
        """
        self._observer = observer
        self._health = health
        self.pauses: PauseView = NoPauses() if pauses is None else pauses
        self._paused = self.pauses.current
        """What :meth:`unhandled` has seen."""

        self._refused: dict[Partition, RefusedStop] = {}
        self._lost: dict[Partition, LostPosition] = {}
        self.held = HeldPartitions()
        self.unread: frozenset[Partition] = frozenset()
        """The partitions that are not read, to protect their records."""

        self._trial: RefusedStop | None = None
        self._began_s = 0.0
        """When the last trial began (monotonic)."""

        self._rest_until_s = 0.0
        self._was_trial = False
        """Whether the last turn was that of a trial."""

    def drop(self, partition: Partition) -> None:
        """Drop what is known of a partition that is no longer owned, or is opened again."""
        self.held.drop(partition)
        refused, lost = self._refused.pop(partition, None), self._lost.pop(partition, None)
        if refused is not None or lost is not None:
            self._changed()

    def _changed(self) -> None:
        self.unread = frozenset(each.partition for each in self._refused.values() if each.unread) | self._lost.keys()
        lost = [f"{each.partition} is halted: {each.cause}; {each.fix}" for each in self._lost.values()]
        self._health.note("lost", "\n".join(lost))

    def report(self, reader: Reader | None = None, owned: AbstractSet[Partition] = frozenset()) -> None:
        """Report all that stands still to the metrics and to the readiness probe. Called about once a second.

        The thread of the pauses has reported to the probe what is paused.

        Args:
            reader: knows what it may not read or cannot fetch.
            owned: the partitions that it reads. The group assigns no partition of a topic that may not even be
                described; such a topic counts as one partition.
        """
        numbers = Counter(each.label for each in (*self._refused.values(), *self._lost.values(), *self.held.stops()))
        if reader is not None:
            paused = Counter({partition.topic: 0 for partition in owned})
            paused.update(partition.topic for partition in owned if self._paused.covers(partition.topic))
            self._observer.paused(paused, self._paused.end)
            forbidden, unfetchable = reader.forbidden, reader.unfetchable
            self._health.note("forbidden", "\n".join(forbidden.values()))
            self._health.note("unfetchable", "\n".join(unfetchable.values()))
            numbers += Counter(HaltLabel(partition.topic, HaltCause.UNFETCHABLE) for partition in unfetchable)
            if forbidden:
                read = Counter(partition.topic for partition in owned - self._lost.keys())
                for topic in forbidden:
                    label = HaltLabel(topic, HaltCause.FORBIDDEN)
                    numbers[label] = max(1, numbers[label] + read[topic])
        self._observer.halted_partitions(numbers)
        self._health.note("halted", _listed(map(str, self._refused.values()), "and {} more partitions are halted"))
        self._health.note("held", _listed((each.cause for each in self.held.stops()), "and {} more partitions wait"))

    @property
    def lost(self) -> AbstractSet[Partition]:
        """The partitions without a position to read from."""
        return self._lost.keys()

    def unhandled(self, owned: Iterable[Partition]) -> AbstractSet[Partition]:
        """Return the partitions of which no record may be handled or released now: they are paused, or held.

        What is buffered of them stays buffered, in order. Handler calls and writes in progress end as usual.
        """
        self._paused = self.pauses.current
        if not (self._paused or self.held):
            return frozenset()
        paused = {partition for partition in owned if self._paused.covers(partition.topic)} if self._paused else set()
        return paused | self.held.waiting()

    def obey(self) -> None:
        """Note that no handler call or release begins any more that the pauses forbid which :meth:`unhandled` saw."""
        self.pauses.applied(self._paused)

    @property
    def problem(self) -> str:
        """What is lost, and how to go on; empty if nothing is."""
        return "\n".join(str(lost) for _, lost in sorted(self._lost.items()))

    def lose(self, lost: LostPosition) -> None:
        """Halt a partition without a position."""
        known = self._lost.get(lost.partition)
        lost.postpone()
        self._lost[lost.partition] = lost
        if not lost.repeats(known):
            _log.error("%s", lost)
            self._observer.halted(f"{lost.partition}: {lost.cause}")
        self._changed()

    def lose_read(self, error: PositionDeletedError, read: Container[Partition]) -> None:
        """Halt the partition that the reader names, if it is one of those that are read."""
        lost = LostPosition.of(error)
        known = self._lost.get(lost.partition)
        if lost.partition in read and (known is None or known.had_position):
            self.lose(lost)

    def moved(
        self,
        committed: Callable[[Collection[Partition]], Mapping[Partition, Checkpoint | None]],
        busy: Callable[[], Container[Partition]] = frozenset,
        control_read: Callable[[], bool] = lambda: True,
        answers: Callable[[Partition], bool] = lambda _: True,
    ) -> list[Partition]:
        """Return the partitions that can go on, mostly because their committed offset was moved.

        Asks Kafka about all of them when one is due, and not about those with records that are not finished: their
        commit would replace the offset that was moved.

        Args:
            committed: asks for committed offsets without waiting long.
            busy: returns the partitions with unfinished records.
            control_read: whether the control topic was read since the last partitions were assigned.
            answers: see :meth:`LostPosition.can_go_on`.
        """
        if not any(each.due for each in self._lost.values()):
            return []
        unfinished = busy()
        found = committed([partition for partition in self._lost if partition not in unfinished])
        for each in self._lost.values():
            each.postpone()
        read = control_read()
        moved = [
            each for each, at in found.items() if self._lost[each].can_go_on(at, control_read=read, answers=answers)
        ]
        for partition in moved:
            _log.warning("%s-%d goes on: its commit has changed, or what it needs can be read", *partition)
        return moved

    def refuse(
        self,
        partition: Partition,
        offset: int,
        record: ProducerRecord,
        refused: RefusedRecord,
        *,
        awaits_topic: bool = False,
        output: bool = False,
    ) -> None:
        """Halt a partition.

        Args:
            partition: the partition.
            offset: the offset of its record that cannot be finished.
            record: the record that Kafka refuses for it.
            refused: the refusal.
            awaits_topic: whether the record is not tried again, but :meth:`resume_for` ends the halt.
            output: whether a handler has named the topic of the record.
        """
        before = self._refused.get(partition)
        if before is not None and before.unread:
            self._observer.halted(str(before))
            return  # another record of the same write
        stop = RefusedStop(
            partition,
            offset,
            HaltLabel(record.topic, HaltCause(refused.cause)),
            refused.reason,
            FIXES[refused.cause].format(topic=record.topic),
            backoff=_BACKOFF if before is None else before.backoff,
            record=record,
            awaits_topic=awaits_topic,
            output=output,
        )
        stop.postpone()
        self._refused[partition] = stop
        self._changed()
        _log.error("%s; the partition is tried again by itself", stop)
        self._observer.halted(str(stop))

    def confirm(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """End the halts whose record is finished by a confirmed write."""
        if self._refused:
            for partition, checkpoint in checkpoints.items():
                refused = self._refused.get(partition)
                if refused is not None and checkpoint.offset > refused.offset:
                    del self._refused[partition]
                    self._changed()

    @property
    def trying(self) -> bool:
        """Whether a trial is under way, so that the writer is busy."""
        return self._trial is not None

    def begin_trial(self, writer: BackgroundWriter, *, write_waits: bool) -> bool:
        """Begin to try the refused record of a partition that is due, if there is one. No write may be under way.

        Trials and the writes of other partitions take turns, because there may be many halted partitions.

        Args:
            writer: the writer.
            write_waits: whether there is something else to write now.

        Returns:
            Whether a trial has begun.
        """
        due, now_s = None, monotonic_s()
        if now_s >= self._rest_until_s and not (write_waits and self._was_trial):
            waiting = (each for each in self._refused.values() if each.unread and not each.awaits_topic)
            due = min(waiting, key=lambda each: each.backoff.due_s, default=None)
        self._was_trial = due is not None and due.backoff.is_due(now_s)
        if due is not None and self._was_trial:
            writer.begin_trial(due.record, due.backoff.pause_s)
            self._trial, self._began_s = due, now_s
        return self._was_trial

    def await_trial(self, writer: BackgroundWriter, within_s: float | None) -> Partition | None:
        """Wait for the end of the trial.

        Returns:
            The partition that is to be read again from its committed offset, ``None`` if there is none.
        """
        trial = self._trial
        if trial is None:
            return None
        try:
            if writer.result(within_s) is None:
                return None
        except WriteAbortedError as error:
            # A trial also waits out an outage of Kafka, so the rest has a limit.
            now_s = monotonic_s()
            self._rest_until_s = now_s + min(_REST_FACTOR * (now_s - self._began_s), trial.backoff.longest_s)
            self._postpone(trial, str(error))
            return None
        except WriteRefusedError as error:
            if not trial.is_judged_by(error):
                self._postpone(trial, str(error))
                return None
        finally:
            if not writer.busy:
                self._trial = None
        if self._refused.get(trial.partition) is not trial:
            return None
        self._resume(trial)
        return trial.partition

    def resume_for(self, topics: Mapping[str, int]) -> list[Partition]:
        """Return the partitions that can go on with these topics, and are to be read from their committed offset.

        They waited for one of them, or their record was refused because its topic, or partition of it, is not among
        them: the scheduler finds another place for it.

        Args:
            topics: the partition counts of the topics that exist.
        """
        found = [each for each in self._refused.values() if each.unread and each.can_go_on(topics)]
        for each in found:
            self._resume(each)
        return [each.partition for each in found]

    def _resume(self, refused: RefusedStop) -> None:
        refused.unread = False
        self._changed()
        _log.info("%s-%d goes on: what halted it is gone", *refused.partition)

    def _postpone(self, trial: RefusedStop, cause: str) -> None:
        """Wait longer, also with the partitions for which this trial has answered."""
        _log.warning("%s-%d stays halted: %s", *trial.partition, cause)
        for each in self._refused.values():
            if each is trial or (each.unread and each.is_like(trial)):
                each.postpone()


def _listed(lines: Iterable[str], more: str) -> str:
    """Return a few lines, and how many there are beyond them."""
    every = list(lines)
    beyond = len(every) - _MAX_LISTED
    return "\n".join([*every[:_MAX_LISTED], *([more.format(beyond)] if beyond > 0 else [])])
