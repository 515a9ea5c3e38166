"""A machine whose clock is ahead removes no dead letter before it has expired by Kafka's clock."""

import threading

from kafka_redelivery.consumers.clock import boottime_s
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper, SweeperDependencies
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver, Swept
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan, sweeper_group
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.partition_offsets import RecordDeleter
from kafka_redelivery.transport.client_config import consumer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from tests.scenarios.letters import expiring, kept, letter, now_ms
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

_DAY_MS = 86_400_000


class _RecordingObserver(NoOpSweeperObserver):
    def __init__(self) -> None:
        self.passes: list[Swept] = []

    def swept(self, details: Swept) -> None:
        self.passes.append(details)

    def faults(self) -> int:
        return sum(details.clock_faults for details in self.passes)

    def removed(self) -> int:
        return sum(number for details in self.passes for number in details.removed.values())


def test_a_clock_that_is_days_ahead_removes_nothing_early(group: Group) -> None:
    """Two have expired and two expire in an hour: only the former are removed, though the clock says all are due."""
    group.prepare(1, policyEntry=expiring(3_600_000))
    group.cluster.produce(
        group.dead_letters,
        [letter(group, n, expires) for n, expires in enumerate([1000, 1000, *[now_ms() + 3_600_000] * 2])],
    )
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    observer = _RecordingObserver()
    clock = SweepClock(lambda: now_ms() + 10 * _DAY_MS, boottime_s)

    def run(ended: threading.Event) -> None:
        Sweeper(sweep_plan(settings), _dependencies(settings, clock, observer)).run(ended)

    # As in a scheduler, the sweeper starts again after an error, such as a request that Kafka does not answer in time.
    with background_thread("sweeper", run, "expired dead letters are not removed", restart_s=1.0):
        until(lambda: observer.removed() >= 2, "what has expired is removed")
        until(observer.faults, "the clock fault is reported")
    assert kept(group) == [2, 3]
    assert observer.removed() == 2


def _dependencies(settings: Settings, clock: SweepClock, observer: _RecordingObserver) -> SweeperDependencies:
    name = sweeper_group(settings.group)
    reader = GroupReader(consumer_config(settings.kafka, group=name, instance=None))
    return SweeperDependencies(
        reader=reader,
        writer=None,
        deleter=RecordDeleter(settings.kafka),
        time=BrokerTime(settings.kafka, name, reader),
        clock=clock,
        observer=observer,
    )
