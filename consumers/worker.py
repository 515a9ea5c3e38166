"""The worker: polls, hands out, decides, has it written. The polling thread never runs a handler or a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from queue import Empty

from consumers.clock import monotonic_s
from consumers.committer import LINGER_S
from consumers.errors import HaltedError
from consumers.intake import Intake
from consumers.notes import Notes
from consumers.parts import Parts
from consumers.processor import SLICE_S, deadline_passed
from consumers.standing import Standing
from consumers.unacknowledged import Unacknowledged
from consumers.unit import Assigned, Unit
from topology.decision import Failure, FailureKind
from topology.settings import Ordering
from transport.protocols import Message, Partition
from transport.queue_wait import next_of

_IDLE_S = 0.2
_BUSY_S = 0.002
_CLOSING_S = 3.0
"""What the last steps of a shutdown need of its time."""

_DIED = Failure(FailureKind.CLOSED, "ClientDied", "the worker died while this record, and nothing else, was handled")


class Worker:
    """Every method runs on the polling thread, except :meth:`stop`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._reader = parts.reader
        self._committer = parts.committer
        self._assignment = parts.assignment
        self._lanes = parts.lanes
        self._slots = parts.slots
        self._limits = parts.limits
        in_order = parts.handler.ordering is Ordering.PARTITION and not parts.mode.by_handler
        self._intake = Intake(parts.reader, parts.assignment, parts.lanes, parts.limits, in_order=in_order)
        timeout = parts.acknowledgement.timeout
        timeout_s = None if timeout is None else timeout.total_seconds()
        self._unacknowledged = Unacknowledged(parts.sessions, parts.lanes, parts.assignment.lineage, timeout_s)
        self._notes = Notes(parts.lanes, self._deliveries, parts.limits.batch_records)
        self._observer = parts.observer
        self._health = parts.health
        self._under_way: set[Unit] = set()
        self._stuck: set[Unit] = set()
        self._leaving: frozenset[Partition] = frozenset()
        self._stopping = False
        self._standing = Standing(parts.reader, parts.assignment, parts.observer, parts.health)
        self._blocking = not parts.handler.non_blocking_redelivery
        deadline = parts.handler.deadline
        self._deadline_s = None if deadline is None else deadline.total_seconds()

    def stop(self) -> None:
        """Ask for an orderly end. Safe in a signal handler and from any thread."""
        self._stopping = True
        # Before Python 3.13 a wait that a signal interrupts past its time-out goes on for ever: end it.
        self._parts.done.put(None)

    def run(self) -> None:
        """Work until :meth:`stop` is called.

        Raises:
            HaltedError: going on would lose a record, or no slot is free for good.
            TransportError: Kafka is gone for good, or this worker has been replaced.
        """
        try:
            self._reader.subscribe(self._assignment.topics, self)
            while not self._stopping:
                self._turn()
        finally:
            self._shut_down()

    # One turn: fetch, hand out, collect, see to the writes.

    def _turn(self) -> None:
        self._health.turned()
        self._take(self._fetch())
        self._note_deaths()
        self._hand_out()
        self._collect(_BUSY_S if self._under_way or self._committer.writing or self._committer.batch.size else 0.0)
        self._settle()
        self._hear()
        more = bool(self._under_way or self._lanes.waiting)
        if self._committer.ripe(more_to_come=more) or self._first_position() or self._note_wanted():
            self._begin()
        self._watch_deadlines()
        self._split_slow()
        self._standing.tell(self._under_way, len(self._unacknowledged))

    def _fetch(self) -> list[Message]:
        """Fetch what there is room for. Waits for records only when nothing else could happen."""
        busy = self._under_way or self._lanes.ready or self._committer.writing
        most_s = self._committer.due_in_s(self._unacknowledged.look_s(_IDLE_S))
        idle_s = 0.0 if busy else self._notes.due_in_s(self._lanes.due_in_s(most_s))
        return self._intake.fetch(self._committer.bytes, idle_s)

    def _take(self, messages: list[Message]) -> None:
        verdicts = self._parts.verdicts
        for assigned, records in self._assignment.take(messages):
            if verdicts:
                judged = [record for record in records if (assigned.partition, record.offset()) in verdicts]
                for record in judged:
                    failure = verdicts[assigned.partition, record.offset()]
                    self._committer.batch.settle(assigned, record, self._assignment.lineage(assigned, record), failure)
                in_place = [record for _, record in self._committer.batch.in_place]
                self._committer.batch.in_place.clear()
                self._lanes.add(assigned, [r for r in records if r not in judged or r in in_place])
            else:
                self._lanes.add(assigned, records)
        self._intake.keep_within_metadata()

    def _note_deaths(self) -> None:
        """A record that a worker has died of had one more delivery. It may have been its last."""
        for assigned, record in self._notes.deaths():
            lineage = self._assignment.lineage(assigned, record)
            with self._nothing_after_an_error():
                before = lineage.delivered(max(0, lineage.deliveries - 1))
                self._committer.batch.settle(assigned, record, before, _DIED)
                self._hold()

    def _hold(self) -> None:
        """What waits in place is queued again where it was."""
        in_place = self._committer.batch.in_place
        while in_place:
            self._lanes.hold(*in_place.pop())

    def _deliveries(self, assigned: Assigned, record: Message) -> int:
        return self._assignment.lineage(assigned, record).deliveries

    @property
    def _usable(self) -> int:
        return self._slots.capacity - len(self._stuck)

    @property
    def _idle(self) -> bool:
        """Whether nothing is in a slot, and nothing could be."""
        return not (self._under_way or self._lanes.ready)

    def _note_wanted(self) -> bool:
        free = self._usable - len(self._under_way)
        return not self._committer.writing and self._notes.wanted(idle=self._idle, free_slots=free)

    def _hand_out(self) -> None:
        """Keep every slot busy, and some units in line, so that no slot waits for this thread."""
        if self._committer.halting:
            return
        usable = self._usable
        if self._notes.exclusive:
            unit = self._notes.next_alone() if usable > 0 else None
            if unit is not None:
                self._under_way.add(unit)
                self._slots.submit(unit)
            return
        while len(self._under_way) < usable + min(usable, self._lanes.in_line):
            unit = self._lanes.next_unit()
            if unit is None:
                return
            self._under_way.add(unit)
            self._slots.submit(unit)

    def _collect(self, timeout_s: float) -> None:
        """Take over what the slots have finished, up to one batch; wait so long for something to happen."""
        if self._committer.full:
            self._settle(timeout_s)  # nothing can be taken before the write ends
            return
        done = self._parts.done
        try:
            unit = next_of(done, timeout_s)
            while True:
                if unit is not None:
                    self._take_back(unit)
                if self._committer.full:
                    return
                unit = done.get_nowait()
        except Empty:
            return

    def _take_back(self, unit: Unit) -> None:
        if unit in self._stuck:
            self._stuck.discard(unit)  # it came back after its deadline: only the slot is free again
            self._unacknowledged.void(unit)
            return
        self._under_way.discard(unit)
        self._notes.returned(unit)
        unit = unit.without_taken()
        self._lanes.put_back(unit)
        if unit.lane.assigned.closed:
            self._unacknowledged.void(unit)
        elif unit.position:
            self._add(unit)

    def _add(self, unit: Unit) -> None:
        with self._nothing_after_an_error():
            self._committer.batch.add(unit)
            self._unacknowledged.keep(unit)
            self._hold()

    def _hear(self) -> None:
        """Take over what handlers said of records that they had left unacknowledged."""
        with self._nothing_after_an_error():
            self._unacknowledged.hear(self._committer.batch)

    def _split_slow(self) -> None:
        """What is done beside a slow call is written, and what is not begun goes to other slots."""
        limit = monotonic_s() - SLICE_S
        for unit in self._under_way:
            if self._committer.full:
                return  # nothing can be added before the write under way ends
            if self._blocking and unit.failures:
                continue  # it is on its way back, and what follows waits for the record that failed
            done = self._lanes.split(unit, limit)
            if done is not None and done.position:
                self._add(done)

    def _first_position(self) -> bool:
        """Whether where a partition is read from for the first time is to be committed, though nothing of it ended."""
        return not (self._committer.writing or self._committer.batch.size) and bool(self._assignment.dirty())

    def _settle(self, within_s: float | None = 0.0) -> None:
        """See to the end of the write under way; ``None`` waits for it."""
        writing = self._committer.writing
        with self._nothing_after_an_error():
            refused = self._committer.settle(within_s)
        if refused is not None:
            self._assignment.halt(assigned.partition for assigned in refused)
            self._rewind()
        elif writing and not self._committer.writing:
            self._notes.confirmed()

    def _begin(self) -> None:
        with self._nothing_after_an_error():
            last = bool(self._committer.batch.halts)  # nothing more is handed out
            if last:
                self._notes.leave(self._assignment.all())
            noted = [] if last else self._notes.prepare(idle=self._idle)
            self._committer.begin([*self._assignment.dirty(), *noted])

    @contextmanager
    def _nothing_after_an_error(self) -> Iterator[None]:
        """What was to be written is finished in our books, or half of it, and nowhere else: nothing may commit it."""
        try:
            yield
        except BaseException:
            self._committer.discard()
            self._forget([assigned.partition for assigned in self._assignment.all()])
            raise

    def _write(self) -> None:
        """Write whatever is left, and wait for it."""
        self._settle(None)
        self._hear()
        self._begin()
        self._settle(None)

    def _rewind(self) -> None:
        """Go back to what is committed, whatever that is. No write may be under way."""
        self._committer.discard()
        self._notes.drop()
        for assigned in self._assignment.all():
            self._lanes.close(assigned)
            self._unacknowledged.forget(assigned)
        for assigned in self._assignment.reopen(leaving=self._leaving):
            self._lanes.open(assigned)
            self._reader.seek(assigned.partition, assigned.progress.next_offset)

    # Deadlines.

    def _watch_deadlines(self) -> None:
        """Give up calls that take too long; an asynchronous one cancels itself before."""
        if self._deadline_s is None:
            return
        limit = monotonic_s() - self._deadline_s - LINGER_S
        for unit in list(self._under_way):
            late = unit.abandon(limit)
            if late is not None:
                self._give_up(unit, late)

    def _give_up(self, unit: Unit, late: Unit) -> None:
        """Take ``late`` back instead of an abandoned unit, whose slot stays taken until the handler returns."""
        self._under_way.discard(unit)
        self._notes.returned(unit)
        self._stuck.add(unit)
        assigned = unit.lane.assigned
        if not assigned.closed:
            late.failures.append((late.position, deadline_passed(self._deadline_s)))
            late.position += 1
        self._lanes.put_back(late)
        if not assigned.closed:
            self._add(late)
        if len(self._stuck) >= self._slots.capacity:
            self._write()
            raise HaltedError(
                f"none of {self._slots.capacity} slots is free: each holds a handler that did not return within "
                f"{self._deadline_s:g} s; give its calls a time-out of their own, or raise handler.deadline or slots"
            )

    # The assignment changes: called from within fetch() and close() of the reader.

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`transport.protocols.Listener`."""
        starts = {}
        for assigned in self._assignment.open(partitions):
            self._lanes.open(assigned)
            self._committer.forget(assigned)
            starts[assigned.partition] = assigned.progress.next_offset
        self._observer.rebalanced("assigned")
        self._health.joined()
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """Finish or abandon what is being handled of these, commit, forget them."""
        self._leaving = frozenset(partitions)
        try:
            leaving = self._assignment.find(self._leaving)
            self._settle(None)
            self._finish(self._assignment.find(self._leaving), self._limits.rebalance_timeout.total_seconds())
            self._write_last(leaving)
        finally:
            self._forget(self._leaving)
            self._leaving = frozenset()
        self._observer.rebalanced("revoked")

    def lost(self, partitions: Iterable[Partition]) -> None:
        """Forget these; whatever is still being handled of them, or waits to be written, is void."""
        self._health.left()
        self._leaving = frozenset(partitions)
        try:
            self._settle(None)
        finally:
            self._forget(self._leaving)
            self._leaving = frozenset()
        if self._committer.batch.size:
            # Its copies would be written without an offset, so not even the fence of the group would stop them.
            self._rewind()
        self._observer.rebalanced("lost")

    def _finish(self, leaving: list[Assigned], timeout_s: float) -> None:
        """Start nothing more of these, and wait for what is under way."""
        end = monotonic_s() + timeout_s
        while True:
            for assigned in leaving:
                self._lanes.close(assigned)  # what comes back unhandled waits no more, either
            waited_for = [unit for unit in self._under_way if unit.lane.assigned in leaving]
            for unit in waited_for:
                unit.stop = True
            left = end - monotonic_s()
            if not waited_for or left <= 0:
                return
            self._collect(min(left, _BUSY_S))
            if self._committer.full:
                self._write()
            self._watch_deadlines()

    def _write_last(self, leaving: list[Assigned]) -> None:
        """Write what is left, and that nothing of these is in a handler any more: that once more if it is undone."""
        self._notes.leave(leaving)
        self._write()
        undone = [assigned.partition for assigned in leaving if assigned.closed]
        if undone and self._lanes.noting:
            self._notes.leave(self._assignment.open(undone))
            self._write()

    def _forget(self, leaving: Iterable[Partition]) -> None:
        leaving = list(leaving)
        for assigned in self._assignment.find(leaving):
            self._lanes.close(assigned)
            self._unacknowledged.forget(assigned)
            self._notes.forget(assigned)
            self._committer.forget(assigned)
        for place in leaving:
            self._assignment.close(place)
            self._intake.forget(place)

    # The end.

    def _shut_down(self) -> None:
        """A step that fails does not keep the later ones from being tried. They run from last to first."""
        self._health.stopping()
        timeout_s = self._limits.shutdown_timeout.total_seconds()
        with ExitStack() as steps:
            steps.callback(self._committer.close)  # 4. the producer
            steps.callback(self._slots.close, 1.0)  # 3. the slots; what still runs is left behind
            steps.callback(self._reader.close)  # 2. give the partitions back, leave the group
            steps.callback(self._finish_all, max(0.0, timeout_s - _CLOSING_S))  # 1. finish or abandon, commit

    def _finish_all(self, timeout_s: float) -> None:
        self._settle(None)
        owned = self._assignment.all()
        self._finish(owned, timeout_s)
        self._write_last(owned)
        self._forget([assigned.partition for assigned in owned])
