"""A machine whose clock is ahead removes nothing that has not expired by Kafka's own clock."""

import threading

from consumers.clock import steady_s
from consumers.observer import Silent, Swept
from consumers.sweep_clock import SweepClock
from consumers.sweeper import Parts, Sweeper
from tests.scenarios.letters import expiring, kept, letter, now_ms
from tests.scenarios.running import Group
from tests.scenarios.waiting import until
from topology.configuration import load_settings
from topology.sweep_plan import sweep_plan, sweeper_group
from transport.broker_time import BrokerTime
from transport.client_config import consumer_config
from transport.reader import Reader
from transport.removal import Remover

_DAY_MS = 86_400_000


class _Noting(Silent):
    def __init__(self) -> None:
        self.told: list[Swept] = []

    def swept(self, details: Swept) -> None:
        self.told.append(details)

    def faults(self) -> int:
        return sum(details.clock_faults for details in self.told)

    def removed(self) -> int:
        return sum(number for details in self.told for number in details.removed.values())


def test_a_clock_that_is_days_ahead_removes_nothing_early(group: Group) -> None:
    """Two have expired, two will in an hour: only the former go, though by this clock all are old."""
    group.prepare(1, policyEntry=expiring(3_600_000))
    group.cluster.produce(
        group.dead_letters,
        [letter(group, n, expires) for n, expires in enumerate([1000, 1000, *[now_ms() + 3_600_000] * 2])],
    )
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    name = sweeper_group(group.name)
    noting = _Noting()
    reader = Reader(consumer_config(settings.kafka, group=name, instance=None))
    parts = Parts(
        reader=reader,
        writer=None,
        remover=Remover(settings.kafka),
        time=BrokerTime(settings.kafka, name, reader),
        clock=SweepClock(lambda: now_ms() + 10 * _DAY_MS, steady_s),
        observer=noting,
    )
    ended = threading.Event()
    raised: list[BaseException] = []
    thread = threading.Thread(target=_run, args=(Sweeper(sweep_plan(settings), parts), ended, raised))
    thread.start()
    try:
        until(lambda: noting.removed() or raised, "what has expired is removed")
        until(lambda: noting.faults() or raised, "the fault of the clock is told")
    finally:
        ended.set()
        thread.join()
    assert not raised
    assert kept(group) == [2, 3]
    assert noting.removed() == 2


def _run(sweeper: Sweeper, ended: threading.Event, raised: list[BaseException]) -> None:
    try:
        sweeper.run(ended)
    except BaseException as error:  # noqa: BLE001 - raised by the test
        raised.append(error)
