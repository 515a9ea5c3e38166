"""Builds a scheduler from the configuration and runs it until it is asked to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.dead_letters.monitor import dead_letter_monitor
from kafka_redelivery.consumers.dead_letters.sweep import dead_letter_sweeper
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.process.clients import Instance, open_control, open_reader, open_writer
from kafka_redelivery.consumers.process.lifecycle import start_process
from kafka_redelivery.consumers.process.pause_watch import PauseView
from kafka_redelivery.consumers.scheduler.scheduler import Scheduler
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements
from kafka_redelivery.topology.cluster.plan import scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.trimming import trim
from kafka_redelivery.transport.clients.topic_watch import TopicWatch
from kafka_redelivery.transport.clients.write_thread import WriteThread

_log = logging.getLogger(__name__)

_INTERVAL_S = 60.0


def trimming(
    settings: Settings, clock_ms: Callable[[], int], names: Callable[[], Collection[str]]
) -> AbstractContextManager[None]:
    """Trim once a minute on a thread while the block runs. An error is logged; the next minute tries again.

    Args:
        settings: the configuration.
        clock_ms: epoch ms.
        names: returns the topics of the group that may exist, configured or not.
    """

    def run(ended: threading.Event) -> None:
        while not ended.wait(_INTERVAL_S):
            _log.debug("trimmed %s", trim(settings, clock_ms(), names()))

    return background_thread("trim", run, "some finished records are not deleted", restart_s=0.0)


def run_scheduler(settings: Settings) -> None:
    """Run a delay scheduler until SIGTERM or SIGINT.

    Raises:
        TopologyRefusedError: the topics would lose data.
        HaltedError: the scheduler stopped to protect data.
        TransportError: Kafka does not answer at the start, or refuses a request for good.
    """
    with (
        start_process(settings, "scheduler") as process,
        open_scheduler(settings, process.instance, process.health, process.observer, process.pauses) as scheduler,
        process.until_stopped(scheduler.stop),
    ):
        # After the signal handlers are installed, because a reader of this line may send a signal.
        _log.info("scheduler %s of group %s reads the group's tiers", process.instance.name, settings.group)
        scheduler.run()


@contextmanager
def open_scheduler(
    settings: Settings, instance: Instance, health: Health, observer: Measurements, pauses: PauseView
) -> Iterator[Scheduler]:
    """Yield a scheduler to be run, which closes its clients. During the block finished records and letters are removed.

    Args:
        settings: the configuration.
        instance: the name of the scheduler among those of its group.
        health: the scheduler's own.
        observer: receives what it reports.
        pauses: what it must not release now.

    Raises:
        TransportError: Kafka refuses a request for good.
    """
    report = health.waiting
    with open_control(settings) as control:
        reader = open_reader(settings, scheduler_group(settings.group), instance, scheduler=True, report=report)
        writer = WriteThread(open_writer(settings, "scheduler", instance, reader, report))
        first_offsets = FirstOffsets(reader, control=control, topics=TopicWatch(settings.kafka, report))
        scheduler = Scheduler(
            settings, reader, writer, observer, wall_clock_ms, health=health, first_offsets=first_offsets
        )
        scheduler.obey(pauses)
        with (
            trimming(settings, wall_clock_ms, lambda: scheduler.topics.names),
            dead_letter_sweeper(settings, instance, observer),
            dead_letter_monitor(settings, observer, health, scheduler.share, scheduler.tiers, wall_clock_ms),
        ):
            yield scheduler
