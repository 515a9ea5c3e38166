"""Hands the records of the sources of one handler to its slots, and takes back what the slots have done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import MetOutage, WorkItem
from kafka_redelivery.consumers.handlers.dependencies import NO_DEPENDENCIES, Dependencies
from kafka_redelivery.consumers.handlers.handler import deadline_passed
from kafka_redelivery.consumers.handlers.processor import SLICE_S
from kafka_redelivery.consumers.handlers.slots import Slots
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.writes.committer import LINGER_S
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Partition


@dataclass(kw_only=True, eq=False)
class Dispatcher:
    """The lanes and slots of one handler. Only the polling thread uses it.

    A worker has one for each of its handlers. They share the reader, the buffer and the transaction.
    """

    lanes: Lanes
    slots: Slots
    deadline: timedelta | None = None
    """How long a handler call may take before it is abandoned; ``None`` = without limit."""

    ago: Callable[[float], float] = seconds_ago
    """Returns the monotonic time since which the handler could run for so many seconds."""

    blocking: bool = False
    """Whether a record that failed waits in place, so that the records behind it wait, too."""

    suspended: bool = False
    """Whether no record may be handed out, because a suspect of another handler has to be alone in the worker."""

    dependencies: Dependencies = NO_DEPENDENCIES
    """What its handler depends on."""

    missed: Callable[[float | None, str], Failure] = lambda deadline_s, _: deadline_passed(deadline_s)
    """See :meth:`Handler.missed`."""

    in_flight: set[WorkItem] = field(default_factory=set, init=False)
    """Work items in the slots and queued behind them, but for the abandoned ones."""

    _limited: bool = field(default=False, init=False)
    """Whether no further record may be handed out, because a dependency is away."""

    _abandoned: set[WorkItem] = field(default_factory=set, init=False)
    """Work items whose handler missed its deadline and has not returned yet. Each occupies a slot."""

    @property
    def busy(self) -> bool:
        """Whether a record is in a slot or could start."""
        return bool(self.in_flight or (self.lanes.ready and not self.suspended and not self._limited))

    @property
    def has_free_slot(self) -> bool:
        """Whether a slot has no work item."""
        return self._usable_slots > len(self.in_flight)

    @property
    def _usable_slots(self) -> int:
        return self.slots.capacity - len(self._abandoned)

    def due_in_s(self, max_s: float) -> float:
        """Return the seconds until a record may start that cannot start now, but at most ``max_s``."""
        return max_s if self.suspended or self._limited else self.lanes.due_in_s(max_s)

    def hold(self, held: AbstractSet[Partition]) -> None:
        """Start no record of these partitions."""
        if held or self.lanes.held:
            self.lanes.hold(held)
            for item in self.in_flight:
                item.stop = item.stop or item.lane.held

    def hand_out(self, limit: int | None = None) -> None:
        """Submit work items to every slot, and some more so that no slot waits for the polling thread.

        Args:
            limit: how many records may be in flight; ``None`` = any number.
        """
        self.lanes.bar(limit == 0)
        if self.suspended:
            return
        usable = self._usable_slots
        room = usable + self.lanes.max_queued(usable) if limit is None else min(usable, limit)
        self.lanes.one_by_one = limit is not None
        self._limited = False
        while len(self.in_flight) < room:
            item = self.lanes.next_item()
            if item is None:
                return
            self.in_flight.add(item)
            self.slots.submit(item)
        self._limited = limit is not None

    def interrupt(self) -> None:
        """Let the slots return their work items after the current record."""
        for item in self.in_flight:
            item.stop = True

    def take_back(self, item: WorkItem) -> WorkItem | None:
        """Take a work item back from its slot, and return it without what was taken from it before.

        ``None`` if it was abandoned: its outcome was decided at the deadline, and now its slot is free again.
        """
        if item in self._abandoned:
            self._abandoned.discard(item)
            return None
        self.in_flight.discard(item)
        item = item.without_taken()
        self.lanes.put_back(item)
        return item

    def leaving(self, partitions: Collection[AssignedPartition]) -> bool:
        """Whether work items of these partitions are in flight. Their slots return them after the current record."""
        remaining = [item for item in self.in_flight if item.lane.assigned in partitions]
        for item in remaining:
            item.stop = True
        return bool(remaining)

    def abandon_overdue(self, fails: Callable[[MetOutage], bool] = lambda _: False) -> Iterator[WorkItem]:
        """Abandon handler calls that exceed the deadline, and yield what replaces each of their work items.

        Asynchronous calls are cancelled before that.

        Args:
            fails: whether a record that found a dependency away has failed all the same.
        """
        if self.deadline is None:
            return
        deadline_s = self.deadline.total_seconds()
        limit_s = self.ago(deadline_s + LINGER_S)
        for item in list(self.in_flight):
            batch = item.batch  # a slot that gives its records back changes it when the call has ended
            began_s = item.started_s
            result = item.abandon(limit_s)
            if result is not None:
                self.in_flight.discard(item)
                self._abandoned.add(item)  # it occupies its slot until the handler returns
                failure = self.dependencies.of_missed_deadline(self.missed(deadline_s, result.message_id()))
                if failure.kind is FailureKind.UNAVAILABLE and not batch:
                    met = MetOutage(failure, began_s, result.lineages[result.position :])
                    result.hold(failure.message)
                    result.outage = met
                    if not item.lane.assigned.closed and fails(met):
                        result.fail_after_all(met)
                elif not (batch or item.lane.assigned.closed):
                    result.failures.append((result.position, failure))
                    result.position += 1
                self.lanes.put_back(result)
                yield result

    def split_slow(self) -> Iterator[WorkItem]:
        """Let other slots handle the records behind a slow call, and yield the outcomes of the records before it."""
        limit_s = monotonic_s() - SLICE_S
        for item in self.in_flight:
            if (self.blocking and item.failures) or any(failure.key_only for _, failure in item.failures):
                continue  # its slot returns it now, and the records behind the failed one have to wait
            done = self.lanes.split(item, limit_s)
            if done is not None and done.position:
                yield done

    @property
    def exhausted(self) -> bool:
        """Whether abandoned calls occupy every slot."""
        return self._usable_slots <= 0

    def halted(self, sources: str) -> HaltedError:
        """Return why the worker halts when it is exhausted; ``sources``: the topics that have no slot."""
        deadline_s = 0.0 if self.deadline is None else self.deadline.total_seconds()
        return HaltedError(
            f"no slot is free for {sources}: the handlers in all {self.slots.capacity} did not return within "
            f"{deadline_s:g} s; set timeouts for the calls that the handler makes, or raise "
            "handler.deadline or handler.slots"
        )
