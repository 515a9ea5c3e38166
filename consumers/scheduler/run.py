"""Builds a scheduler from the configuration and runs it until it is asked to stop."""

from __future__ import annotations

import logging

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.dead_letters.monitor import dead_letter_monitor
from kafka_redelivery.consumers.dead_letters.sweeper_thread import dead_letter_sweeper
from kafka_redelivery.consumers.process.clients import open_control, open_reader, open_writer
from kafka_redelivery.consumers.process.lifecycle import start_process
from kafka_redelivery.consumers.scheduler.scheduler import Scheduler
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.trimming import trimming
from kafka_redelivery.transport.clients.write_thread import WriteThread

_log = logging.getLogger(__name__)


def run_scheduler(settings: Settings) -> None:
    """Run a delay scheduler until SIGTERM or SIGINT.

    Raises:
        TopologyRefusedError: the topics would lose data.
        HaltedError: the scheduler stopped to protect data.
        TransportError: Kafka does not answer at the start, or refuses a request for good.
    """
    with (
        start_process(settings, "scheduler") as process,
        trimming(settings, wall_clock_ms),
        open_control(settings, process.health.waiting) as control,
    ):
        instance, observer, report = process.instance, process.observer, process.health.waiting
        reader = open_reader(settings, f"{settings.group}.scheduler", instance, small_prefetch=True, report=report)
        writer = WriteThread(open_writer(settings, "scheduler", instance, reader, report))
        scheduler = Scheduler(settings, reader, writer, observer, wall_clock_ms, health=process.health, control=control)
        with (
            dead_letter_sweeper(settings, instance, observer),
            dead_letter_monitor(settings, observer, scheduler.share, wall_clock_ms),
            process.until_stopped(scheduler.stop),
        ):
            _log.info("scheduler %s of group %s reads the group's tiers", instance.name, settings.group)
            scheduler.run()
