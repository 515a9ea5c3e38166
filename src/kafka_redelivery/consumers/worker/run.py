"""Builds a worker from the configuration and runs it until it is stopped."""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from kafka_redelivery.consumers.clock import failure_clock_ms, wall_clock_ms
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assignment import Assignment
from kafka_redelivery.consumers.flow.buffer_quota import batch_bytes
from kafka_redelivery.consumers.flow.delivery_notes import DeliveryNotes
from kafka_redelivery.consumers.flow.fetcher import Fetcher
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.flow.halted_partitions import HaltedPartitions
from kafka_redelivery.consumers.flow.keyed_lane import MAX_IN_PLACE
from kafka_redelivery.consumers.flow.lanes import Lanes
from kafka_redelivery.consumers.flow.lost_positions import LostPositions
from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.flow.work_item import FinishedItems
from kafka_redelivery.consumers.handlers.child_process_pool import load_as_configured
from kafka_redelivery.consumers.handlers.destinations import Destinations
from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.session_processor import SessionProcessor
from kafka_redelivery.consumers.handlers.slots import open_slots
from kafka_redelivery.consumers.process.clients import open_control, open_reader, open_writer
from kafka_redelivery.consumers.process.lifecycle import Process, start_process
from kafka_redelivery.consumers.process.scheduler_watch import scheduler_watch
from kafka_redelivery.consumers.routes import RetryTopics, Route, codecs
from kafka_redelivery.consumers.worker.unacknowledged import Unacknowledged
from kafka_redelivery.consumers.worker.worker import Worker
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.jitter import draws
from kafka_redelivery.consumers.writes.tier_placement import TierPlacement
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.config.settings import HandlerSection, Isolation, Ordering, Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.decision import AckType
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.admin.topic_metadata import TopicMetadataCache
from kafka_redelivery.transport.client_config import source_start
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.topic_watch import TopicWatch
from kafka_redelivery.transport.clients.write_thread import WriteThread

_log = logging.getLogger(__name__)


def run_worker(settings: Settings, base: Path) -> None:
    """Run a worker until SIGTERM or SIGINT.

    Args:
        settings: the configuration.
        base: the folder of the configuration file. Paths of schemas are relative to it, and it is added to
            ``sys.path`` to import the handler.

    Raises:
        HandlerLoadError: the handler cannot be loaded.
        SerdeError: a schema cannot be loaded.
        TopologyRefusedError: the topics would lose data.
        HaltedError: going on would lose data.
        TransportError: Kafka does not answer at the start, or refuses a request for good.
    """
    section = settings.handler
    if section is None:
        raise HandlerLoadError(
            "missing",
            "the configuration has no 'handler' section",
            "add 'handler: {callable: package.module:function}'",
        )
    if section.vectorized:
        problem = "is vectorized, and only `redelivery pipeline stream` calls vectorized handlers"
        raise HandlerLoadError(section.callable, problem, "configure a handler without 'vectorized' for workers")
    with ExitStack() as stack:
        # Appended, so that a module of the user does not hide an installed one.
        sys.path.append(str(base))
        handler = load_as_configured(section, stack, settings.failure_details)
        routes = _routes(settings, base)
        outputs = {output.topic: codecs(output, base) for output in settings.outputs}
        process = stack.enter_context(start_process(settings, "worker"))
        reader = open_reader(settings, settings.group, process.instance, report=process.health.waiting)
        control = stack.enter_context(open_control(settings))
        worker = _build_worker(settings, section, handler, routes, outputs, reader, control, process)
        topics = ", ".join(name for route in routes for name in (route.source, route.ready))
        with process.until_stopped(worker.stop), scheduler_watch(settings, process.health):
            _log.info("worker %s of group %s reads %s", process.instance.name, settings.group, topics)
            worker.run()


def _routes(settings: Settings, base: Path) -> list[Route]:
    routes = []
    for source in settings.sources:
        key, value = codecs(source, base)
        routes.append(Route.of(settings, source.topic, key, value))
    return routes


def _build_worker(
    settings: Settings,
    section: HandlerSection,
    handler: Handler,
    routes: list[Route],
    outputs: Mapping[str, tuple[Codec, Codec]],
    reader: GroupReader,
    control: ControlTopic,
    process: Process,
) -> Worker:
    limits = settings.limits
    blocking = not section.non_blocking_redelivery
    persist_deliveries = section.persist_delivery_count_before_delivery
    individual = settings.mode is AcknowledgementMode.INDIVIDUAL
    finished = FinishedItems()
    sessions = Sessions(individual=individual, wake=finished.wake)
    lanes = Lanes(section.ordering, section.slots, persist_deliveries=persist_deliveries)
    halted = HaltedPartitions()
    assignment = Assignment(
        routes,
        reader,
        FirstOffsets(reader, source_start(settings.kafka), control, TopicWatch(settings.kafka, process.health.waiting)),
        author=1 + secrets.randbits(31) if persist_deliveries else None,
        max_in_place=_max_in_place(section, blocking=blocking),
        refused=halted,
    )
    destinations = Destinations(settings, TopicMetadataCache(settings.kafka))
    arguments = (handler, outputs, wall_clock_ms, section.deadline, destinations)
    processor = (
        SessionProcessor(sessions, *arguments) if settings.mode.by_handler else Processor(*arguments, blocking=blocking)
    )
    slots = open_slots(handler, section.slots, processor, finished)
    naming = settings.naming()
    batch_dependencies = BatchDependencies(
        group=settings.group,
        retry_topics=RetryTopics(naming, tier_set(settings.entries().values()), reader.partition_counts()),
        clock=failure_clock_ms,
        jitter=draws,
        write_failures={},
        journal=naming.journal_topic() if settings.journal else None,
        blocking=blocking,
        placement=TierPlacement(assignment.source_numbers),
        audits=DeadLetterAudit(settings.entries()),
        success_ack=AckType.INDIVIDUAL if individual else AckType.STANDARD,
        details=settings.failure_details,
        look_up_topics=reader.partition_counts,
    )
    committer = Committer(
        batch_dependencies,
        WriteThread(
            open_writer(settings, "worker", process.instance, reader, process.health.waiting), wake=finished.wake
        ),
        process.observer,
        limits.batch_records,
        batch_bytes(limits),
        settings.lazy_acknowledgement(),
        halted,
        destinations.note_missing,
    )
    in_order = section.ordering is Ordering.PARTITION and not settings.mode.by_handler
    lost_positions = LostPositions(reader, assignment, process.observer, process.health)
    return Worker(
        reader=reader,
        committer=committer,
        assignment=assignment,
        lanes=lanes,
        fetcher=Fetcher(reader, assignment, lanes, limits, lost_positions, in_order=in_order),
        delivery_notes=DeliveryNotes(lanes, limits.batch_records),
        unacknowledged=Unacknowledged(sessions, lanes, settings.acknowledgement.timeout),
        slots=slots,
        finished=finished,
        limits=limits,
        observer=process.observer,
        health=process.health,
        # In a child process, the slot kills the handler at the deadline and is free again.
        deadline=section.deadline if section.isolation is Isolation.NONE else None,
        blocking=blocking,
        pauses=process.pauses,
    )


def _max_in_place(section: HandlerSection, *, blocking: bool) -> int:
    """Return how many records of a partition may wait in place, including one that is isolated."""
    if not blocking:
        return int(section.persist_delivery_count_before_delivery)
    return 2 if section.ordering is Ordering.PARTITION else MAX_IN_PLACE + 2
