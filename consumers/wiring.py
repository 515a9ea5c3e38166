"""Puts workers and schedulers together from a configuration, and runs them until they are told to stop."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple

from consumers.assignment import Assignment
from consumers.audits import Audits
from consumers.batch import Shared
from consumers.children import Children
from consumers.clients import Instance, reader_of, writer_of
from consumers.clock import failure_clock_ms, wall_clock_ms
from consumers.codecs import codecs
from consumers.collected import collected_rarely
from consumers.committer import Committer
from consumers.dead_letter_watch import watching
from consumers.errors import HandlerLoadError
from consumers.handler import Handler, load_handler
from consumers.health import Health
from consumers.jitter import draws
from consumers.keyed_lane import MOST_IN_PLACE
from consumers.lanes import Lanes
from consumers.metrics import serve_metrics
from consumers.observer import Observer, telling_halts
from consumers.parts import Parts
from consumers.processor import Processor
from consumers.room import batch_bytes
from consumers.routes import Route, Waiting
from consumers.scheduler import Scheduler
from consumers.session import Sessions
from consumers.session_processor import SessionProcessor
from consumers.slots import AsyncSlots, Slots, ThreadSlots
from consumers.sweeping import sweepers, sweeping
from consumers.unit import Unit
from consumers.worker import Worker
from serdes.codec import Codec
from topology.acknowledgement import AcknowledgementMode
from topology.decision import AckType, Failure
from topology.durations import format_duration
from topology.settings import HandlerSection, Isolation, Ordering, Settings
from topology.tiers import tier_set
from transport.client_config import source_start
from transport.preflight import verify
from transport.protocols import Partition
from transport.reader import Reader
from transport.topics import TopicDirectory
from transport.trim import trimming
from transport.write_thread import WriteThread

_log = logging.getLogger(__name__)


def run_worker(settings: Settings, base: Path) -> None:
    """Run a worker until SIGTERM or SIGINT.

    Args:
        settings: the configuration.
        base: the folder of the configuration file; schemas and the handler's module are found from there.

    Raises:
        HandlerLoadError, SerdeError: the handler or a schema cannot be had.
        TopologyRefusedError: the topics would lose data.
        HaltedError, TransportError: it could not go on.
    """
    section = settings.handler
    if section is None:
        raise HandlerLoadError(
            "needed", "the configuration has no 'handler' section", "add 'handler: {callable: package.module:function}'"
        )
    if section.vectorized:
        problem = "is vectorized, which only redelivery pipeline stream can call"
        raise HandlerLoadError(section.callable, problem, "name another handler for workers, without 'vectorized'")
    with ExitStack() as stack:
        # At the end of the path: a package of the user's must not hide one of ours or of the installation.
        sys.path.append(str(base))
        handler = _handler(section, stack)
        routes = _routes(settings, base)
        outputs = {output.topic: codecs(output, base) for output in settings.outputs}
        verify(settings)
        instance = Instance.of(settings)
        health = Health(settings.metrics.stalled_after)
        observer = stack.enter_context(serve_metrics(settings, "worker", instance.name, health))
        reader = reader_of(settings, settings.group, instance)
        worker = _worker(settings, section, handler, routes, outputs, reader, instance, _Told(observer, health))
        topics = ", ".join(name for route in routes for name in (route.source, route.ready))
        with (
            collected_rarely(),
            _until_signalled(worker.stop, settings.limits.shutdown_timeout),
            telling_halts(observer),
        ):
            _log.info("worker %s of group %s reads %s", instance.name, settings.group, topics)
            worker.run()


def _handler(section: HandlerSection, stack: ExitStack) -> Handler:
    if section.isolation is Isolation.NONE:
        return load_handler(section.callable, section.not_retryable, stack)
    children = Children(section)
    stack.callback(children.close)
    return children.handler()


def run_scheduler(settings: Settings) -> None:
    """Run a delay scheduler until SIGTERM or SIGINT.

    Raises:
        TopologyRefusedError: the topics would lose data.
        TransportError: it could not go on.
    """
    verify(settings)
    instance = Instance.of(settings)
    health = Health(settings.metrics.stalled_after)
    with serve_metrics(settings, "scheduler", instance.name, health) as observer, trimming(settings, wall_clock_ms):
        reader = reader_of(settings, f"{settings.group}.scheduler", instance, of_tiers=True)
        writer = WriteThread(writer_of(settings, "scheduler", instance, reader))
        scheduler = Scheduler(settings, reader, writer, observer, wall_clock_ms, health=health)
        with (
            sweeping(sweepers(settings, instance, observer)),
            watching(settings, observer, scheduler.share, wall_clock_ms),
            collected_rarely(),
            _until_signalled(scheduler.stop, settings.limits.shutdown_timeout),
            telling_halts(observer),
        ):
            _log.info("scheduler %s of group %s reads the group's tiers", instance.name, settings.group)
            scheduler.run()


def _routes(settings: Settings, base: Path) -> list[Route]:
    routes = []
    for source in settings.sources:
        key, value = codecs(source, base)
        routes.append(Route.of(settings, source.topic, key, value))
    return routes


def _worker(
    settings: Settings,
    section: HandlerSection,
    handler: Handler,
    routes: list[Route],
    outputs: Mapping[str, tuple[Codec, Codec]],
    reader: Reader,
    instance: Instance,
    told: _Told,
) -> Worker:
    naming = settings.naming()
    done: SimpleQueue[Unit | None] = SimpleQueue()
    verdicts: dict[tuple[Partition, int], Failure] = {}
    shared = Shared(
        group=settings.group,
        waiting=Waiting(naming, tier_set(settings.entries().values()), reader.partition_counts()),
        clock=failure_clock_ms,
        jitter=draws,
        verdicts=verdicts,
        journal=naming.journal_topic() if settings.journal else None,
        blocking=not section.non_blocking_redelivery,
        audits=Audits(settings.entries()),
        success=AckType.INDIVIDUAL if settings.mode is AcknowledgementMode.INDIVIDUAL else AckType.STANDARD,
    )
    sessions = Sessions(individual=settings.mode is AcknowledgementMode.INDIVIDUAL, wake=lambda: done.put(None))
    how = (handler, outputs, wall_clock_ms, section.deadline, TopicDirectory(settings.kafka))
    processor = (
        SessionProcessor(sessions, *how)
        if settings.mode.by_handler
        else Processor(*how, blocking=not section.non_blocking_redelivery)
    )
    slots: Slots = (AsyncSlots if handler.asynchronous else ThreadSlots)(section.slots, processor, done)
    writer = WriteThread(writer_of(settings, "worker", instance, reader), wake=lambda: done.put(None))
    return Worker(
        Parts(
            reader=reader,
            committer=Committer(
                shared,
                writer,
                told.observer,
                settings.limits.batch_records,
                batch_bytes(settings.limits),
                settings.lazy_acknowledgement(),
            ),
            assignment=Assignment(
                routes,
                source_start(settings.kafka),
                reader,
                author=1 + secrets.randbits(31) if section.persist_delivery_count_before_delivery else None,
                most_in_place=_most_in_place(section),
            ),
            lanes=Lanes(section.ordering, section.slots, noting=section.persist_delivery_count_before_delivery),
            slots=slots,
            done=done,
            verdicts=verdicts,
            limits=settings.limits,
            # A child is killed at the deadline by its own slot, which is free again then.
            handler=section if section.isolation is Isolation.NONE else section.model_copy(update={"deadline": None}),
            observer=told.observer,
            health=told.health,
            mode=settings.mode,
            acknowledgement=settings.acknowledgement,
            sessions=sessions,
        )
    )


def _most_in_place(section: HandlerSection) -> int:
    """How many records of a partition may wait in place, one of them noted alone."""
    if section.non_blocking_redelivery:
        return int(section.persist_delivery_count_before_delivery)
    return 2 if section.ordering is Ordering.PARTITION else MOST_IN_PLACE + 2


class _Told(NamedTuple):
    """Whom a worker tells how it is."""

    observer: Observer
    health: Health


@contextmanager
def _until_signalled(stop: Callable[[], None], timeout: timedelta) -> Iterator[None]:
    """The first SIGTERM or SIGINT asks for an orderly end within ``timeout``, the second ends the process.

    An orderly end can hang where Kafka does not answer. Then the process leaves as it is: what was not
    committed is delivered again, as after a kill.
    """
    clock = threading.Timer(timeout.total_seconds(), _leave, (timeout,))
    clock.daemon = True

    def on_signal(number: int, _frame: FrameType | None) -> None:
        _log.info("%s: stopping, for at most %s", signal.Signals(number).name, format_duration(timeout))
        # The kernel keeps signals without a handler from the first process of a container.
        signal.signal(number, signal.SIG_DFL if os.getpid() != 1 else _end_at_once)
        if not clock.is_alive():
            clock.start()
        stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
        _log.info("stopped")
    finally:
        clock.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def _leave(timeout: timedelta) -> None:
    _log.error("not stopped within %s, leaving: what is not committed is delivered again", format_duration(timeout))
    os._exit(1)
