"""The worker: fetches records, hands them to slots, decides about failures and starts writes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Event

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.delivery_notes import KILLED_WORKER, DeliveryNotes
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.held_partitions import HeldPartitions
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.processor import SLICE_S, deadline_passed
from kafka_redelivery.consumers.handlers.slots import Slots
from kafka_redelivery.consumers.process.pause_watch import NoPauses, PauseView
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import ProcessObserver, WorkerObserver
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.write_cycle import WriteCycle
from kafka_redelivery.consumers.writes.committer import LINGER_S, Committer
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.transport.protocols import Message, Partition, Reader


class Pausing:
    """Applies pauses between two turns of the polling thread. Without any it does nothing.

    What is buffered of a paused partition stays in its lane, in order. Handler calls in progress end as usual.
    """

    def __init__(self, pauses: PauseView, held: HeldPartitions, lanes: Lanes) -> None:
        """Hold nothing yet.

        Args:
            pauses: what operators have paused.
            held: the partitions that wait for something that their next record needs.
            lanes: the lanes of the worker.
        """
        self._pauses = pauses
        self._held = held
        self._lanes = lanes
        self._applied = pauses.current

    def apply(self, in_flight: Iterable[WorkItem]) -> None:
        """Hold the lanes of these partitions, those assigned since the last call included.

        Args:
            in_flight: the work items in slots. A slot starts no further record of such a partition.
        """
        current = self._pauses.current
        if current or self._held or self._lanes.held:
            paused = {partition for partition, _ in self._lanes.all() if current.covers(partition.topic)}
            self._lanes.hold(paused | self._held.waiting())
            for item in in_flight:
                item.stop = item.stop or item.lane.held
        self._applied = current
        self._pauses.applied(current)

    def report(self, observer: ProcessObserver) -> None:
        """Report what operators have paused: a number for each assigned topic."""
        paused = Counter({partition.topic: 0 for partition, _ in self._lanes.all()})
        paused.update(partition.topic for partition in self._lanes.held if self._applied.covers(partition.topic))
        observer.paused(paused, self._applied.end)


_log = logging.getLogger(__name__)

_MAX_FETCH_WAIT_S = 0.2
_MAX_COLLECT_WAIT_S = 0.002
_REPORT_EVERY_S = 1.0
_CLOSING_S = 3.0
"""Part of the shutdown timeout that is kept for giving the partitions back and closing the clients."""


@dataclass(kw_only=True, eq=False)
class Worker:
    """Runs the poll loop. Every method runs on the polling thread, which runs neither handlers nor writes.

    Only :meth:`stop` may be called from other threads.
    """

    reader: Reader
    committer: Committer
    assignment: Assignment
    lanes: Lanes
    fetcher: Fetcher
    delivery_notes: DeliveryNotes
    unacknowledged: Unacknowledged
    slots: Slots
    finished: FinishedItems
    limits: LimitsSection
    observer: WorkerObserver
    health: Health = field(default_factory=Health)
    deadline: timedelta | None = None
    """How long a handler call may take before it is abandoned; ``None`` = without limit."""

    blocking: bool = False
    """Whether a record that failed waits in place, so that the records behind it wait, too."""

    pauses: PauseView = field(default_factory=NoPauses)

    def __post_init__(self) -> None:
        """Start without partitions."""
        self._in_flight: set[WorkItem] = set()
        self._abandoned: set[WorkItem] = set()
        """Work items whose handler missed its deadline and has not returned yet. Each occupies a slot."""

        self._pausing = Pausing(self.pauses, self.assignment.held, self.lanes)
        self._writes = WriteCycle(
            reader=self.reader,
            committer=self.committer,
            assignment=self.assignment,
            lanes=self.lanes,
            fetcher=self.fetcher,
            delivery_notes=self.delivery_notes,
            unacknowledged=self.unacknowledged,
            idle=lambda: self._idle,
        )
        self._stopping = False
        self._reported_s = 0.0

    @property
    def stopping(self) -> bool:
        """Whether a shutdown was requested."""
        return self._stopping

    def stop(self) -> None:
        """Request a graceful shutdown. Safe in a signal handler and from any thread."""
        self._stopping = True
        # Before Python 3.13, a wait never ends if a signal interrupts it and its time-out passes meanwhile.
        self.finished.wake()

    def run(self) -> None:
        """Work until :meth:`stop` is called.

        Raises:
            HaltedError: going on would lose a record, or every slot is occupied by a handler that does not return.
            TransportError: Kafka refuses the process before it is a member of its group, or the client itself fails.
        """
        try:
            self.reader.subscribe(self.assignment.topics, self)
            while not self._stopping:
                self._turn()
        finally:
            self._shut_down()

    def _turn(self) -> None:
        """Fetch, hand out, collect and write once."""
        self.health.turned(self.committer.write_began_s)
        self._check_clock()
        self._pausing.apply(self._in_flight)
        self._buffer(self._fetch())
        self._decide_fatal_records()
        self._hand_out()
        busy = self._in_flight or self.committer.writing or self.committer.batch.size
        self._collect(_MAX_COLLECT_WAIT_S if busy else 0.0)
        self._writes.await_end()
        self._writes.collect_dispositions()
        should_write = self._should_write()
        if not self.committer.try_halted(write_waits=should_write) and should_write:
            self._writes.begin()
        self._abandon_overdue()
        self._split_slow()
        self.fetcher.restart_moved(self._writes.forget)
        if restarted := self.assignment.to_restart():
            self._give_up(restarted)
            self.fetcher.restart(restarted)
            for assigned in self.assignment.find(restarted):
                self.committer.forget(assigned)
        self._report_state()

    def _check_clock(self) -> None:
        """Shorten waits if the wall clock was set back: records must not wait in place until it catches up."""
        if set_back_ms := self.lanes.check_clock():
            _log.warning("the clock was set back by %d ms", set_back_ms)

    def _fetch(self) -> list[Message]:
        """Fetch records for which there is room. Wait for them only if nothing else can happen meanwhile."""
        busy = self._in_flight or self.lanes.ready or self.committer.writing
        max_s = self.committer.write_due_in_s(self.unacknowledged.max_wait_s(_MAX_FETCH_WAIT_S))
        timeout_s = 0.0 if busy else self.delivery_notes.due_in_s(self.lanes.due_in_s(max_s))
        return self.fetcher.fetch(self.committer.bytes, timeout_s)

    def _buffer(self, messages: list[Message]) -> None:
        for assigned, records in self.assignment.accept(messages):
            self.lanes.add(assigned, self.committer.decide_refused(assigned, records))
        self.fetcher.finish_accepting()

    def _decide_fatal_records(self) -> None:
        """Count the delivery that killed a worker as failed. It may have used up the record's last attempt."""
        for assigned, record in self.delivery_notes.take_fatal_records():
            lineage = lineage_of(assigned, record)
            before = lineage.delivered(max(0, lineage.deliveries - 1))
            with self._writes.discard_on_error():
                self.committer.batch.add_failure(assigned, record, before, KILLED_WORKER)
                self._requeue_in_place()

    def _requeue_in_place(self) -> None:
        """Put the records that now wait in place back into their lanes."""
        in_place = self.committer.batch.in_place
        while in_place:
            self.lanes.requeue(*in_place.pop())

    @property
    def _usable_slots(self) -> int:
        return self.slots.capacity - len(self._abandoned)

    @property
    def _idle(self) -> bool:
        """Whether no record is in a slot and none could start."""
        return not (self._in_flight or self.lanes.ready)

    def _hand_out(self) -> None:
        """Submit work items to every slot, and some more so that no slot waits for this thread."""
        if self.committer.halting:
            return
        next_item = self.delivery_notes.next_isolated if self.delivery_notes.isolating else self.lanes.next_item
        usable = self._usable_slots
        while len(self._in_flight) < usable + min(usable, self.lanes.max_queued):
            item = next_item()
            if item is None:
                return
            self._in_flight.add(item)
            self.slots.submit(item)

    def _collect(self, timeout_s: float) -> None:
        """Take finished work items until the batch is full. Wait up to ``timeout_s`` for the first one."""
        if self.committer.full:
            self._writes.await_end(timeout_s)  # no outcome can be added before the write in progress ends
            if self.committer.backing_off:
                Event().wait(timeout_s)
            return
        for item in self.finished.take(timeout_s):
            self._take_finished(item)
            if self.committer.full:
                return

    def _take_finished(self, item: WorkItem) -> None:
        if item in self._abandoned:
            self._abandoned.discard(item)  # its outcome was decided at the deadline; now its slot is free again
            self.unacknowledged.void(item)
            return
        self._in_flight.discard(item)
        held, offset = item.held, item.messages[item.position].offset() if item.held else -1
        self.delivery_notes.item_returned(item)  # may take the record back
        item = item.without_taken()
        self.lanes.put_back(item)
        assigned = item.lane.assigned
        if assigned.closed:
            self.unacknowledged.void(item)
            return
        if item.position:
            self._add_outcomes(item)
        if held:
            self.assignment.held.hold(assigned.partition, offset, held)

    def _add_outcomes(self, item: WorkItem) -> None:
        if self.assignment.held:
            self.assignment.held.progressed(item.lane.assigned.partition, item.offsets())
        with self._writes.discard_on_error():
            self.committer.batch.add(item)
            self.unacknowledged.retain(item)
            self._requeue_in_place()

    def _abandon_overdue(self) -> None:
        """Abandon handler calls that exceed the deadline. Asynchronous calls are cancelled before that."""
        if self.deadline is None:
            return
        deadline_s = self.deadline.total_seconds()
        limit_s = seconds_ago(deadline_s + LINGER_S)
        for item in list(self._in_flight):
            result = item.abandon(limit_s)
            if result is not None:
                self._abandon(item, result, deadline_s)

    def _abandon(self, item: WorkItem, result: WorkItem, deadline_s: float) -> None:
        """Take ``result`` instead of ``item``, which occupies its slot until the handler returns."""
        self._in_flight.discard(item)
        self.delivery_notes.item_returned(item)
        self._abandoned.add(item)
        assigned = item.lane.assigned
        if not assigned.closed:
            result.failures.append((result.position, deadline_passed(deadline_s)))
            result.position += 1
        self.lanes.put_back(result)
        if not assigned.closed:
            self._add_outcomes(result)
        if self._usable_slots <= 0:
            self._writes.flush(self.limits.rebalance_timeout.total_seconds())
            raise HaltedError(
                f"no slot is free: the handlers in all {self.slots.capacity} did not return within {deadline_s:g} s; "
                "set timeouts for the calls that the handler makes, or raise handler.deadline or handler.slots"
            )

    def _split_slow(self) -> None:
        """Take outcomes from work items whose current call is slow, and let other slots handle the records behind."""
        limit_s = monotonic_s() - SLICE_S
        for item in self._in_flight:
            if self.committer.full:
                return  # no outcome can be added before the write in progress ends
            if self.blocking and item.failures:
                continue  # its slot returns it now, and the records behind the failed one have to wait
            done = self.lanes.split(item, limit_s)
            if done is not None and done.position:
                self._add_outcomes(done)

    def _should_write(self) -> bool:
        if self.committer.should_write(more_to_come=bool(self._in_flight or self.lanes.waiting)):
            return True
        if self.committer.writing or self.committer.backing_off:
            return False
        if self.assignment.start_due or (not self.committer.batch.size and self.assignment.commit_due()):
            return True  # commit the start offset of a new partition, or the end of an idle one
        free = self._usable_slots - len(self._in_flight)
        return self.delivery_notes.need_commit(idle=self._idle, free_slots=free)

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`RebalanceListener`; the reader calls these three methods within ``fetch`` and ``close``."""
        starts = {}
        for assigned in self.assignment.open(partitions):
            self.lanes.open(assigned)
            self.committer.forget(assigned)
            starts[assigned.partition] = assigned.progress.next_offset
        self.observer.rebalanced("assigned")
        self.health.joined()
        return starts

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self._give_up(partitions)
        self.observer.rebalanced("revoked")

    def _give_up(self, partitions: Iterable[Partition]) -> None:
        """Finish or abandon the work in flight of these partitions, commit, and forget them."""
        self._writes.leaving = frozenset(partitions)
        timeout_s = self.limits.rebalance_timeout.total_seconds()
        try:
            leaving = self.assignment.find(self._writes.leaving)
            self._writes.await_end(None)
            self._drain(self.assignment.find(self._writes.leaving), timeout_s)
            self._writes.flush_leaving(leaving, timeout_s)
        finally:
            self._writes.forget(self._writes.leaving)
            self._writes.leaving = frozenset()

    def lost(self, partitions: Iterable[Partition]) -> None:
        """Forget these partitions. Results of their work in flight, and outcomes not yet written, are ignored."""
        self.health.left()
        # Their outcomes must not be written: without their offsets, the broker would accept the transaction.
        self._writes.forget(partitions)
        self._writes.await_end(None)
        self.observer.rebalanced("lost")

    def _drain(self, leaving: list[AssignedPartition], timeout_s: float) -> None:
        """Start no more records of these partitions, and wait for their work items in flight."""
        end_s = monotonic_s() + timeout_s
        for assigned in leaving:
            self.lanes.close(assigned)
        while True:
            remaining = [item for item in self._in_flight if item.lane.assigned in leaving]
            for item in remaining:
                item.stop = True
            left_s = end_s - monotonic_s()
            if not remaining or left_s <= 0:
                return
            self._collect(min(left_s, _MAX_COLLECT_WAIT_S))
            if self.committer.full and not self.committer.backing_off:
                self._writes.flush(left_s)
            self._abandon_overdue()

    def _report_state(self) -> None:
        """Report state and lag once a second, unless the writing thread hangs."""
        now_s = monotonic_s()
        if now_s < self._reported_s + _REPORT_EVERY_S or not self.health.alive().ok:
            return
        self._reported_s = now_s
        in_flight = sum(len(item.messages) for item in self._in_flight)
        self.observer.worker_state(self.assignment.state(in_flight, len(self.unacknowledged)))
        self.assignment.report(self.observer, self.health)
        self._pausing.report(self.observer)
        self.committer.report(self.health)

    def _shut_down(self) -> None:
        """Run all steps in order. An error in one does not prevent the later ones."""
        self.health.stopping()
        timeout_s = self.limits.shutdown_timeout.total_seconds()
        steps: list[Callable[[], object]] = [
            partial(self._drain_all, max(0.0, timeout_s - _CLOSING_S)),
            self.reader.close,  # gives the partitions back; leaves the group, if not static or with leaveOnStop
            partial(self.slots.close, 1.0),  # handlers that still run end with the process
            self.committer.close,
        ]
        with ExitStack() as stack:
            for step in reversed(steps):  # the stack calls them from last to first
                stack.callback(step)

    def _drain_all(self, timeout_s: float) -> None:
        """Finish or abandon all work in flight, commit, and forget all partitions."""
        deadline_s = monotonic_s() + timeout_s
        self._writes.await_end(None)
        owned = self.assignment.all()
        self._drain(owned, max(0.0, deadline_s - monotonic_s()))
        self._writes.flush_leaving(owned, timeout_s)
        self._writes.forget(self.assignment.save_positions())
