"""One sweeper after another, where one could not go on."""

from threading import Event
from typing import cast

import pytest

from consumers.clients import Instance
from consumers.clock import steady_s, wall_clock_ms
from consumers.metrics import Build, Measurements
from consumers.observer import Silent, SweepStanding
from consumers.sweep_clock import SweepClock
from consumers.sweeper import Parts, Sweeper
from consumers.sweeping import sweepers
from tests.unit.consumers.doubles import StoredOffsets
from topology.configuration import load_settings
from topology.metric_catalogue import SWEEP_RESTING
from topology.sweep_plan import sweep_plan
from transport.broker_time import BrokerTime
from transport.errors import ReaderError
from transport.reader import Reader
from transport.removal import Remover

SETTINGS = load_settings("""
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1", log_level: 0}
sources: [{topic: orders}]
policyEntry: {deadLetterStrategy: {expiration: 60000}}
""")


def test_a_jump_of_the_clock_is_remembered_after_an_error() -> None:
    """What was not followed by one sweeper is not taken for granted by the next."""
    make = sweepers(SETTINGS, Instance("s1", stable=True), Silent())
    assert make is not None
    assert make()._clock is make()._clock


def test_a_sweeper_that_ended_tells_of_nothing() -> None:
    """What it waited for is somebody else's now, or nobody's."""
    told = Measurements(Build("1", "scheduler", "billing", "s1"))
    told.sweep_stands(SweepStanding({}, {("DLQ.orders", "never"): 3}))
    reader = cast("Reader", StoredOffsets())
    clock = SweepClock(wall_clock_ms, steady_s)
    time = BrokerTime(SETTINGS.kafka, "billing.sweeper", reader)
    sweeper = Sweeper(sweep_plan(SETTINGS), Parts(reader, None, Remover(SETTINGS.kafka), time, clock, told))
    with pytest.raises(ReaderError, match="no dead-letter topic"):
        sweeper.run(Event())
    [family] = [family for family in told.collect() if family.name == SWEEP_RESTING.name]
    assert family.samples == []
