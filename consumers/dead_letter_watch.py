"""Watches what no hot loop should: the dead-letter topics, and partitions that nobody has. For metrics only.

Runs on a thread of the scheduler's process. Several schedulers divide the dead-letter partitions by
:meth:`consumers.scheduler.Scheduler.share`, so each dead letter is counted by one of them. Each record is read once, by
a consumer that joins no group; its headers are looked at, its value is not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from consumers.beside import beside
from consumers.clock import Clock, monotonic_s, thread_s
from consumers.dead_letter_count import DeadLetterCount
from consumers.observer import DeadLettersKept, Observer
from consumers.scheduler import Share
from topology.facts import TopicFacts
from topology.plan import scheduler_group
from topology.settings import Settings
from topology.sweep_plan import sweep_plan
from transport.admin import ClusterAdmin
from transport.assigned_reader import AssignedReader
from transport.owners import Owners
from transport.protocols import Partition

_log = logging.getLogger(__name__)

_LOOK_S = 10.0
"""How often topics and owners are looked at."""

_SOON_S = 2.0
_TELL_S = 2.0
_TELL_SHARE = 20.0
"""It takes longer between two times of telling than telling takes, by this factor."""

_POLL_S = 0.5
_BATCH = 250
"""A few milliseconds: so long the hot loop may have to wait for this thread."""

_REST = 2.0
"""It rests so many times as long as it has worked: while it counts, a third of one processor at most."""

_AGAIN_S = 30.0
"""After an error."""

_MANY = 50_000
"""So many dead letters yet to be counted are told about in the log."""


class Watch:
    """One thread's work."""

    def __init__(self, settings: Settings, observer: Observer, share: Callable[[], Share], clock: Clock) -> None:
        """Prepare; nothing is opened yet.

        Args:
            settings: the configuration.
            observer: told what is found.
            share: which part of the partitions is ours.
            clock: epoch ms.
        """
        self._settings = settings
        self._observer = observer
        self._share = share
        self._clock = clock
        self._count = DeadLetterCount(settings)
        self._topics: dict[str, TopicFacts] = {}
        self._unowned: dict[str, int] = {}
        self._counting = False
        self._shared: Share | None = None
        self._names = sweep_plan(settings).topics

    def run(self, ended: threading.Event) -> None:
        """Watch until the event is set.

        Raises:
            TransportError: Kafka does not answer, or does not allow it.
        """
        kafka = self._settings.kafka
        admin, owners = ClusterAdmin(kafka), Owners(kafka)
        reader = AssignedReader(kafka, scheduler_group(self._settings.group))
        looked_s = -_LOOK_S
        tell_at_s = 0.0
        try:
            while not ended.is_set():
                if self._stale(monotonic_s() - looked_s):
                    self._look(admin, owners, reader)
                    looked_s = monotonic_s()
                began_s = thread_s()
                self._count.take(reader.fetch(_BATCH, _POLL_S))
                ended.wait((thread_s() - began_s) * _REST)
                if monotonic_s() >= tell_at_s:
                    began_s = thread_s()
                    self._tell(reader)
                    tell_at_s = monotonic_s() + max(_TELL_S, (thread_s() - began_s) * _TELL_SHARE)
        finally:
            reader.close()

    def _stale(self, since_s: float) -> bool:
        """Whether to look again; soon while what was seen is about to change."""
        if self._share() != self._shared or any(self._unowned.values()):
            return since_s >= _SOON_S
        return since_s >= _LOOK_S

    def _look(self, admin: ClusterAdmin, owners: Owners, reader: AssignedReader) -> None:
        naming = self._settings.naming()
        share = self._shared = self._share()
        sources = [source.topic for source in self._settings.sources]
        ready = [naming.ready_topic(source) for source in sources]
        existing = admin.topic_names()
        tiers = [*naming.tiers_among(existing), *({naming.mixed_topic()} & existing)]
        facts = admin.describe([*self._names, *sources, *ready, *tiers], dict.fromkeys(self._names, ()))
        self._topics = {name: facts.topics[name] for name in self._names if name in facts.topics}
        wanted = [
            Partition(name, number)
            for name, topic in self._topics.items()
            for number in range(topic.partitions)
            if share.has(number)
        ]
        reader.assign(self._count.watch(self._topics, wanted))
        for group, topics in ((self._settings.group, sources + ready), (scheduler_group(self._settings.group), tiers)):
            partitions = {name: facts.topics[name].partitions for name in topics if name in facts.topics}
            self._unowned = {name: number for name, number in self._unowned.items() if name in facts.topics}
            # While a rebalance goes on, what was told before stays.
            self._unowned.update(owners.unowned(group, partitions) or {})
        self._observer.unowned(dict(self._unowned))

    def _tell(self, reader: AssignedReader) -> None:
        unread = {
            Partition(name, number): reader.unread(Partition(name, number), bounds.end)
            for name, topic in self._topics.items()
            for number, bounds in topic.bounds.items()
            if self._shared is not None and self._shared.has(number)
        }
        self._observer.dead_letters_kept(self._count.kept(self._clock(), unread))
        left = sum(unread.values())
        if left > _MANY:
            self._counting = True
            _log.info("%d dead letters are yet to be counted", left)
        elif self._counting and not left:
            self._counting = False
            _log.info("all dead letters are counted")


def watching(
    settings: Settings, observer: Observer, share: Callable[[], Share], clock: Clock
) -> AbstractContextManager[None]:
    """Watch, in a thread, while the block runs, if there is an endpoint that would show it.

    After an error it begins again from the start; until then there are no figures rather than old ones.
    """
    if settings.metrics.port is None:
        return nullcontext()

    def forget() -> None:
        observer.dead_letters_kept(DeadLettersKept())
        observer.unowned({})

    return beside(
        "dead-letters",
        lambda ended: Watch(settings, observer, share, clock).run(ended),
        "dead letters are not counted",
        again_s=_AGAIN_S,
        failed=forget,
    )
