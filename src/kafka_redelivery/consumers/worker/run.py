"""Builds a worker from the configuration and runs it until it is stopped."""

from __future__ import annotations

import logging
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_redelivery.consumers.clock import failure_clock_ms, wall_clock_ms
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.batch_filling import BatchFilling
from kafka_redelivery.consumers.flow.delivery_notes import NotedLanes
from kafka_redelivery.consumers.flow.fetcher import Fetcher, batch_bytes
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.flow.probe import Probe, as_probe
from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.flow.stops import Stops
from kafka_redelivery.consumers.flow.work_item import FinishedItems
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.child_process_pool import formats_of, load_as_configured
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import NOTHING, Handler, find_probe
from kafka_redelivery.consumers.handlers.outputs import Destinations
from kafka_redelivery.consumers.handlers.slot_sessions import SlotSessions
from kafka_redelivery.consumers.handlers.slots import Slots, open_slots
from kafka_redelivery.consumers.handlers.tracing import with_tracing
from kafka_redelivery.consumers.process.clients import open_control, open_reader, open_writer
from kafka_redelivery.consumers.process.lifecycle import Process, start_process
from kafka_redelivery.consumers.process.scheduler_watch import scheduler_watch
from kafka_redelivery.consumers.routes import RetryTopics, Route, TierPlacement, codecs
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.tracing import spans_exported
from kafka_redelivery.consumers.worker.dispatcher import Dispatcher
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.consumers.writes.jitter import draws
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.config.settings import (
    BatchSection,
    HandlerSection,
    Isolation,
    LimitsSection,
    Ordering,
    Settings,
)
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.admin.topics import TopicMetadataCache
from kafka_redelivery.transport.client_config import source_start
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.topic_watch import TopicWatch
from kafka_redelivery.transport.clients.write_thread import WriteThread

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker needs besides Kafka."""

    settings: Settings
    handlers: Mapping[HandlerSection, Handler]
    routes: list[Route]
    outputs: Mapping[str, tuple[Codec, Codec]]
    probes: Mapping[str, Callable[[], object]]
    """By dependency."""


def run_worker(settings: Settings, base: Path, given: Mapping[str, object] = NOTHING) -> None:
    """Run a worker until SIGTERM or SIGINT.

    Args:
        settings: the configuration.
        base: see :func:`load_parts`.
        given: see :func:`load_parts`.

    Raises:
        HandlerLoadError, SerdeError: as :func:`load_parts`.
        TopologyRefusedError: the topics would lose data.
        HaltedError: going on would lose data.
        TransportError: Kafka does not answer at the start, or refuses a request for good.
    """
    with ExitStack() as stack:
        stack.enter_context(spans_exported(settings.group))
        parts = load_parts(settings, base, stack, given)
        process = stack.enter_context(start_process(settings, "worker"))
        worker = stack.enter_context(open_worker(parts, process))
        with process.until_stopped(worker.stop):
            # After the signal handlers are installed, because a reader of this line may send a signal.
            log_start(parts, process)
            worker.run()


def load_parts(
    settings: Settings,
    base: Path,
    stack: ExitStack,
    given: Mapping[str, object] = NOTHING,
    loop: HandlerLoop | None = None,
) -> Parts:
    """Load the handlers and the codecs.

    Args:
        settings: the configuration.
        base: the folder of the configuration file. Paths of schemas are relative to it, and it is added to
            ``sys.path`` to import handlers.
        stack: closed when the handlers are not needed any more.
        given: handlers and classes by the names that the configuration has; all others are imported.
        loop: where asynchronous handlers run; ``None``: on a loop of their own.

    Raises:
        HandlerLoadError: a handler cannot be loaded.
        SerdeError: a schema cannot be loaded.
    """
    if not settings.handlers:
        raise HandlerLoadError(
            "missing",
            "the configuration has no 'handler' section",
            "add 'handler: {callable: package.module:function}'",
        )
    if any(each.callable not in given for each in settings.handlers.values()) and str(base) not in sys.path:
        # Appended, so that a module of the user does not hide an installed one.
        sys.path.append(str(base))
    handlers = _load_handlers(settings, stack, given, loop or stack.enter_context(HandlerLoop()))
    outputs = {each.topic: codecs(each, base) for each in settings.outputs}
    named = {name: each.probe for name, each in settings.dependencies.items() if each.probe is not None}
    probes = {name: as_probe(find_probe(target, f"dependencies.{name}.probe", given)) for name, target in named.items()}
    return Parts(settings, handlers, _routes(settings, base), outputs, probes)


@contextmanager
def open_worker(parts: Parts, process: Process) -> Iterator[Worker]:
    """Yield a worker to be run, which closes its clients. During the block it is watched whether a scheduler runs.

    Raises:
        TransportError: Kafka refuses a request for good.
    """
    settings = parts.settings
    reader = open_reader(settings, settings.group, process.instance, report=process.health.waiting)
    with open_control(settings) as control, scheduler_watch(settings, process.health):
        yield _build_worker(parts, reader, control, process)


def log_start(parts: Parts, process: Process) -> None:
    """Log that a worker begins to read."""
    topics = ", ".join(name for route in parts.routes for name in (route.source, route.ready))
    _log.info("worker %s of group %s reads %s", process.instance.name, parts.settings.group, topics)


def _load_handlers(
    settings: Settings, stack: ExitStack, given: Mapping[str, object], loop: HandlerLoop
) -> dict[HandlerSection, Handler]:
    """Load each handler once. Asynchronous ones share an event loop, so that they can share what belongs to a loop."""
    handlers: dict[HandlerSection, Handler] = {}
    for section in dict.fromkeys(settings.handlers.values()):
        if section.vectorized:
            problem = "is vectorized, and only `redelivery pipeline stream` calls vectorized handlers"
            raise HandlerLoadError(section.callable, problem, "configure a handler without 'vectorized' for workers")
        formats = formats_of(settings, section)
        handlers[section] = load_as_configured(section, stack, settings.failure_details, loop, given, formats=formats)
    return handlers


def _routes(settings: Settings, base: Path) -> list[Route]:
    routes = []
    for source in settings.sources:
        key, value = codecs(source, base)
        routes.append(Route.of(settings, source.topic, key, value))
    return routes


def _build_worker(parts: Parts, reader: GroupReader, control: ControlTopic, process: Process) -> Worker:
    settings = parts.settings
    handlers = {section: with_tracing(handler) for section, handler in parts.handlers.items()}
    limits = settings.limits
    individual = settings.mode is AcknowledgementMode.INDIVIDUAL
    finished = FinishedItems()
    sessions = Sessions(individual=individual, wake=finished.wake) if settings.mode.by_handler else None
    destinations = Destinations(settings, TopicMetadataCache(settings.kafka))
    author = 1 + secrets.randbits(31)
    by_handler = {
        section: Dispatcher(
            lanes=_lanes(section, handler, limits, author),
            slots=_slots(section, handler, finished, sessions, parts.outputs, destinations),
            # In a child process, the slot kills the handler at the deadline and is free again.
            deadline=section.deadline if section.isolation is Isolation.NONE else None,
            ago=handler.loop.seconds_ago if handler.asynchronous else seconds_ago,
            blocking=not section.non_blocking_redelivery,
            dependencies=handler.dependencies,
            missed=handler.missed,
        )
        for section, handler in handlers.items()
    }
    dispatchers = {topic: by_handler[section] for topic, section in settings.handlers.items()}
    stops = Stops(process.observer, process.health, process.pauses)
    assignment = Assignment(
        parts.routes,
        reader,
        FirstOffsets(reader, source_start(settings.kafka), control, TopicWatch(settings.kafka, process.health.waiting)),
        stops,
        {topic: dispatcher.lanes for topic, dispatcher in dispatchers.items()},
    )
    naming = settings.naming()
    batch_dependencies = BatchDependencies(
        group=settings.group,
        retry_topics=RetryTopics(naming, tier_set(settings.entries().values()), reader.partition_counts()),
        clock=failure_clock_ms,
        jitter=draws,
        write_failures={},
        journal=naming.journal_topic() if settings.journal else None,
        placement=TierPlacement(assignment.source_numbers),
        audits=DeadLetterAudit(settings.entries()),
        success_ack=AckType.INDIVIDUAL if individual else AckType.STANDARD,
        details=settings.failure_details,
        look_up_topics=reader.partition_counts,
        is_listed=destinations.note_missing,
    )
    committer = Committer(
        batch_dependencies,
        WriteThread(
            open_writer(settings, "worker", process.instance, reader, process.health.waiting), wake=finished.wake
        ),
        reader,
        process.observer,
        WriteLimits(limits.batch_records, batch_bytes(limits)),
        settings.lazy_acknowledgement(),
        stops,
    )
    in_order = all(each.ordering is Ordering.PARTITION for each in handlers) and not settings.mode.by_handler
    buffers = [dispatcher.lanes for dispatcher in by_handler.values()]
    return Worker(
        reader=reader,
        committer=committer,
        assignment=assignment,
        dispatchers=dispatchers,
        fetcher=Fetcher(reader, assignment, buffers, limits, in_order=in_order),
        unacknowledged=None if sessions is None else Unacknowledged(sessions, settings.acknowledgement.timeout),
        finished=finished,
        limits=limits,
        observer=process.observer,
        health=process.health,
        outages=_outages(by_handler, parts.probes, process),
    )


def _outages(
    dispatchers: Mapping[HandlerSection, Dispatcher], probes: Mapping[str, Callable[[], object]], process: Process
) -> Outages | None:
    """Return the outages of what the handlers declare; ``None`` if they declare nothing."""
    sections = {name: dependency for section in dispatchers for name, dependency in section.dependencies}
    if not sections:
        return None
    full: Counter[str] = Counter()
    for section, dispatcher in dispatchers.items():
        full.update({name: dispatcher.slots.capacity for name, _ in section.dependencies})
    instance, view = process.instance.name, process.pauses
    return Outages(
        sections=sections,
        full=full,
        probes={name: Probe(name, probe, instance, view) for name, probe in probes.items()},
        view=view,
        health=process.health,
        instance=instance,
        draw=lambda: abs(next(draws())),
        new_id=lambda: secrets.token_hex(8),
    )


def _slots(
    section: HandlerSection,
    handler: Handler,
    finished: FinishedItems,
    sessions: Sessions | None,
    outputs: Mapping[str, tuple[Codec, Codec]],
    destinations: Destinations,
) -> Slots:
    if handler.batch and sessions is not None:
        problem = "takes a Batch, of which each record has its outcome when the call returns"
        raise HandlerLoadError(section.callable, problem, "set mode: transacted or auto, or take a Record")
    processor = processor_of(
        handler,
        outputs,
        wall_clock_ms,
        section.deadline,
        destinations,
        blocking=not section.non_blocking_redelivery,
        sessions=None if sessions is None else SlotSessions(sessions, handler.details),
    )
    return open_slots(handler, section.slots, processor, finished)


def _lanes(section: HandlerSection, handler: Handler, limits: LimitsSection, author: int) -> Lanes:
    blocking, persists = not section.non_blocking_redelivery, section.persist_delivery_count_before_delivery
    blocking = blocking or bool(section.dependencies)  # records of a key may wait for a dependency
    max_in_place = int(persists)
    if blocking:
        max_in_place = 2 if section.ordering is Ordering.PARTITION else MAX_IN_PLACE + 2
    filling = None
    if handler.batch and not (blocking and section.ordering is Ordering.PARTITION):  # there, a batch is one record
        batch = section.batch or BatchSection(records=min(BatchSection().records, limits.batch_records))
        filling = BatchFilling(batch, one_per_key=blocking)
    ordering, slots = section.ordering, section.slots
    if not persists:
        return Lanes(ordering, slots, max_in_place=max_in_place, filling=filling)
    return NotedLanes(
        ordering,
        slots,
        limits.batch_records,
        author=author,
        max_in_place=max_in_place,
        filling=filling,
    )
