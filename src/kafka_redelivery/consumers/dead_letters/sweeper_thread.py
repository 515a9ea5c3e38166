"""Creates sweepers, and runs one in a thread of a scheduler process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kafka_redelivery.consumers.clock import boottime_s, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper, SweeperDependencies
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.process.clients import Instance, open_reader, open_writer
from kafka_redelivery.consumers.telemetry.observers import SweeperObserver
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.record_deletion import RecordDeleter
from kafka_redelivery.transport.client_config import IDLE_FETCH, Config
from kafka_redelivery.transport.clients.outage import Report

_RESTART_S = 10.0
"""Time between an error and the restart."""


def dead_letter_sweeper(
    settings: Settings, instance: Instance, observer: SweeperObserver
) -> AbstractContextManager[None]:
    """Sweep in a thread while the block runs, if dead letters expire. After an error a new sweeper starts."""
    create = sweeper_factory(settings, instance, observer)
    if create is None:
        return nullcontext()
    return background_thread(
        "sweeper", lambda ended: create().run(ended), "expired dead letters are not removed", restart_s=_RESTART_S
    )


def sweeper_factory(settings: Settings, instance: Instance, observer: SweeperObserver) -> Callable[[], Sweeper] | None:
    """A function that creates sweepers, ``None`` if no dead letter expires."""
    plan = sweep_plan(settings)
    if not plan.expiring:
        return None
    clock = SweepClock(wall_clock_ms, boottime_s)  # shared: a jump that it has seen must outlive a sweeper's error

    return lambda: Sweeper(
        plan, open_dependencies(settings, plan, instance, observer, IDLE_FETCH, clock, report=_ignore_waits)
    )


def _ignore_waits(client: str, problem: str | None, *, call: bool = False) -> None:
    """A sweeper that waits for Kafka does not make its process wait."""


def open_dependencies(
    settings: Settings,
    plan: SweepPlan,
    instance: Instance,
    observer: SweeperObserver,
    changes: Config,
    clock: SweepClock | None = None,
    report: Report | None = None,
) -> SweeperDependencies:
    """Open the clients of a sweeper.

    Args:
        settings: the configuration.
        plan: the plan made from it.
        instance: the name of this process.
        observer: receives the sweeper's reports.
        changes: client settings of its consumer that differ from the usual ones.
        clock: decides what has expired; ``None`` = a new one.
        report: of the writer; see :func:`open_writer`.

    Raises:
        TransportError: a client cannot be opened.
    """
    group = sweeper_group(settings.group)
    reader = open_reader(settings, group, instance, changes=changes)
    try:
        calls = PartitionOffsets(settings.kafka).calls
        return SweeperDependencies(
            reader=reader,
            writer=open_writer(settings, "sweeper", instance, reader, report) if plan.moving else None,
            deleter=RecordDeleter(settings.kafka, calls=calls),
            time=BrokerTime(settings.kafka, group, reader),
            clock=clock or SweepClock(wall_clock_ms, boottime_s),
            observer=observer,
            calls=calls,
        )
    except BaseException:
        reader.close()
        raise
