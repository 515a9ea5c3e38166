"""Start and end of a worker or scheduler process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.process.memory import infrequent_garbage_collection
from kafka_redelivery.consumers.process.pause_watch import PauseWatch, watch_pauses
from kafka_redelivery.consumers.process.signals import stop_on_signal
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Measurements, measurements, serve_metrics
from kafka_redelivery.consumers.telemetry.observers import report_halts
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.preflight import verify


@dataclass(frozen=True, slots=True)
class Process:
    """A worker or scheduler process: its name, and what it reports to."""

    settings: Settings
    instance: Instance
    health: Health
    observer: Measurements
    pauses: PauseWatch
    """What it must not handle now, and what else the control topic says."""

    @contextmanager
    def until_stopped(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call ``stop`` on SIGTERM or SIGINT while the block runs, and report why it ends if that protects data."""
        with (
            infrequent_garbage_collection(),
            stop_on_signal(stop, self.settings.limits.shutdown_timeout),
            report_halts(self.observer),
        ):
            yield


@contextmanager
def start_process(settings: Settings, role: str) -> Iterator[Process]:
    """Check the topics, read the pauses, and serve metrics and probes while the block runs.

    Args:
        settings: the configuration.
        role: ``worker`` or ``scheduler``.

    Raises:
        TopologyRefusedError: the topics would lose data.
        TransportError: Kafka cannot be asked about the topics or the pauses.
        CannotStartError: the port of the endpoint cannot be opened.
    """
    verify(settings, AclRole(role))
    instance = Instance.from_settings(settings)
    health = Health(settings.metrics.stalled_after)
    with (
        serve_metrics(settings, role, instance.name, health) as observer,
        watch_pauses(settings, role, instance.name, health) as pauses,
    ):
        yield Process(settings, instance, health, observer, pauses)


@contextmanager
def start_part(settings: Settings, role: str, instance: Instance, health: Health) -> Iterator[Process]:
    """Start a role in a process that has others, too, and one endpoint for all.

    Args:
        settings: the configuration.
        role: ``worker`` or ``scheduler``.
        instance: the name of this one.
        health: its own.

    Raises:
        TopologyRefusedError, TransportError: as :func:`start_process`.
    """
    verify(settings, AclRole(role))
    observer = measurements(settings, role, instance.name)
    with watch_pauses(settings, role, instance.name, health) as pauses:
        yield Process(settings, instance, health, observer, pauses)
