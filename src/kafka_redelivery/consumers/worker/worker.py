"""The worker: fetches records, hands them to slots, decides about failures and starts writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition, lineage_of
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.delivery_notes import KILLED_WORKER, DeliveryNotes, NotedLanes
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.flow.work_item import FinishedItems, MetOutage, WorkItem
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import WorkerObserver
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.write_cycle import WriteCycle
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.topology.config.settings import LimitsSection
from kafka_redelivery.transport.protocols import Message, Partition, Reader

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
    dispatchers: Mapping[str, Dispatcher]
    """By source topic. Sources with equal handlers have the same one."""

    fetcher: Fetcher
    finished: FinishedItems
    limits: LimitsSection
    observer: WorkerObserver
    health: Health = field(default_factory=Health)
    outages: Outages | None = None
    """``None`` if no handler depends on anything."""

    unacknowledged: Unacknowledged | None = None
    """``None`` in the acknowledgement modes without sessions."""

    def __post_init__(self) -> None:
        """Start without partitions."""
        self._dispatchers = tuple(dict.fromkeys(self.dispatchers.values()))
        noted = [each.lanes for each in self._dispatchers if isinstance(each.lanes, NotedLanes)]
        self._notes = DeliveryNotes(noted) if noted else None
        self._writes = WriteCycle(
            reader=self.reader,
            committer=self.committer,
            assignment=self.assignment,
            notes=self._notes,
            unacknowledged=self.unacknowledged,
            idle=lambda: not self._busy,
        )
        self._stopping = False
        self._stop_s: float | None = None
        """When the shutdown was requested (monotonic)."""

        self._reported_s = 0.0

    def stop(self) -> None:
        """Request a graceful shutdown. Safe in a signal handler and from any thread."""
        self._stop_s = self._stop_s or monotonic_s()
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
        for dispatcher in self._dispatchers:
            dispatcher.lanes.check_clock()
        self._hold()
        if self.outages is not None:
            self.outages.turn()
        self._buffer(self._fetch())
        if self._notes is not None:
            self._decide_fatal_records(self._notes)
        self._hand_out()
        busy = self._in_flight or self.committer.writing or self.committer.batch.size
        self._collect(_MAX_COLLECT_WAIT_S if busy else 0.0)
        self._writes.await_end()
        if self.unacknowledged is not None:
            self._writes.collect_dispositions(self.unacknowledged)
        should_write = self._should_write()
        if not self.committer.try_halted(write_waits=should_write) and should_write:
            self._writes.begin()
        self._abandon_overdue()
        self._split_slow()
        if moved := self.assignment.moved():
            self._writes.close(moved)
            self.fetcher.restart(moved)
        if restarted := self.assignment.to_restart():
            self._give_up(restarted)
            self.fetcher.restart(restarted)
            for assigned in self.assignment.find(restarted):
                self.committer.start_anew(assigned)
        self._report_state()

    def _hold(self) -> None:
        """Start no record of a partition that is paused or held, also of one that was assigned since the last turn."""
        stops = self.assignment.stops
        held = stops.unhandled(self.assignment.partitions)
        for dispatcher in self._dispatchers:
            dispatcher.hold(held)
        stops.obey()

    def _fetch(self) -> list[Message]:
        """Fetch records for which there is room. Wait for them only if nothing else can happen meanwhile."""
        timeout_s = 0.0
        if not (self._busy or self.committer.writing):
            timeout_s = self.committer.write_due_in_s(_MAX_FETCH_WAIT_S)
            for dispatcher in self._dispatchers:
                timeout_s = dispatcher.due_in_s(timeout_s)
            if self.unacknowledged is not None:
                timeout_s = self.unacknowledged.max_wait_s(timeout_s)
        return self.fetcher.fetch(self.committer.bytes, timeout_s)

    def _buffer(self, messages: list[Message]) -> None:
        refused = bool(self.committer.write_failures)
        for assigned, records in self.assignment.accept(messages):
            undecided = self.committer.decide_refused(assigned, records) if refused else records
            self._lanes(assigned).add(assigned, undecided)
        self.fetcher.finish_accepting()

    def _lanes(self, assigned: AssignedPartition) -> Lanes:
        return self.dispatchers[assigned.route.source].lanes

    def _decide_fatal_records(self, notes: DeliveryNotes) -> None:
        """Count the delivery that killed a worker as failed. It may have used up the record's last attempt."""
        for assigned, record in notes.take_fatal_records():
            lineage = lineage_of(assigned, record)
            before = lineage.delivered(max(0, lineage.deliveries - 1))
            with self._writes.discard_on_error():
                self.committer.batch.add_failure(assigned, record, before, KILLED_WORKER)
                self._requeue_in_place()

    def _requeue_in_place(self) -> None:
        """Put the records that now wait in place back into their lanes."""
        in_place = self.committer.batch.in_place
        while in_place:
            assigned, message = in_place.pop()
            self._lanes(assigned).requeue(assigned, message)

    @property
    def _in_flight(self) -> bool:
        return any(dispatcher.in_flight for dispatcher in self._dispatchers)

    @property
    def _waiting(self) -> bool:
        return any(dispatcher.lanes.waiting for dispatcher in self._dispatchers)

    @property
    def _busy(self) -> bool:
        return any(dispatcher.busy for dispatcher in self._dispatchers)

    def _hand_out(self) -> None:
        if self.committer.halting:
            return
        if self.outages is not None and self.outages.active:
            # Few records may be in flight: each handler gets to be the first one that may have them.
            self._dispatchers = (*self._dispatchers[1:], self._dispatchers[0])
        for dispatcher in self._dispatchers:
            if self._notes is not None and len(self._dispatchers) > 1:
                dispatcher.suspended = self._notes.suspend(dispatcher.lanes)
            dispatcher.hand_out(None if self.outages is None else self._limit(dispatcher, self.outages))

    def _limit(self, dispatcher: Dispatcher, outages: Outages) -> int | None:
        """Return how many records of a dispatcher may be in flight; ``None`` = any number."""
        if not outages.active:
            return None
        left = []
        for name in dispatcher.dependencies.names:
            limit = outages.limit(name)
            if limit is not None:
                sharing = [each for each in self._dispatchers if name in each.dependencies.names]
                others = sum(len(each.in_flight) for each in sharing if each is not dispatcher)
                left.append(max(0, limit - others))
        return min(left, default=None)

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
        if self.outages is not None and item.failures:
            self.outages.judge_keys(item)
            item.keep_waits_within(MAX_IN_PLACE - len(item.lane.assigned.progress.waiting), self.outages.clock_s())
        met = item.outage
        if met is not None and self._fails(met):
            item.fail_after_all(met)
        assigned, held, met = item.lane.assigned, item.held, item.outage
        offset = item.messages[item.position].offset() if held else -1
        done = self.dispatchers[assigned.route.source].take_back(item)
        if done is None or assigned.closed:
            if self.unacknowledged is not None:
                self.unacknowledged.void(item if done is None else done)
            return
        if done.position:
            self._add_outcomes(done)
        if met is not None:
            self._open_outage(assigned, offset, met)
        elif held:
            self.assignment.stops.held.hold(assigned.partition, offset, held)

    def _open_outage(self, assigned: AssignedPartition, offset: int, met: MetOutage) -> None:
        """Let all slots return what needs a dependency that is away, unless they did already."""
        if self.outages is not None and self.outages.met(assigned, offset, met):
            for dispatcher in self._dispatchers:
                if met.failure.dependency in dispatcher.dependencies.names:
                    dispatcher.interrupt()

    def _may_try(self, assigned: AssignedPartition, name: str) -> bool:
        """Whether a record of a partition could be handed out to see whether a dependency is back."""
        outages, others = self.outages, self._needs(assigned).keys() - {name}
        held = assigned.partition in self._lanes(assigned).held
        return not held and outages is not None and all(outages.limit(each) != 0 for each in others)

    def _fails(self, met: MetOutage) -> bool:
        return self.outages is not None and self.outages.fails(met)

    def _needs(self, assigned: AssignedPartition) -> Mapping[str, int]:
        return self.dispatchers[assigned.route.source].dependencies.names

    def _add_outcomes(self, item: WorkItem) -> None:
        if (outages := self.outages) is not None and (outages.active or outages.counts or item.lateness):
            needs = self._needs(item.lane.assigned)
            if outages.active or outages.counts:
                outages.handled(item, needs, self._may_try)
            if item.lateness:
                item.delayed_ms = outages.delayed_ms(needs)
        if held := self.assignment.stops.held:
            held.progressed(item.lane.assigned.partition, item.offsets())
        with self._writes.discard_on_error():
            self.committer.batch.add(item)
            if self.unacknowledged is not None:
                self.unacknowledged.retain(item)
            if self.committer.batch.in_place:
                self._requeue_in_place()

    def _abandon_overdue(self) -> None:
        """Abandon handler calls that exceed the deadline of their handler.

        Raises:
            HaltedError: they occupy all slots of a handler that needs one.
        """
        for dispatcher in self._dispatchers:
            for result in dispatcher.abandon_overdue(self._fails):
                met, assigned = result.outage, result.lane.assigned
                if result.position and not assigned.closed:
                    self._add_outcomes(result)
                if met is not None and not assigned.closed:
                    self._open_outage(assigned, result.messages[result.position].offset(), met)
            if dispatcher.exhausted and self._needs_slot(dispatcher):
                self._writes.flush(self.limits.rebalance_timeout.total_seconds())
                raise dispatcher.halted(", ".join(t for t, each in self.dispatchers.items() if each is dispatcher))

    def _needs_slot(self, dispatcher: Dispatcher) -> bool:
        """Whether a record could start: not while what its overdue calls wait for is away and nothing is tried."""
        name = dispatcher.dependencies.of_deadline
        return not name or self.outages is None or self.outages.limit(name) != 0

    def _split_slow(self) -> None:
        """Take outcomes from work items whose current call is slow, and let other slots handle the records behind."""
        for dispatcher in self._dispatchers:
            if self.committer.full:
                return  # no outcome can be added before the write in progress ends
            for done in dispatcher.split_slow():
                self._add_outcomes(done)
                if self.committer.full:
                    return

    def _should_write(self) -> bool:
        if self.committer.should_write(more_to_come=self._in_flight or self._waiting):
            return True
        if self.committer.writing or self.committer.backing_off:
            return False
        if self.assignment.commit_due(only_starts=self.committer.batch.size > 0):
            return True  # commit the start offset of a new partition, or the end of an idle one
        if self._notes is None:
            return False
        free = [dispatcher.lanes for dispatcher in self._dispatchers if dispatcher.has_free_slot]
        return self._notes.need_commit(idle=not self._busy, free=free)

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`RebalanceListener`; the reader calls these three methods within ``fetch`` and ``close``."""
        starts = {}
        for assigned in self.assignment.open(partitions):
            self.committer.start_anew(assigned)
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
            self._writes.close(self._writes.leaving)
            self._writes.leaving = frozenset()

    def lost(self, partitions: Iterable[Partition]) -> None:
        """Forget these partitions. Results of their work in flight, and outcomes not yet written, are ignored."""
        self.health.left()
        # Their outcomes must not be written: without their offsets, the broker would accept the transaction.
        self._writes.close(partitions)
        self._writes.await_end(None)
        self.observer.rebalanced("lost")

    def _drain(self, leaving: list[AssignedPartition], timeout_s: float) -> None:
        """Start no more records of these partitions, and wait for their work items in flight."""
        end_s = monotonic_s() + timeout_s
        for assigned in leaving:
            self._lanes(assigned).close(assigned)
        while True:
            remaining = [dispatcher for dispatcher in self._dispatchers if dispatcher.leaving(leaving)]
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
        in_flight = sum(len(item.messages) for each in self._dispatchers for item in each.in_flight)
        unacknowledged = 0 if self.unacknowledged is None else len(self.unacknowledged)
        self.observer.worker_state(self.assignment.state(in_flight, unacknowledged))
        self.assignment.report()
        self.committer.report(self.health)
        if self.outages is not None:
            self._report_outages(self.outages)

    def _report_outages(self, outages: Outages) -> None:
        away, waiting = set(outages.away), Counter[str]()
        for assigned in self.assignment.all():
            if needs := self._needs(assigned):
                waiting[assigned.partition.topic] += not away.isdisjoint(needs)
        self.observer.outages(outages.states, waiting)

    def _shut_down(self) -> None:
        """Run all steps in order. An error in one does not prevent the later ones."""
        self.health.stopping()
        requested_s = self._stop_s or monotonic_s()
        timeout_s = requested_s + self.limits.shutdown_timeout.total_seconds() - monotonic_s()
        steps: list[Callable[[], object]] = [
            partial(self._drain_all, max(0.0, timeout_s - _CLOSING_S)),
            self.reader.close,  # gives the partitions back; leaves the group, if not static or with leaveOnStop
            # Handlers that still run end with the process.
            *[partial(each.slots.close, 1.0 / len(self._dispatchers)) for each in self._dispatchers],
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
        self._writes.close(self.assignment.save_positions())
