"""Partitions that are not read because Kafka refuses a record that has to be written before they can go on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltLabel, ProcessObserver
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import BackgroundWriter, Partition, ProducerRecord

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
"""A partition goes on at most this long after the cause is gone."""

_REST_FACTOR = 2
"""After a trial without an answer no other begins for twice the time that it took, or for the longest pause if that is
shorter. Writes use that time."""

_MAX_LISTED = 5

_FIXES: Mapping[RefusalCause, str] = {
    RefusalCause.TOO_LARGE: "raise max.message.bytes of {topic}",
    RefusalCause.FORBIDDEN: "grant the right Write on {topic} (`redelivery topology acls` prints the command), or "
    "remove the rule that denies it",
    RefusalCause.MISSING: "run `redelivery topology apply`, or create {topic} yourself if it is an output",
    RefusalCause.OFFLINE: "start a broker that has a replica of the partition, or repair its storage",
    RefusalCause.CLOCK: "correct the clock of this machine, or raise message.timestamp.after.max.ms and "
    "message.timestamp.before.max.ms of {topic}",
    RefusalCause.OTHER: "change the configuration of {topic} so that it accepts the record",
}


@dataclass(slots=True, eq=False)
class HaltedPartition:
    """One halted partition. It counts as halted until an offset behind its record is committed."""

    partition: Partition
    offset: int
    """Offset of the consumed record."""

    label: HaltLabel
    problem: str
    record: ProducerRecord
    """The record that Kafka refuses."""

    pause_s: float
    retry_s: float
    """When to try the record again (monotonic seconds)."""

    awaits_topic: bool
    """Whether the topic of the record does not exist, so that there is nothing to try."""

    output: bool
    """Whether a handler has named the topic of the record."""

    paused: bool = True
    """Whether the partition is not read. It is read again once Kafka accepts the record."""

    def is_judged_by(self, error: WriteRefusedError) -> bool:
        """Whether the cause outside the record is gone, and a refusal that may be its own fault has taken its place.

        The partition goes on then, and the next write decides about the record. That a topic is missing may be the
        fault of an output.
        """
        known = RefusalCause(self.label.cause)
        missing = self.output and any(each.cause is RefusalCause.MISSING for each in error.refused)
        return known.outside and (not error.outside or (missing and known is not RefusalCause.MISSING))


class HaltedPartitions:
    """The halted partitions of a process. Only its polling thread uses them.

    After growing pauses the refused record alone is tried again, so that a refusal aborts nothing else. Once Kafka
    accepts it, or refuses it for what it is and no longer for a cause outside it, the partition is read again from its
    committed offset.
    """

    def __init__(self) -> None:
        """Start without halted partitions."""
        self._halted: dict[Partition, HaltedPartition] = {}
        self._trial: HaltedPartition | None = None
        self._began_s = 0.0
        """When the last trial began (monotonic seconds)."""

        self._rest_until_s = 0.0
        self._was_trial = False
        """Whether the last turn was that of a trial."""

        self.paused: frozenset[Partition] = frozenset()
        """The partitions that are not read."""

    @property
    def trying(self) -> bool:
        """Whether a trial is under way, so that the writer is busy."""
        return self._trial is not None

    def halt(
        self,
        partition: Partition,
        offset: int,
        record: ProducerRecord,
        refused: RefusedRecord,
        *,
        awaits_topic: bool = False,
        output: bool = False,
    ) -> str:
        """Halt a partition, and return what is wrong and how to fix it.

        Args:
            partition: the partition.
            offset: the offset of its record that cannot be finished.
            record: the record that Kafka refuses for it.
            refused: the refusal.
            awaits_topic: whether the record is not tried again, but :meth:`resume_existing` ends the pause.
            output: whether a handler has named the topic of the record.
        """
        before = self._halted.get(partition)
        fix = _FIXES[refused.cause].format(topic=record.topic)
        problem = (
            f"{partition} is halted at offset {offset}: Kafka refuses a record for "
            f"{record.topic}: {refused.reason}; {fix}"
        )
        if before is not None and before.paused:
            return before.problem  # another record of the same write
        pause_s = _FIRST_PAUSE_S if before is None else min(2 * before.pause_s, _LONGEST_PAUSE_S)
        label = HaltLabel(record.topic, str(refused.cause))
        self._halted[partition] = HaltedPartition(
            partition, offset, label, problem, record, pause_s, monotonic_s() + pause_s, awaits_topic, output
        )
        self._set_paused()
        _log.error("%s; the partition is tried again by itself", problem)
        return problem

    def begin_trial(self, writer: BackgroundWriter, *, write_waits: bool) -> bool:
        """Begin to try the record of a halted partition that is due, if there is one. No write may be under way.

        Trials and the writes of other partitions take turns, because there may be many halted partitions.

        Args:
            writer: the writer.
            write_waits: whether there is something else to write now.

        Returns:
            Whether a trial has begun.
        """
        due, now_s = None, monotonic_s()
        if now_s >= self._rest_until_s and not (write_waits and self._was_trial):
            waiting = (each for each in self._halted.values() if each.paused and not each.awaits_topic)
            due = min(waiting, key=lambda each: each.retry_s, default=None)
        self._was_trial = due is not None and due.retry_s <= now_s
        if due is not None and self._was_trial:
            writer.begin_trial(due.record, due.pause_s)
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
            self._rest_until_s = now_s + min(_REST_FACTOR * (now_s - self._began_s), _LONGEST_PAUSE_S)
            self._postpone(trial, str(error))
            return None
        except WriteRefusedError as error:
            if not trial.is_judged_by(error):
                self._postpone(trial, str(error))
                return None
        finally:
            if not writer.busy:
                self._trial = None
        if self._halted.get(trial.partition) is not trial:
            return None
        self._resume(trial)
        return trial.partition

    def resume_existing(self, topics: Collection[str]) -> list[Partition]:
        """Return the partitions that waited for one of these topics, and are to be read from their committed offset."""
        found = [each for each in self._halted.values() if each.paused and each.awaits_topic]
        found = [each for each in found if each.record.topic in topics]
        for each in found:
            self._resume(each)
        return [each.partition for each in found]

    def confirm(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """End the halts whose record is finished by a confirmed write."""
        if self._halted:
            for partition, checkpoint in checkpoints.items():
                halted = self._halted.get(partition)
                if halted is not None and checkpoint.offset > halted.offset:
                    del self._halted[partition]

    def forget(self, partition: Partition) -> None:
        """Drop a partition that is no longer owned."""
        if self._halted.pop(partition, None) is not None:
            self._set_paused()

    def report(
        self, observer: ProcessObserver, health: Health, others: Mapping[HaltLabel, int] = MappingProxyType({})
    ) -> None:
        """Report the halted partitions to the metrics and to the readiness probe.

        Args:
            observer: gets their number, and that of the others.
            health: gets their problems.
            others: partitions that are halted for other causes.
        """
        halted = self._halted.values()
        observer.halted_partitions(Counter(others) + Counter(each.label for each in halted))
        problems = [each.problem for each in halted][:_MAX_LISTED]
        more = len(halted) - len(problems)
        health.note("halted", "\n".join([*problems, *([f"and {more} more partitions are halted"] if more else [])]))

    def _resume(self, halted: HaltedPartition) -> None:
        halted.paused = False
        self._set_paused()
        _log.info("%s-%d goes on: what halted it is gone", *halted.partition)

    def _postpone(self, trial: HaltedPartition, cause: str) -> None:
        """Wait longer, also with the partitions for which the same topic, or its partition, refuses any record."""
        _log.warning("%s-%d stays halted: %s", *trial.partition, cause)
        same_topic = trial.label.cause != RefusalCause.TOO_LARGE
        offline = trial.label.cause == RefusalCause.OFFLINE
        for each in self._halted.values():
            alike = each.label == trial.label and not (offline and each.record.partition != trial.record.partition)
            if each is trial or (same_topic and each.paused and alike):
                each.pause_s = min(2 * each.pause_s, _LONGEST_PAUSE_S)
                each.retry_s = monotonic_s() + each.pause_s

    def _set_paused(self) -> None:
        self.paused = frozenset(partition for partition, each in self._halted.items() if each.paused)
