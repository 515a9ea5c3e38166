"""The group's scheduler in a thread of the driver, for jobs beside which no other process may run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.process.pause_watch import watch_pauses
from kafka_redelivery.consumers.scheduler.run import open_scheduler
from kafka_redelivery.consumers.scheduler.scheduler import Scheduler
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.pipeline.errors import StreamHaltedError
from kafka_redelivery.pipeline.stream.membership import NAME
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor
from kafka_redelivery.topology.cluster.plan import schedules_in_driver
from kafka_redelivery.topology.config.settings import Settings

_log = logging.getLogger(__name__)

_SUBJECT: Final = "pipeline.scheduler"
_RESTART_S: Final = 10.0
"""Time between an error and the restart."""


class DriverScheduler:
    """A scheduler with its own clients. One thread runs it; the main thread checks and stops it."""

    def __init__(self, settings: Settings, monitor: QueryMonitor) -> None:
        """Run nothing yet."""
        self._settings = settings
        self._monitor = monitor
        self._health = self._new_health()
        self._scheduler: Scheduler | None = None
        self._stopping = False

    def run(self, _ended: threading.Event) -> None:
        """Release records until :meth:`stop` is called.

        Raises:
            TransportError: Kafka refuses a request for good.
        """
        self._health = self._new_health()
        instance = Instance(NAME, stable=True)
        with (
            watch_pauses(self._settings, "scheduler", instance.name, self._health) as pauses,
            open_scheduler(self._settings, instance, self._health, self._monitor.scheduler, pauses) as scheduler,
        ):
            _log.info("the scheduler of group %s runs in the driver", self._settings.group)
            self._scheduler = scheduler
            if self._stopping:  # stop() was called before there was a scheduler
                scheduler.stop()
            scheduler.run()

    def stop(self) -> None:
        """Let the scheduler finish its write and end."""
        self._stopping = True
        if self._scheduler is not None:
            self._scheduler.stop()

    def check(self) -> None:
        """Show in the driver's ``/readyz`` what the scheduler waits for.

        Raises:
            StreamHaltedError: the scheduler hangs.
        """
        alive, (ready, text) = self._health.alive(), self._health.ready()
        if not alive.ok:
            raise StreamHaltedError(
                f"the scheduler in the driver hangs: {alive.reason}; the query ends, too: start it again"
            )
        note = text.partition("\n")[2] if ready else f"the scheduler in the driver: {text}"
        self._monitor.health.note(_SUBJECT, note)

    def _new_health(self) -> Health:
        return Health(self._settings.metrics.stalled_after)


@contextmanager
def scheduler_in_driver(settings: Settings, monitor: QueryMonitor) -> Iterator[DriverScheduler | None]:
    """Run the group's scheduler while the block runs, if it is configured to run in the driver.

    After an error it starts again; records are handled meanwhile.
    """
    if not schedules_in_driver(settings):
        yield None
        return
    scheduler = DriverScheduler(settings, monitor)
    consequence = "records whose delay is over are not released"
    with background_thread("scheduler", scheduler.run, consequence, restart_s=_RESTART_S):
        try:
            yield scheduler
        finally:
            scheduler.stop()
