"""What a sweeper leaves to the next one after an error."""

from threading import Event
from typing import cast

import pytest

from kafka_redelivery.consumers.clock import boottime_s, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper, SweeperDependencies
from kafka_redelivery.consumers.dead_letters.sweeper_thread import sweeper_factory
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver, SweeperState
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.metric_catalogue import SWEEP_RESTING
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.record_deletion import RecordDeleter
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import ReaderError
from tests.unit.consumers.doubles import StoredOffsets

SETTINGS = load_settings("""
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1", log_level: 0}
sources: [{topic: orders}]
policyEntry: {deadLetterStrategy: {expiration: 60000}}
""")


def test_sweepers_share_their_clock() -> None:
    """A new sweeper knows the jumps of the clock that the previous one has seen."""
    create = sweeper_factory(SETTINGS, Instance("s1", stable=True), NoOpSweeperObserver())
    assert create is not None
    assert create()._clock is create()._clock


def test_the_state_is_cleared_when_a_sweeper_ends() -> None:
    """Its partitions belong to another sweeper now, or to none."""
    measurements = Measurements(Build("1", "scheduler", "billing", "s1"))
    measurements.sweeper_state(SweeperState({}, {("DLQ.orders", "never"): 3}))
    reader = cast("GroupReader", StoredOffsets())
    clock = SweepClock(wall_clock_ms, boottime_s)
    time = BrokerTime(SETTINGS.kafka, "billing.sweeper", reader)
    sweeper = Sweeper(
        sweep_plan(SETTINGS),
        SweeperDependencies(reader, None, RecordDeleter(SETTINGS.kafka), time, clock, measurements),
    )
    with pytest.raises(ReaderError, match="no dead-letter topic"):
        sweeper.run(Event())
    [family] = [family for family in measurements.collect() if family.name == SWEEP_RESTING.name]
    assert family.samples == []
