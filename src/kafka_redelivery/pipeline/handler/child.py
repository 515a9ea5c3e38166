"""The program of the handlers' process in a Spark task: it is given records, and returns their outcomes.

Each handler has the lanes and slots of a worker. Each slot says in shared memory which record it is handling.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple, cast

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.outages import Threshold
from kafka_redelivery.consumers.flow.stops import HeldPartitions
from kafka_redelivery.consumers.flow.work_item import FinishedItems, MetOutage, WorkItem
from kafka_redelivery.consumers.handlers.child import SharedPosition, receive, send
from kafka_redelivery.consumers.handlers.child_process_pool import formats_of, load_as_configured
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.outputs import Destinations
from kafka_redelivery.consumers.handlers.processor import SLICE_S, Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.handlers.slots import Slots, open_slots
from kafka_redelivery.consumers.handlers.tracing import with_tracing
from kafka_redelivery.consumers.process.memory import infrequent_garbage_collection
from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.consumers.telemetry.tracing import CLOSING_OF_A_CHILD_S, spans_exported
from kafka_redelivery.pipeline.handler.computed import Computing
from kafka_redelivery.pipeline.handler.items import Outcomes, PublishedItem, Runs
from kafka_redelivery.pipeline.handler.rows import Rows, records_of
from kafka_redelivery.pipeline.handler.vectorized import VectorProcessor
from kafka_redelivery.pipeline.spark.codecs import SchemaFiles
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.config.settings import HandlerSection, Isolation, Settings
from kafka_redelivery.topology.outage import Outage
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.admin.topics import TopicMetadataCache
from kafka_redelivery.transport.protocols import Message, Partition

POSITIONS_PER_SLOT: Final = 2
"""Work items for each slot: one that it handles, and one that is queued behind it."""

_IDLE_S: Final = 1.0

_GRACE_S: Final = 1.0
"""The child cancels an asynchronous handler at its deadline. If it blocks the loop, the parent kills it this later."""


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """Settings, schemas and module search path of a handler process."""

    settings: Settings
    base: Path
    """The folder of the configuration file."""

    search_path: tuple[str, ...]
    """The driver's ``sys.path``."""

    log_level: int
    log_format: str
    schemas: SchemaFiles = field(default_factory=SchemaFiles)
    computing: Computing | None = None
    """What is done with the rows of a DataFrame, if that has computed the outcomes and no handler is called."""

    def on_this_machine(self) -> HandlerConfig:
        """Return the configuration for this executor, which may not have the driver's folders.

        The executor's own ``sys.path``, with what Spark shipped to it, comes before the driver's.

        Raises:
            OSError: the schemas cannot be written to a local folder.
        """
        path = tuple(dict.fromkeys((*sys.path, *self.search_path)))
        return replace(self, base=self.schemas.folder(self.base), search_path=path)

    @property
    def sections(self) -> tuple[HandlerSection, ...]:
        """Each handler of the configuration."""
        return tuple(dict.fromkeys(self.settings.handlers.values()))

    def isolates(self, section: HandlerSection) -> bool:
        """Whether the slots of a handler are processes of their own: its child is one, if nothing else runs there."""
        alone = section.slots == 1 and len(self.sections) == 1
        return section.isolation is Isolation.PROCESS and not (alone or section.vectorized)

    def as_run_here(self, section: HandlerSection) -> HandlerSection:
        """Return a handler without isolation, unless its slots are processes of their own."""
        return section if self.isolates(section) else section.model_copy(update={"isolation": Isolation.NONE})

    def routes(self) -> dict[str, tuple[Route, bool]]:
        """Return the route of each source and ready topic, and whether the topic is a ready topic.

        Raises:
            SerdeError: a schema cannot be loaded.
        """
        found: dict[str, tuple[Route, bool]] = {}
        for source in self.settings.sources:
            route = Route.of(self.settings, source.topic, *codecs(source, self.base))
            found |= {route.source: (route, False), route.ready: (route, True)}
        return found


class Attempt(NamedTuple):
    """One run of a micro-batch, and what the driver knows of outages as it begins."""

    number: int = 0
    """Differs between runs: what an earlier one has found away is tried again."""

    open: Mapping[str, float] = {}
    """The dependencies with an outage, each with the seconds since it has answered; 0 = it has not."""

    failing: frozenset[str] = frozenset()
    """The dependencies about whose failures the redelivery policy decides, because their outage takes too long."""

    over_ms: Mapping[str, int] = {}
    """When the last outage of what a source needs was over (epoch ms), by source."""

    only: tuple[Partition, int] | None = None
    """The only record that is handled, to see whether what it has met is back; ``None`` = all are."""


FIRST_ATTEMPT: Final = Attempt()


class Given(NamedTuple):
    """Records of one partition, as the parent sends them."""

    number: int
    """Stands for the partition in what the child returns and publishes."""

    rows: Rows
    suspect: bool = False
    """Whether one of them may have killed an earlier child.

    Until all suspects have their outcomes, one record is handled at a time.
    """

    attempt: Attempt = FIRST_ATTEMPT


class Answer(NamedTuple):
    """Outcomes that the child returns."""

    number: int
    """See :attr:`Given.number`."""

    offsets: list[int]
    outcomes: Outcomes


def load(
    config: HandlerConfig, pipe: Connection, positions: Sequence[SharedPosition], stack: ExitStack
) -> Callable[[], None]:
    """Load the handlers and start their slots, see :attr:`Setup.load`. There are two positions for each slot."""
    details = config.settings.failure_details
    topics = Destinations(config.settings, TopicMetadataCache(config.settings.kafka))
    target = ", ".join(section.callable for section in config.sections)
    stack.enter_context(spans_exported(config.settings.group, CLOSING_OF_A_CHILD_S))
    loop = stack.enter_context(HandlerLoop())
    try:
        routes = config.routes()
        handlers = {
            section: load_as_configured(
                config.as_run_here(section), stack, details, loop, formats=formats_of(config.settings, section)
            )
            for section in config.sections
        }
        for section, handler in handlers.items():
            if handler.batch:
                problem = "takes a Batch, and a query gives many records to one call only as an Arrow record batch"
                fix = "write a function for vectorized: true, or use redelivery worker"
                raise HandlerLoadError(section.callable, problem, fix)
        outputs = {output.topic: codecs(output, config.base) for output in config.settings.outputs}
    except SerdeError as error:
        raise HandlerLoadError(target, str(error), "see to the schemas in its environment") from error
    stack.enter_context(infrequent_garbage_collection())
    child = _Child(pipe, routes, positions)
    opened = {section: _opened(section, handler, child, outputs, topics) for section, handler in handlers.items()}
    child.handlers = {topic: opened[section] for topic, section in config.settings.handlers.items()}
    return child.turn


def _opened(
    section: HandlerSection,
    handler: Handler,
    child: _Child,
    outputs: Mapping[str, tuple[Codec, Codec]],
    topics: Destinations,
) -> _HandlerSlots:
    # The deadline of a synchronous handler is the parent's, or that of the pool of children.
    deadline, grace_s = (section.deadline, _GRACE_S) if handler.asynchronous else (None, 0.0)
    handler = replace(handler, dependencies=replace(handler.dependencies, by_key=False))
    if section.vectorized:
        handler, processor = _as_synchronous(handler), Processor(handler, outputs, wall_clock_ms, deadline, topics)
        slots = open_slots(handler, 1, VectorProcessor(handler, processor, topics, child.answer), child.finished)
    else:
        processor = Processor(with_tracing(handler), outputs, wall_clock_ms, deadline, topics)
        slots = open_slots(handler, section.slots, processor, child.finished)
    return _HandlerSlots(section, slots, grace_s=grace_s)


def _as_synchronous(handler: Handler) -> Handler:
    """An asynchronous handler as a synchronous one, since vectorized handlers are called one after the other."""
    if not handler.asynchronous:
        return handler

    def call(*arguments: object) -> object:
        return handler.loop.run(handler.call(*arguments))

    return replace(handler, call=call, asynchronous=False)


class _HandlerSlots:
    def __init__(self, section: HandlerSection, slots: Slots, *, grace_s: float) -> None:
        self.slots = slots
        self.grace_s = grace_s
        self.needs = frozenset(name for name, _ in section.dependencies)
        self._thresholds = {
            name: Threshold(each.threshold) for name, each in section.dependencies if each.threshold is not None
        }
        self._single, self._vectorized = section.slots == 1, section.vectorized
        self.lanes = Runs() if self._single else Lanes(section.ordering, section.slots)
        self.in_flight: set[PublishedItem] = set()

    def fails(self, met: MetOutage, attempt: Attempt) -> bool:
        """Whether a record that found a dependency away has failed all the same; as :meth:`Outages.fails`."""
        name = met.failure.dependency
        threshold = self._thresholds.get(name)
        if threshold is not None:
            threshold.count(0, 1)
        too_few = threshold is not None and name not in attempt.open and not threshold.reached
        return too_few or name in attempt.failing

    def count(self, item: WorkItem) -> None:
        """Count the calls that found nothing away."""
        for threshold in self._thresholds.values():
            threshold.count(item.position - len(item.failures))

    def forget(self, over: Collection[str]) -> None:
        """Forget the calls of outages that are over."""
        for name in over & self._thresholds.keys():
            self._thresholds[name].forget()

    def add(self, assigned: AssignedPartition, rows: Rows) -> None:
        self.lanes.add(assigned, self._messages(rows, assigned))

    def _messages(self, rows: Rows, assigned: AssignedPartition) -> list[Message]:
        if self._vectorized:
            return cast("list[Message]", rows)
        if self._single:
            return cast("list[Message]", records_of(rows, assigned.route, redelivered=assigned.redelivered))
        return list(rows)


class _Child:
    """The handlers of a child. One thread hands records out to their slots; another receives records."""

    def __init__(
        self, pipe: Connection, routes: Mapping[str, tuple[Route, bool]], positions: Sequence[SharedPosition]
    ) -> None:
        self.handlers: Mapping[str, _HandlerSlots] = {}
        """By source topic; set before the first turn."""

        self.finished = FinishedItems()
        self._pipe = pipe
        self._sending = threading.Lock()
        """Guards the pipe, and the two fields below that change with an answer. A vectorised handler has its own."""

        self._routes = routes
        self._held = HeldPartitions()
        self._free = list(positions)
        self._numbers: dict[Partition, int] = {}
        self._assigned: dict[int, AssignedPartition] = {}
        self._suspects: set[tuple[int, int]] = set()
        """Partition number and offset."""

        self._attempt = Attempt()
        self._away: set[str] = set()
        """The dependencies that were found away in this attempt."""

        self._rising: dict[str, Outage] = {}
        """The outages of those whose load rises again."""

        self._critical = False
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        threading.Thread(target=self._receive, name="records", daemon=True).start()

    @cached_property
    def _distinct(self) -> tuple[_HandlerSlots, ...]:
        return tuple(dict.fromkeys(self.handlers.values()))

    def turn(self) -> None:
        """Hand out records, and return the outcomes of those that were handled.

        Raises:
            EOFError: the parent has closed the pipe.
            OSError: as before, while outcomes are being sent.
        """
        self._accept()
        self._hand_out()
        wait_s = SLICE_S
        if not any(each.in_flight for each in self._distinct):
            wait_s = self._held.left_s(min(each.lanes.due_in_s(_IDLE_S) for each in self._distinct))
        for item in self.finished.take(wait_s):
            assert isinstance(item, PublishedItem)  # noqa: S101 - from _hand_out()
            handler = self.handlers[item.lane.assigned.route.source]
            handler.in_flight.discard(item)
            self._free.append(item.place)
            met = item.outage
            if met is not None and handler.fails(met, self._attempt):
                item.fail_after_all(met)
                met = None
            done = item.without_taken()
            self._answer_all(done)
            handler.count(done)
            if met is not None:
                self._meet(item, met.failure)
                done.position += 1
            handler.lanes.put_back(done)
            if item.held and met is None:
                self._held.hold(item.lane.assigned.partition, item.next_offset(), item.held)
        limit_s = monotonic_s() - SLICE_S
        for handler in self._distinct:
            for item in handler.in_flight:  # if its current call is slow, other slots handle the records behind
                split = handler.lanes.split(item, limit_s)
                if split is not None:
                    self._answer_all(split)

    def answer(self, number: int, offsets: list[int], outcomes: Outcomes) -> None:
        """Send the outcomes of consecutive records of a lane to the parent. Thread-safe."""
        with self._sending:
            if self._suspects:
                self._suspects.difference_update((number, offset) for offset in offsets)
            self._critical = self._critical or outcomes.critical
            send(self._pipe, Answer(number, offsets, outcomes))

    def _receive(self) -> None:
        try:
            while True:
                self._given.put(receive(self._pipe))
                self.finished.wake()
        except (EOFError, OSError):
            self._given.put(None)
            self.finished.wake()

    def _accept(self) -> None:
        while not self._given.empty():
            given = self._given.get()
            if given is None:
                raise EOFError
            number, rows, suspect, attempt = given
            if attempt.number != self._attempt.number:
                self._begin(attempt)
            if suspect:
                with self._sending:
                    self._suspects.update((number, offset) for offset in rows.offsets())
            assigned = self._assigned.get(number)
            if assigned is None:
                route, redelivered = self._routes[rows.partition.topic]
                assigned = AssignedPartition(rows.partition, route, redelivered, Progress(0))
                self._assigned[number], self._numbers[rows.partition] = assigned, number
                self.handlers[route.source].lanes.open(assigned)
            self.handlers[assigned.route.source].add(assigned, rows)

    def _hand_out(self) -> None:
        """Submit work items to every slot, and some more so that no slot waits for this thread."""
        if self._held or any(each.lanes.held for each in self._distinct):
            waiting = self._held.waiting()
            for handler in self._distinct:
                handler.lanes.hold(waiting)
        for handler in self._distinct:
            self._hand_out_to(handler)

    def _begin(self, attempt: Attempt) -> None:
        """Try what an earlier attempt has found away."""
        now_s, over = monotonic_s(), self._attempt.open.keys() - attempt.open.keys()
        for handler in self._distinct if over else ():
            handler.forget(over)
        self._attempt, self._away = attempt, set()
        answered = {name: now_s - seconds for name, seconds in attempt.open.items()}
        self._rising = {name: Outage(opened_s=at_s, answered_s=at_s) for name, at_s in answered.items()}

    def _meet(self, item: PublishedItem, failure: Failure) -> None:
        """Leave the record at which an item was held without an outcome, and all others that need the same."""
        name, number = failure.dependency, item.number
        self._away.add(name)
        self.answer(number, [item.next_offset()], Outcomes(1, waits=name, met=failure))
        for handler in self._distinct:
            if name in handler.needs:
                for other in handler.in_flight:
                    other.stop = True

    def _leave(self, handler: _HandlerSlots, name: str) -> None:
        """Leave the records of a handler without outcomes."""
        while (item := handler.lanes.next_item()) is not None:
            offsets = _offsets(item.messages)
            item.position = len(offsets)
            handler.lanes.put_back(item)
            self.answer(self._numbers[item.lane.assigned.partition], offsets, Outcomes(len(offsets), waits=name))

    def _limit(self, handler: _HandlerSlots) -> int:
        """Return how many items of a handler may be in flight."""
        capacity, now_s = handler.slots.capacity, monotonic_s()
        limits = [each.limit(now_s, capacity) for name, each in self._rising.items() if name in handler.needs]
        handler.lanes.one_by_one = any(limit < capacity for limit in limits)
        if handler.lanes.one_by_one:
            return min(limits)
        return capacity + handler.lanes.max_queued(capacity)

    def _hand_out_to(self, handler: _HandlerSlots) -> None:
        for name in self._away & handler.needs if self._away else ():
            self._leave(handler, name)
        limit = self._limit(handler)
        while not self._critical:
            alone = self._suspects and any(each.in_flight for each in self._distinct)
            full = alone or len(handler.in_flight) >= limit
            found = None if full else handler.lanes.next_item()
            if found is None:
                return
            number, offsets = self._numbers[found.lane.assigned.partition], _offsets(found.messages)
            singly = (number, offsets[0]) in self._suspects
            item = PublishedItem(found, offsets, number, self._free.pop(), grace_s=handler.grace_s, singly=singly)
            handler.in_flight.add(item)
            handler.slots.submit(item)

    def _answer_all(self, item: WorkItem) -> None:
        if item.position:
            partition, offsets = item.lane.assigned.partition, item.offsets()
            self._held.progressed(partition, offsets)
            self.answer(self._numbers[partition], offsets, Outcomes.of(item))


def _offsets(messages: Sequence[Message | Record] | Rows) -> list[int]:
    if isinstance(messages, Rows):
        return messages.offsets()
    if isinstance(messages[0], Record):
        return [cast("Record", each).offset for each in messages]
    return [cast("Message", each).offset() for each in messages]
