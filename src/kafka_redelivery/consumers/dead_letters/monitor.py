"""Monitors the dead-letter topics and partitions without an owner, for metrics only.

The monitor runs on its own thread in a scheduler process, because this work is too slow for the scheduler's loop.
The schedulers of a group divide the dead-letter partitions by :meth:`Scheduler.share`, so one of them counts each dead
letter. A consumer without a group reads each record once; the monitor looks at its headers, never at its value.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from kafka_redelivery.consumers.clock import Clock, monotonic_s, thread_cpu_s
from kafka_redelivery.consumers.dead_letters.counter import DeadLetterCounter
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import DeadLetterCounts, DeadLetterObserver, HaltLabel
from kafka_redelivery.topology.cluster.facts import TopicFacts
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.clients.assigned_reader import AssignedReader
from kafka_redelivery.transport.errors import ReaderError, TopicForbiddenError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_REFRESH_S = 10.0
"""Interval at which topics and owners are looked up."""

_QUICK_REFRESH_S = 2.0
"""The same while a partition has no owner, or after the share has changed."""

_REPORT_S = 2.0
_REPORT_FACTOR = 20.0
"""Minimum time between two reports, as a multiple of the processor time of a report."""

_POLL_S = 0.5
_BATCH = 250
"""Records per fetch: a few milliseconds, the time that the scheduler's thread may have to wait for this one."""

_IDLE_FACTOR = 2.0
"""Idle time as a multiple of the processor time used: counting takes at most a third of one processor."""

_RESTART_S = 30.0
"""Time between an error and the restart."""

_NOTE = "dead letters"
"""The subject of the note in the readiness probe."""

_MANY_UNREAD = 50_000
"""Number of uncounted dead letters above which the log reports them."""


class PartitionShare(NamedTuple):
    """The partitions that one scheduler counts, the same in every topic."""

    numbers: frozenset[int]
    modulus: int

    @classmethod
    def of(cls, topic: str, count: int, owned: Iterable[Partition]) -> PartitionShare:
        """Return the share of a process that owns these partitions of a topic; without a topic it has everything."""
        if not topic:
            return cls(frozenset({0}), 1)
        return cls(frozenset(partition.number for partition in owned if partition.topic == topic), count)

    def has(self, partition: int) -> bool:
        """Whether the partition with this number belongs to the share."""
        return partition % self.modulus in self.numbers


class DeadLetterMonitor:
    """Counts the dead letters of a share of the partitions. Used by one thread.

    A partition that cannot be read is left out and tried again. It counts as halted and appears in the readiness probe.
    """

    def __init__(
        self,
        settings: Settings,
        observer: DeadLetterObserver,
        health: Health,
        share: Callable[[], PartitionShare],
        tiers: Callable[[], Iterable[str]],
        clock: Clock,
    ) -> None:
        """Create the monitor; :meth:`run` opens its clients.

        Args:
            settings: the configuration.
            observer: receives the counts.
            health: receives what is wrong with partitions that cannot be read.
            share: returns the current share of this scheduler.
            tiers: returns the tiers that the schedulers read, the mixed topic included.
            clock: epoch ms.
        """
        self._settings = settings
        self._observer = observer
        self._health = health
        self._share = share
        self._tiers = tiers
        self._clock = clock
        self._counter = DeadLetterCounter(settings)
        self._topics: dict[str, TopicFacts] = {}
        self._unowned: dict[str, int] = {}
        self._catching_up = False
        self._current_share: PartitionShare | None = None
        self._names = sweep_plan(settings).topics

    def run(self, ended: threading.Event) -> None:
        """Count and report until the event is set.

        Raises:
            TransportError: Kafka does not answer, or denies access.
        """
        kafka = self._settings.kafka
        admin, members = ClusterAdmin(kafka), GroupMembers(kafka)
        reader = AssignedReader(kafka, scheduler_group(self._settings.group), endures=True)
        refreshed_s = -_REFRESH_S
        next_report_s = 0.0
        try:
            while not ended.is_set():
                if self._is_stale(monotonic_s() - refreshed_s):
                    self._refresh(admin, members, reader)
                    refreshed_s = monotonic_s()
                started_s = thread_cpu_s()
                self._counter.add(reader.fetch(_BATCH, _POLL_S))
                ended.wait((thread_cpu_s() - started_s) * _IDLE_FACTOR)
                if monotonic_s() >= next_report_s:
                    started_s = thread_cpu_s()
                    self._report(reader)
                    next_report_s = monotonic_s() + max(_REPORT_S, (thread_cpu_s() - started_s) * _REPORT_FACTOR)
        finally:
            reader.close()

    def _is_stale(self, age_s: float) -> bool:
        if self._share() != self._current_share or any(self._unowned.values()):
            return age_s >= _QUICK_REFRESH_S
        return age_s >= _REFRESH_S

    def _refresh(self, admin: ClusterAdmin, members: GroupMembers, reader: AssignedReader) -> None:
        """Look up topics and owners, assign this scheduler's share, and report partitions without an owner."""
        naming = self._settings.naming()
        share = self._current_share = self._share()
        sources = [source.topic for source in self._settings.sources]
        ready = [naming.ready_topic(source) for source in sources]
        tiers = self._tiers()
        found = admin.topic_facts([*self._names, *sources, *ready, *tiers], self._names)
        self._topics = {name: found[name] for name in self._names if name in found}
        wanted = [
            Partition(name, number)
            for name, topic in self._topics.items()
            for number in range(topic.partitions)
            if share.has(number)
        ]
        reader.assign(self._counter.assign(self._topics, wanted))
        for group, topics in ((self._settings.group, sources + ready), (scheduler_group(self._settings.group), tiers)):
            partitions = {name: found[name].partitions for name in topics if name in found}
            self._unowned = {name: number for name, number in self._unowned.items() if name in found}
            # During a rebalance there is no answer, and the previous numbers stay.
            self._unowned.update(members.unowned(group, partitions) or {})
        self._observer.unowned_partitions(dict(self._unowned))

    def _report(self, reader: AssignedReader) -> None:
        unread = {
            Partition(name, number): reader.lag(Partition(name, number), bounds.end)
            for name, topic in self._topics.items()
            for number, bounds in topic.bounds.items()
            if self._current_share is not None and self._current_share.has(number)
        }
        counts = self._counter.counts(self._clock(), unread)
        self._observer.dead_letter_counts(replace(counts, halted=Counter(map(_label, reader.errors.items()))))
        problems = sorted({str(error) for error in reader.errors.values()})
        self._health.note(_NOTE, "\n".join(f"{problem}; its dead letters are not counted" for problem in problems))
        left = sum(unread.values())
        if left > _MANY_UNREAD:
            self._catching_up = True
            _log.info("%d dead letters are not counted yet", left)
        elif self._catching_up and not left:
            self._catching_up = False
            _log.info("all dead letters are counted")


def _label(halted: tuple[Partition, ReaderError]) -> HaltLabel:
    partition, error = halted
    return HaltLabel(partition.topic, "forbidden" if isinstance(error, TopicForbiddenError) else "unfetchable")


def dead_letter_monitor(
    settings: Settings,
    observer: DeadLetterObserver,
    health: Health,
    share: Callable[[], PartitionShare],
    tiers: Callable[[], Iterable[str]],
    clock: Clock,
) -> AbstractContextManager[None]:
    """Run a monitor in a thread while the block runs, if a metrics endpoint is configured.

    After an error the monitor restarts from the beginning; until then its metrics are absent rather than outdated.
    """
    if settings.metrics.port is None:
        return nullcontext()

    def clear_metrics() -> None:
        observer.dead_letter_counts(DeadLetterCounts())
        observer.unowned_partitions({})
        health.note(_NOTE, "")

    return background_thread(
        "dead-letters",
        lambda ended: DeadLetterMonitor(settings, observer, health, share, tiers, clock).run(ended),
        "dead letters are not counted",
        restart_s=_RESTART_S,
        on_error=clear_metrics,
    )
