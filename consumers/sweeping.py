"""Makes sweepers, and runs one on a thread of its own; what goes wrong with it does not end what works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from consumers.beside import beside
from consumers.clients import Instance, reader_of, writer_of
from consumers.clock import steady_s, wall_clock_ms
from consumers.observer import Observer
from consumers.sweep_clock import SweepClock
from consumers.sweeper import Parts, Sweeper
from topology.settings import Settings
from topology.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from transport.broker_time import BrokerTime
from transport.client_config import LEISURELY, Config
from transport.removal import Remover

_AGAIN_S = 10.0
"""After an error."""


def sweepers(settings: Settings, instance: Instance, observer: Observer) -> Callable[[], Sweeper] | None:
    """What makes a sweeper that is in no hurry, ``None`` where no dead letter expires."""
    plan = sweep_plan(settings)
    if not plan.expiring:
        return None
    clock = SweepClock(wall_clock_ms, steady_s)  # one for all: what it knows of a jump outlives an error

    return lambda: Sweeper(plan, sweeper_parts(settings, plan, instance, observer, LEISURELY, clock))


def sweeper_parts(
    settings: Settings,
    plan: SweepPlan,
    instance: Instance,
    observer: Observer,
    adjusted: Config,
    clock: SweepClock | None = None,
) -> Parts:
    """What a sweeper works with: clients of its own.

    Args:
        settings: the configuration.
        plan: made from it.
        instance: the name that its clients bear.
        observer: told what it does.
        adjusted: settings of its consumer.
        clock: what it goes by; ``None`` = a new one.

    Raises:
        TransportError: one of them cannot be had.
    """
    group = sweeper_group(settings.group)
    reader = reader_of(settings, group, instance, adjusted=adjusted)
    try:
        return Parts(
            reader=reader,
            writer=writer_of(settings, "sweeper", instance, reader) if plan.moving else None,
            remover=Remover(settings.kafka),
            time=BrokerTime(settings.kafka, group, reader),
            clock=clock or SweepClock(wall_clock_ms, steady_s),
            observer=observer,
        )
    except BaseException:
        reader.close()
        raise


def sweeping(make: Callable[[], Sweeper] | None) -> AbstractContextManager[None]:
    """Sweep, in a thread, while the block runs; after an error a new sweeper begins from the start.

    Args:
        make: makes a sweeper; ``None`` = there is nothing to sweep.
    """
    if make is None:
        return nullcontext()
    return beside("sweeper", lambda ended: make().run(ended), "expired dead letters are not removed", again_s=_AGAIN_S)
