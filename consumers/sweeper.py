"""Removes expired dead letters when they reach the head of their partition; moves them to an expiry topic before."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Event

from consumers.clock import monotonic_s, thread_s
from consumers.observer import Observer, SweepStanding, Swept
from consumers.sweep_clock import SweepClock
from consumers.sweep_head import Head, Rest
from consumers.sweep_moves import Mover, Moves
from topology.progress import Checkpoint
from topology.sweep_plan import SweepPlan
from transport.broker_time import BrokerTime, NoTimeError
from transport.errors import MissingOffsetError, ReaderError, WriteUndoneError
from transport.protocols import Message, Partition, Writer
from transport.reader import Reader
from transport.removal import Remover

_log = logging.getLogger(__name__)

_BATCH = 250
"""A few milliseconds: so long the scheduler's own thread may have to wait for this one."""

_REST = 4.0
"""It rests so many times as long as it has worked: a fifth of one processor at most."""

_MANY = 10_000
"""So many expired dead letters of a partition are removed before the rest of them is looked at."""

_LONGEST_WAIT_S = 1.0
"""A fetch cannot be interrupted; so late the end of the process, or a change of the group, is noticed."""

_COMPARE_S = 60.0
"""So long what the brokers' clock said is good for."""

_TELL_S = 1.0
_LOG_S = 60.0
_UNDONE_S = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sweeper works with. ``writer`` is ``None`` where nothing is to be moved."""

    reader: Reader
    writer: Writer | None
    remover: Remover
    time: BrokerTime
    clock: SweepClock
    observer: Observer


class Sweeper:
    """Sweeps the partitions that the consumer group gives it. One thread.

    A partition is read from its first record on, as long as records have expired. What has been read so is removed
    with DeleteRecords; then the partition rests until its first record expires. So nothing is held in memory, and
    nothing is read twice but after an error.

    Where expired dead letters are to be moved, the copies and the offset behind them are one transaction. It
    commits first. Whoever comes after a crash finds them before the committed offset, and removes them without a copy.
    """

    def __init__(self, plan: SweepPlan, parts: Parts) -> None:
        self._plan = plan
        self._parts = parts
        self._reader = parts.reader
        self._clock = parts.clock
        self._heads: dict[Partition, Head] = {}
        self._mover = Mover(plan, parts.reader, parts.writer)
        self._compared_s: float | None = None
        self._removed: Counter[str] = Counter()
        self._told_s = self._logged_s = 0.0
        self._ended = Event()

    def run(self, ended: Event) -> None:
        """Sweep until the event is set.

        Raises:
            TransportError: it cannot go on; a new sweeper may.
        """
        try:
            self._ended = ended
            existing = self._reader.partition_counts()
            topics = [topic for topic in self._plan.topics if topic in existing]
            if not topics:
                raise ReaderError("there is no dead-letter topic; see `redelivery topology check`")
            self._reader.subscribe(topics, self)
            while not ended.is_set():
                began_s = thread_s()
                self._turn()
                ended.wait((thread_s() - began_s) * _REST)
        finally:
            try:
                self._reader.close()
            finally:
                self._mover.close()

    def _turn(self) -> None:
        self._wake_due()
        try:
            messages = self._reader.fetch(_BATCH, self._wait_s())
        except MissingOffsetError:
            _log.info("dead letters were removed by somebody else, looking again")
            self._begin_again(self._heads)
            return
        moves = self._take(messages)
        if moves.copies and not self._move(moves):
            self._ended.wait(_UNDONE_S)
            return
        for place, head in self._heads.items():
            end = self._reader.end(place)
            if end is not None:
                head.at_end(end)
        self._remove()
        self._tell()

    def _wait_s(self) -> float:
        """Until the earliest head expires; what is new in a partition without a head wakes us sooner."""
        resting = [head.wake_ms for head in self._heads.values() if head.rest is not None]
        if not resting:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0, min(resting) - self._clock.now_ms()) / 1000)

    def _wake_due(self) -> None:
        now = self._clock.now_ms()
        due = [place for place, head in self._heads.items() if head.rest is not None and head.wake_ms <= now]
        if due:
            self._begin_again(due)

    def _begin_again(self, places: Iterable[Partition]) -> None:
        """Read these from their first record on."""
        for place in list(places):
            start, _ = self._reader.bounds(place)
            self._heads[place].wake(start)
            self._reader.seek(place, start)
            self._reader.resume([place])

    def _take(self, messages: list[Message]) -> Moves:
        """Look at what was fetched; what of it is to be moved is the answer."""
        moves = Moves()
        if not messages:
            return moves
        now = self._now_ms()
        if now is None:
            self._rewind({Partition(message.topic(), message.partition()) for message in messages})
            self._ended.wait(_UNDONE_S)
            return moves
        rested: dict[Partition, Head] = {}
        for message in messages:
            place = Partition(message.topic(), message.partition())
            head = self._heads.get(place)
            if head is None or head.rest is not None:
                continue
            fate = head.take(message, now)
            if fate is not None and message.offset() >= head.moved_to:
                self._mover.add(moves, place, message, fate, now)
            elif head.rest is not None:
                rested[place] = head
        self._reader.pause(rested)
        for place, head in rested.items():
            if head.rest is Rest.OTHERS:
                _log.debug("%s-%d@%d has expired, but is another group's", *place, head.next)
        return moves

    def _now_ms(self) -> int | None:
        """The time to judge by, compared with the brokers' not long ago; ``None`` if that cannot be done now."""
        if self._compared_s is None or monotonic_s() - self._compared_s > _COMPARE_S:
            place, head = next(iter(self._heads.items()), (None, None))
            if place is None or head is None:
                return None
            try:
                told_ms = self._parts.time.ask({place: Checkpoint(head.moved_to, "")})
            except NoTimeError as error:
                _log.debug("the time cannot be had now: %s", error)
                return None
            self._compared_s = monotonic_s()
            if told_ms is not None:
                self._clock.compare(told_ms)
        return self._clock.now_ms()

    def _move(self, moves: Moves) -> bool:
        """Write the copies; false if nothing of them may be taken as done."""
        checkpoints = {place: Checkpoint(self._heads[place].clear_to, "") for place in moves.places}
        try:
            refused = self._mover.write(moves, checkpoints)
        except WriteUndoneError as error:
            _log.warning("going back to the committed offsets: %s", error)
            for place, start in self.assigned(list(self._heads)).items():
                self._reader.seek(place, start)
            self._reader.resume(self._heads)
            return False
        if refused:
            for place, (offset, reason) in refused.items():
                _log.error(
                    "the expired dead letter %s-%d@%d cannot be moved, it stays and so does what is behind it: %s",
                    *place,
                    offset,
                    reason,
                )
                self._heads[place].refuse(offset)
            self._parts.observer.swept(Swept(refused=Counter(place.topic for place in refused)))
            self._rewind(moves.places)  # what stands before those is moved at the next turn
            return False
        for place in checkpoints:
            self._heads[place].moved()
        self._parts.observer.swept(Swept(moved=moves.numbers))
        return True

    def _rewind(self, places: Iterable[Partition]) -> None:
        for place in places:
            head = self._heads.get(place)
            if head is not None:
                head.rest = None
                head.rewind(head.start)
                self._reader.seek(place, head.start)
                self._reader.resume([place])

    def _remove(self) -> None:
        """Delete what has expired, where a head was found, the end was reached, or it is much."""
        ripe = {
            place: head
            for place, head in self._heads.items()
            if head.removable
            and (head.rest is not None or head.expired >= _MANY or self._reader.end(place) == head.clear_to)
        }
        if not ripe:
            return
        failed = self._parts.remover.remove({place: head.clear_to for place, head in ripe.items()})
        removed: Counter[str] = Counter()
        for place, head in ripe.items():
            if place in failed:
                _log.error(
                    "expired dead letters of %s-%d cannot be removed, they stay and it is tried again: %s",
                    *place,
                    failed[place],
                )
                head.give_up(self._clock.now_ms())
            else:
                removed[place.topic] += head.expired
                head.removed()
        self._reader.pause(failed)
        self._removed.update(removed)
        self._parts.observer.swept(Swept(removed=removed, refused=Counter(place.topic for place in failed)))

    def _tell(self) -> None:
        now_s = monotonic_s()
        if now_s - self._told_s < _TELL_S:
            return
        self._told_s = now_s
        faults, self._clock.faults = self._clock.faults, 0
        if faults:
            self._parts.observer.swept(Swept(clock_faults=faults))
        resting = {place: head for place, head in self._heads.items() if head.rest is not None}
        heads: dict[str, int] = {}
        for place, head in resting.items():
            if head.rest is Rest.NOT_YET:
                heads[place.topic] = min(head.wake_ms, heads.get(place.topic, head.wake_ms))
        reasons = Counter((place.topic, str(head.rest)) for place, head in resting.items())
        self._parts.observer.sweep_stands(SweepStanding(heads, reasons))
        if self._removed and now_s - self._logged_s >= _LOG_S:
            self._logged_s = now_s
            for topic, number in self._removed.items():
                _log.info("removed %d expired dead letters from %s", number, topic)
            self._removed.clear()

    # The assignment changes: called from within fetch() and close() of the reader. Nothing is under way then.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`transport.protocols.Listener`."""
        starts = {}
        for place, committed in self._reader.committed(partitions).items():
            start, end = self._reader.bounds(place)
            moved_to = start if committed is None or committed.offset > end else committed.offset
            self._heads[place] = Head(self._plan.group, start, moved_to)
            starts[place] = start
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        for place in partitions:
            self._heads.pop(place, None)

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        self.revoked(partitions)
