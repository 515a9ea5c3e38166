"""Handles several records at a time in the handler's process of a task, with the lanes and slots of a worker."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Final, NamedTuple, cast

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.held_partitions import HeldPartitions
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.processor import SLICE_S, Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.handlers.slots import open_slots
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.pipeline.handler.messages import receive, send
from kafka_redelivery.pipeline.handler.outcomes import Outcomes
from kafka_redelivery.pipeline.handler.outcomes_of import outcomes_of
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.pipeline.handler.shared_position import SharedPosition
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.config.settings import HandlerSection
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Message, Partition, TopicMetadata

POSITIONS_PER_SLOT: Final = 2
"""Work items for each slot: one that it handles, and one that is queued behind it."""

_IDLE_S: Final = 1.0

_GRACE_S: Final = 1.0
"""The child cancels an asynchronous handler at its deadline. If it blocks the loop, the parent kills it this later."""


class Loaded(NamedTuple):
    """What a handler's process loads at its start."""

    handler: Handler
    routes: Mapping[str, tuple[Route, bool]]
    outputs: Mapping[str, tuple[Codec, Codec]]
    topics: TopicMetadata


class Given(NamedTuple):
    """Records of one partition, as the parent sends them."""

    number: int
    """Stands for the partition in what the child returns and publishes."""

    partition: Partition
    records: Rows | list[Row]
    suspects: frozenset[tuple[int, int]] = frozenset()
    """Partition number and offset of records of which one may have killed an earlier child.

    Until all of them have their outcomes, one record is handled at a time.
    """


class Answer(NamedTuple):
    """Outcomes that the child returns."""

    number: int
    """See :attr:`Given.number`."""

    offsets: list[int]
    outcomes: Outcomes


class HandlerSlots:
    """Lanes and slots of a child. One thread works on them; another receives records."""

    def __init__(
        self, pipe: Connection, section: HandlerSection, loaded: Loaded, positions: Sequence[SharedPosition]
    ) -> None:
        """Start the slots.

        Args:
            pipe: the pipe to the parent.
            section: the configuration of the handler.
            loaded: the handler and what belongs to it.
            positions: where the child publishes what it is handling; :data:`POSITIONS_PER_SLOT` per slot.
        """
        self._pipe = pipe
        self._routes = loaded.routes
        self._lanes = Lanes(section.ordering, section.slots)
        self._held = HeldPartitions()
        self._finished = FinishedItems()
        self._processor = _PublishingProcessor(loaded, section, positions)
        self._slots = open_slots(loaded.handler, section.slots, self._processor, self._finished)
        self._in_flight: set[WorkItem] = set()
        self._numbers: dict[Partition, int] = {}
        self._assigned: dict[int, AssignedPartition] = {}
        self._suspects: set[tuple[int, int]] = set()
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        threading.Thread(target=self._receive, name="records", daemon=True).start()

    def turn(self) -> None:
        """Hand out records, and return the outcomes of those that were handled.

        Raises:
            EOFError: the parent has closed the pipe.
            OSError: as before, while outcomes are being sent.
        """
        self._accept()
        self._hand_out()
        idle_s = self._held.left_s(self._lanes.due_in_s(_IDLE_S))
        for item in self._finished.take(SLICE_S if self._in_flight else idle_s):
            self._in_flight.discard(item)
            self._processor.returned(item)
            done = item.without_taken()
            self._lanes.put_back(done)
            self._answer(done)
            if item.held:
                partition = done.lane.assigned.partition
                self._held.hold(partition, done.messages[done.position].offset(), item.held)
        self._split_slow()

    def _receive(self) -> None:
        try:
            while True:
                self._given.put(receive(self._pipe))
                self._finished.wake()
        except (EOFError, OSError):
            self._given.put(None)
            self._finished.wake()

    def _accept(self) -> None:
        while not self._given.empty():
            given = self._given.get()
            if given is None:
                raise EOFError
            self._suspects |= given.suspects
            assigned = self._assigned.get(given.number)
            if assigned is None:
                route, redelivered = self._routes[given.partition.topic]
                assigned = AssignedPartition(given.partition, route, redelivered, Progress(0))
                self._assigned[given.number] = assigned
                self._numbers[given.partition] = given.number
                self._processor.numbers[given.partition] = given.number
                self._lanes.open(assigned)
            self._lanes.add(assigned, cast("list[Message]", list(given.records)))

    def _hand_out(self) -> None:
        """Submit work items to every slot, and some more so that no slot waits for this thread."""
        if self._held or self._lanes.held:
            self._lanes.hold(self._held.waiting())
        usable = self._slots.capacity
        limit = 1 if self._suspects else usable + min(usable, self._lanes.max_queued)
        while len(self._in_flight) < limit:
            item = self._lanes.next_item()
            if item is None:
                return
            self._in_flight.add(item)
            self._processor.submitted(item)
            self._slots.submit(item)

    def _split_slow(self) -> None:
        """Return outcomes from work items whose current call is slow; other slots handle the records behind."""
        limit_s = monotonic_s() - SLICE_S
        for item in self._in_flight:
            done = self._lanes.split(item, limit_s)
            if done is not None:
                self._answer(done)

    def _answer(self, item: WorkItem) -> None:
        if item.position:
            number, offsets = self._numbers[item.lane.assigned.partition], item.offsets()
            self._held.progressed(item.lane.assigned.partition, offsets)
            if self._suspects:
                self._suspects.difference_update((number, offset) for offset in offsets)
            send(self._pipe, Answer(number, offsets, outcomes_of(item)))


class _PublishingProcessor(Processor):
    """Publishes each record before it is handled."""

    def __init__(self, loaded: Loaded, section: HandlerSection, positions: Sequence[SharedPosition]) -> None:
        # The deadline of a synchronous handler is the parent's, or that of the pool of children.
        deadline = section.deadline if loaded.handler.asynchronous else None
        self._grace_s = _GRACE_S if loaded.handler.asynchronous else 0.0
        super().__init__(loaded.handler, loaded.outputs, wall_clock_ms, deadline, loaded.topics)
        self.numbers: dict[Partition, int] = {}
        """See :attr:`Given.number`."""

        self._free = list(positions)
        self._positions: dict[WorkItem, SharedPosition] = {}

    def submitted(self, item: WorkItem) -> None:
        """Reserve a position for a work item."""
        self._positions[item] = self._free.pop()

    def returned(self, item: WorkItem) -> None:
        """Release the position of a work item."""
        self._free.append(self._positions.pop(item))

    def run(self, item: WorkItem) -> None:
        """See :class:`Processor`."""
        try:
            super().run(item)
        finally:
            self._positions[item].clear()

    async def run_async(self, item: WorkItem) -> None:
        """See :class:`Processor`."""
        try:
            await super().run_async(item)
        finally:
            self._positions[item].clear()

    def prepare(self, item: WorkItem, message: Message) -> Record | Failure:
        """See :class:`Processor`."""
        position = self._positions[item]
        position.prepare(message.offset(), self.numbers[item.lane.assigned.partition])
        prepared = super().prepare(item, message)
        position.call(self._grace_s)
        return prepared

    def _store_outcome(
        self, item: WorkItem, failure: Failure | None, context: Context | None, before: float
    ) -> float | None:
        if context is not None and context.outputs:
            self._positions[item].end_call()
        return super()._store_outcome(item, failure, context, before)
