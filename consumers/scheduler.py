"""The delay scheduler: releases what is due. Kafka is its only store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from consumers.audits import Audits
from consumers.clock import Clock, monotonic_s
from consumers.errors import HaltedError
from consumers.health import Health
from consumers.lead import Lead
from consumers.observer import Observer, Released, TierBacklog
from consumers.patience import Patience
from consumers.release import Release, Releaser
from consumers.tier import Tier
from topology.progress import Checkpoint, Progress
from topology.progress_metadata import HOLE_BITS
from topology.settings import Settings
from topology.tiers import SMALLEST_RUNG_MS, TierSet
from transport.errors import MissingOffsetError, WriteRefusedError, WriteUndoneError
from transport.protocols import BackgroundWriter, Due, Message, Partition, Source, Written

_log = logging.getLogger(__name__)

_PART = 2
"""Half a worker's buffer: what waits is in Kafka, only what leaves soon needs to be here."""

_LONGEST_WAIT_S = 0.2
_BUSY_S = 0.005
"""How long a write under way keeps the scheduler from fetching."""

_EVERY_S = 1.0
_REFRESH_S = 30.0
_SET_BACK_MS = 500
"""A clock that is merely adjusted slews by far less between two turns."""


class _UnderWay(NamedTuple):
    """What a write is made of."""

    release: Release
    checkpoints: Mapping[Partition, Checkpoint]
    held: bool
    """Whether it was begun before its records leave."""


class Share(NamedTuple):
    """A scheduler's part of what is to be done once for the whole group."""

    numbers: frozenset[int]
    parts: int
    """Into so many parts the work is divided."""

    def has(self, partition: int) -> bool:
        """Whether a partition of any topic belongs to it."""
        return partition % self.parts in self.numbers


class Scheduler:
    """Releases due records of the tiers that the consumer group gives it. One thread.

    A record leaves a tier when its append time there plus the tier's delay is reached, or when it is
    due, if that is sooner. It goes into its ready topic if nothing remains, else into a lower tier.

    A write is begun a little before its records leave: no reader sees them before that time, and all that
    can be done without being seen is done by then (see :class:`consumers.lead.Lead`).
    """

    def __init__(
        self,
        settings: Settings,
        reader: Source,
        writer: BackgroundWriter,
        observer: Observer,
        clock: Clock,
        lead: Lead | None = None,
        health: Health | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._observer = observer
        self._clock = clock
        self._settings = settings
        self._naming = settings.naming()
        self._delays: dict[str, int] = {}
        self._tiers: dict[Partition, Tier] = {}
        self._full: set[Partition] = set()
        self._refusals: dict[tuple[Partition, int], str] = {}
        self._stopping = False
        self._patience = Patience()
        self._lead = lead or Lead()
        self._health = health or Health()
        self._written: _UnderWay | None = None
        self._told_s = self._refreshed_s = 0.0
        self._ahead_ms: int | None = None
        """The wall clock minus the monotonic one, at the last turn."""

        self._releaser: Releaser
        self._audits = Audits(settings.entries())
        self._first = ("", 1)

    def stop(self) -> None:
        """Ask for an orderly end. Safe in a signal handler and from any thread."""
        self._stopping = True

    def share(self) -> Share:
        """Which part of what all schedulers of the group do together is this one's. Safe from any thread.

        Whoever owns a partition of the first tier, by name, has the share of that number: Kafka sees to it that nobody
        else does. A group without tiers has nothing to share.
        """
        first, count = self._first
        if not first:
            return Share(frozenset({0}), 1)
        return Share(frozenset(place.number for place in list(self._tiers) if place.topic == first), count)

    def run(self) -> None:
        """Release until :meth:`stop` is called.

        Raises:
            HaltedError: writes are refused or undone again and again.
            TransportError: Kafka is gone for good, or this scheduler has been replaced.
        """
        try:
            self._refresh()
            while not self._stopping:
                self._turn()
        finally:
            self._health.stopping()
            try:
                self._reader.close()
            finally:
                self._writer.close()

    def _turn(self) -> None:
        self._health.turned()
        self._watch_clock()
        self._settle(_BUSY_S)
        self._release_due()
        self._take(self._reader.fetch(self._settings.limits.batch_records, 0.0 if self._written else self._wait_s()))
        self._keep_room()
        now = monotonic_s()
        if now - self._told_s >= _EVERY_S:
            self._told_s = now
            self._observer.backlog(self._backlog())
        if now - self._refreshed_s >= _REFRESH_S:
            self._refresh()

    def _watch_clock(self) -> None:
        """When records leave is told by the wall clock; if that is set back they must not wait for it to catch up."""
        now = self._clock()
        ahead_ms = now - round(monotonic_s() * 1000)
        if self._ahead_ms is not None and ahead_ms < self._ahead_ms - _SET_BACK_MS:
            _log.warning("the clock was set back by %d ms", self._ahead_ms - ahead_ms)
            for tier in self._tiers.values():
                tier.clock_set_back(now)
        self._ahead_ms = ahead_ms

    def _wait_s(self) -> float:
        """Until a write has to begin for the earliest record of any partition; a new one wakes us sooner."""
        leaving = [at for tier in self._tiers.values() if (at := tier.next_ms) is not None]
        if not leaving:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0, min(leaving) - self._lead.ms - self._clock()) / 1000)

    def _refresh(self) -> None:
        """Read every tier of the group that exists, configured or not: what waits there must come out."""
        self._refreshed_s = monotonic_s()
        partitions = self._reader.partition_counts()
        delays = self._naming.tiers_among(partitions)
        tiers = TierSet(tuple(sorted(delays.values())), mixed=self._naming.mixed_topic() in partitions)
        if tiers.mixed:
            delays[self._naming.mixed_topic()] = SMALLEST_RUNG_MS
        self._releaser = Releaser(self._settings, tiers, partitions, self._audits)
        self._first = next(((topic, partitions[topic]) for topic in sorted(delays)), ("", 1))
        if delays != self._delays:
            self._delays = delays
            self._reader.subscribe(sorted(delays), self)
        elif not delays:
            self._health.joined()  # every delay is 0: there is nothing to wait for

    def _take(self, messages: list[Message]) -> None:
        if not messages:
            return
        now = self._clock()
        again: dict[Partition, int] = {}
        for message in messages:
            place = Partition(message.topic(), message.partition())
            tier = self._tiers.get(place)
            if tier is not None and place not in again and not tier.add(message, now):
                again[place] = message.offset()
        for place, offset in again.items():
            self._reader.seek(place, offset)

    def _keep_room(self) -> None:
        """Pause what is full; resume it early, since the first records take a fetch to come again."""
        limits, share = self._settings.limits, max(1, len(self._tiers))
        records, size = max(1, limits.buffer_records // _PART // share), limits.buffer_bytes // _PART // share
        full = set()
        for place, tier in self._tiers.items():
            part = 2 if place in self._full else 1
            if (
                len(tier) * part >= records
                or tier.bytes * part >= size
                or not tier.noteworthy(max(limits.batch_records, HOLE_BITS + 1))
            ):
                full.add(place)
        if full != self._full:
            self._reader.pause(full - self._full)
            self._reader.resume(place for place in self._full - full if place in self._tiers)
            self._full = full

    def _release_due(self) -> None:
        """Begin to release what leaves now or while that is being written, in one write."""
        if self._written is not None:
            return
        now = self._clock()
        horizon = now + self._lead.ms
        room = self._settings.limits.batch_records
        release = Release()
        touched: dict[Partition, Tier] = {}
        leaves_ms = 0
        for place, tier in self._tiers.items():
            taken = tier.take(horizon, room)
            if taken:
                for held in taken:
                    self._releaser.add(release, place, held, now, self._refusals.get((place, held.offset)))
                tier.progress.finish([held.offset for held in taken])
                leaves_ms = max(leaves_ms, *(held.leaves_ms for held in taken))
                touched[place] = tier
                room -= len(taken)
                if room <= 0:
                    self._tiers[place] = self._tiers.pop(place)  # last in line for the next write
                    break
        if touched:
            checkpoints = {place: tier.progress.checkpoint() for place, tier in touched.items()}
            # The clock may be set back while the copies are made: no longer than it was when they were taken.
            left_ms = leaves_ms - max(now, self._clock())
            due = Due(leaves_ms, monotonic_s() + left_ms / 1000) if leaves_ms > now else None
            self._writer.begin(release.copies, checkpoints, due)
            self._written = _UnderWay(release, checkpoints, due is not None)

    def _settle(self, within_s: float | None) -> None:
        """See how the write under way ended, if it has; ``None`` waits for it."""
        if self._written is None:
            return
        release, checkpoints, held = self._written
        try:
            written = self._writer.ended(within_s)
        except WriteRefusedError as error:
            self._forget(release)
            self._refuse(release, error)
            self._undo(str(error))
        except WriteUndoneError as error:
            if not error.copied:
                self._forget(release)
            self._undo(str(error))
        else:
            if written is not None:
                if held:  # of others there is nothing that could have been done before
                    self._lead.measured(written)
                self._released(release, checkpoints, written)
        finally:
            if not self._writer.busy:
                self._written = None

    def _forget(self, release: Release) -> None:
        """Its dead letters do not exist."""
        for lineage, hop in release.noted:
            self._audits.forget((lineage,), hop)

    def _refuse(self, release: Release, error: WriteRefusedError) -> None:
        """Remember whose copies the broker refuses; they are dead-lettered when they come again."""
        for refusal in error.refusals:
            owner = release.owners[refusal.index]
            if owner in self._refusals:
                raise HaltedError(
                    f"even the dead letter of {owner[0].topic}-{owner[0].number}@{owner[1]} is refused: "
                    f"{refusal.reason}"
                ) from error
            self._refusals[owner] = refusal.reason

    def _released(self, release: Release, checkpoints: Mapping[Partition, Checkpoint], written: Written) -> None:
        self._patience.succeeded()
        for place, offset in list(self._refusals):
            if place in checkpoints and offset < checkpoints[place].offset:
                del self._refusals[place, offset]
        faults = 0
        for tier in self._tiers.values():
            faults, tier.clock_faults = faults + tier.clock_faults, 0
        now = self._clock()
        self._observer.released(
            Released(
                seconds=written.seconds,
                lateness_ms=[now - due for due in release.due_ms],
                moved=release.moved,
                clock_faults=faults,
                outcomes=release.outcomes,
                dead_letters=release.dead_letters,
                discarded=release.discarded,
            )
        )

    def _undo(self, cause: str) -> None:
        """Go back to what is committed, whatever that is."""
        self._patience.undone(cause)
        _log.warning("going back to the committed offsets: %s", cause)
        self._observer.undone(cause)
        places = list(self._tiers)
        for place, start in self._open(places).items():
            self._reader.seek(place, start)

    def _backlog(self) -> list[TierBacklog]:
        found: dict[str, TierBacklog] = {}
        for place, tier in self._tiers.items():
            pending = len(tier) + self._reader.ahead(place, tier.progress.next_offset)
            oldest = tier.oldest_ms
            before = found.get(place.topic)
            if before is not None:
                pending += before.pending
                oldest = min((age for age in (oldest, before.oldest_ms) if age is not None), default=None)
            owned = 1 if before is None else before.partitions + 1
            found[place.topic] = TierBacklog(place.topic, pending, oldest, self._delays[place.topic], owned)
        return list(found.values())

    # The assignment changes: called from within fetch() and close() of the reader. What is being written
    # is waited for, so that nobody else reads a commit that is about to change.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`transport.protocols.Listener`."""
        self._observer.rebalanced("assigned")
        starts = self._open(partitions)
        self._health.joined()
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        self._leave(partitions)
        self._observer.rebalanced("revoked")

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        self._health.left()
        self._leave(partitions)
        self._observer.rebalanced("lost")

    def _leave(self, partitions: Iterable[Partition]) -> None:
        for place in partitions:
            self._tiers.pop(place, None)
            self._full.discard(place)
        self._settle(None)

    def _open(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        starts = {}
        for place, committed in self._reader.committed(partitions).items():
            if place.topic not in self._delays:
                continue  # the tier was deleted meanwhile
            if committed is None:
                raise MissingOffsetError(
                    f"{place.topic}-{place.number} has no committed offset for {self._settings.group}.scheduler, so "
                    "what waits there could be lost or repeated; see `redelivery topology check`, mend with "
                    "`redelivery topology apply`"
                )
            progress = Progress.restore(committed.offset, committed.metadata)
            ordered = place.topic != self._naming.mixed_topic()
            self._tiers[place] = Tier(place.topic, self._delays[place.topic], progress, ordered=ordered)
            starts[place] = committed.offset
        return starts
