"""Removes expired dead letters when they reach the head of their partition; moves them to an expiry topic before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from consumers.clock import monotonic_s, thread_s
from consumers.observer import Observer, SweepStanding
from consumers.sweep_clock import SweepClock
from consumers.sweep_head import Head, Rest
from consumers.sweep_moves import Mover, Moves
from consumers.sweep_tally import Tally
from topology.progress import Checkpoint
from topology.sweep_plan import SweepPlan
from transport.broker_time import BrokerTime, NoTimeError
from transport.errors import MissingOffsetError, ReaderError, TopicForbiddenError, WriteUndoneError
from transport.protocols import Message, Partition, Writer
from transport.reader import PATIENCE_S, Reader
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

_LOOK_S = 600.0
"""After so long a topic that may not be read is tried again."""

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

    def __init__(self, plan: SweepPlan, parts: Parts, batch: int = _BATCH) -> None:
        """Prepare.

        Args:
            plan: what is to be swept.
            parts: what with.
            batch: so many records are looked at in a turn, and moved in a transaction.
        """
        self._plan = plan
        self._batch = batch
        self._parts = parts
        self._reader = parts.reader
        self._clock = parts.clock
        self._heads: dict[Partition, Head] = {}
        self._mover = Mover(plan, parts.reader, parts.writer)
        self.tally = Tally(parts.observer, parts.clock)
        self._compared_s: float | None = None
        self._topics: dict[str, int] = {}
        """Those that there are, and how many partitions each has."""

        self.forbidden: dict[str, str] = {}
        """Topics that may not be read, and why."""

        self._forbidden_s = 0.0
        self._taken_over: set[Partition] = set()
        self._ended = Event()

    def run(self, ended: Event) -> None:
        """Sweep until the event is set, again and again.

        Raises:
            TransportError: it cannot go on; a new sweeper may.
        """
        with self._member(ended):
            while not ended.is_set():
                began_s = thread_s()
                self._wake_due()
                self._turn()
                ended.wait((thread_s() - began_s) * _REST)

    def once(self, ended: Event, turned: Callable[[Mapping[Partition, Head]], None]) -> Mapping[Partition, Head]:
        """Sweep each partition once, as fast as it goes; less of it if the event is set.

        Args:
            ended: ends it before its time.
            turned: told after each turn how far it is.

        Returns:
            how far each partition was swept; those that another member of the group has taken over are missing, and
            those of :attr:`forbidden` topics.

        Raises:
            TransportError: it cannot go on, or Kafka has not answered for long.
        """
        with self._member(ended):
            moved_s, before = monotonic_s(), -1
            while not ended.is_set() and not self._through():
                self._turn()
                turned(self._heads)
                now = sum(head.next + (head.rest is not None) for head in self._heads.values())
                if now != before:
                    moved_s, before = monotonic_s(), now
                elif monotonic_s() - moved_s > PATIENCE_S:
                    raise ReaderError(f"Kafka sent no dead letter for {PATIENCE_S:g} s; what was not read stays")
            return dict(self._heads)

    @contextmanager
    def _member(self, ended: Event) -> Iterator[None]:
        """A member of the group while the block runs; then everything is closed."""
        try:
            self._ended = ended
            existing = self._reader.partition_counts()
            self._topics = {topic: existing[topic] for topic in self._plan.topics if topic in existing}
            if not self._topics:
                raise ReaderError("there is no dead-letter topic; see `redelivery topology check`")
            self._reader.subscribe(list(self._topics), self)
            yield
        finally:
            try:
                self._reader.close()
            finally:
                self._mover.close()
                self._parts.observer.sweep_stands(SweepStanding())  # nothing rather than what was true before

    def _turn(self) -> None:
        try:
            messages = self._reader.fetch(self._batch, self._wait_s())
        except MissingOffsetError:
            _log.info("dead letters were removed by somebody else, looking again")
            self._begin_again(self._heads)
            return
        except TopicForbiddenError as error:
            self._do_without(error)
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
        self.tally.tell(self._heads, self.forbidden)

    def _through(self) -> bool:
        """Whether each partition rests, is read to its end, or is somebody else's by now."""
        return all(
            self._is_through(Partition(topic, number))
            for topic, count in self._topics.items()
            if topic not in self.forbidden
            for number in range(count)
        )

    def _is_through(self, place: Partition) -> bool:
        head = self._heads.get(place)
        if head is None:
            return place in self._taken_over
        return head.rest is not None or (not head.expired and self._reader.end(place) is not None)

    def _do_without(self, error: TopicForbiddenError) -> None:
        """Leave a topic alone that may not be read; what else was fetched is read again.

        Raises:
            TopicForbiddenError: there is no other.
        """
        if error.topic not in self._topics or len(self.forbidden) + 1 == len(self._topics):
            raise error
        self.forbidden[error.topic] = str(error)
        self._forbidden_s = monotonic_s()
        self.tally.forbidden(error.topic, str(error))
        self._heads = {place: head for place, head in self._heads.items() if place.topic != error.topic}
        self._reader.subscribe([topic for topic in self._topics if topic not in self.forbidden], self)
        self._begin_again(self._heads)

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
        if self.forbidden and monotonic_s() - self._forbidden_s > _LOOK_S:
            self.forbidden.clear()
            self._reader.subscribe(list(self._topics), self)

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
        numbers = moves.numbers
        checkpoints = {place: Checkpoint(self._heads[place].clear_to, "") for place in numbers}
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
                self._heads[place].refuse(offset, reason)
            self.tally.refused(
                {
                    place: f"the expired dead letter {place.topic}-{place.number}@{offset} cannot be moved, it stays "
                    f"and so does what is behind it: {reason}"
                    for place, (offset, reason) in refused.items()
                }
            )
            self._rewind(numbers)  # what stands before those is moved at the next turn
            return False
        for place in numbers:
            self._heads[place].moved()
        self.tally.moved(numbers)
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
        self.tally.removed({place: head.expired for place, head in ripe.items() if place not in failed})
        for place, head in ripe.items():
            if place in failed:
                head.give_up(self._clock.now_ms(), failed[place])
            else:
                head.removed()
        self._reader.pause(failed)
        self.tally.refused(
            {
                place: f"expired dead letters of {place.topic}-{place.number} cannot be removed, they stay and it is "
                f"tried again: {reason}"
                for place, reason in failed.items()
            }
        )

    # The assignment changes: called from within fetch() and close() of the reader. Nothing is under way then.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`transport.protocols.Listener`."""
        starts = {}
        for place, committed in self._reader.committed(partitions).items():
            start, end = self._reader.bounds(place)
            moved_to = start if committed is None or committed.offset > end else committed.offset
            self._heads[place] = Head(self._plan.group, start, moved_to)
            self._taken_over.discard(place)
            starts[place] = start
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        for place in partitions:
            self._heads.pop(place, None)
            self._taken_over.add(place)

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        self.revoked(partitions)
