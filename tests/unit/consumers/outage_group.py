"""Twenty simulated workers of one group, and a bank that is away from the start for a minute."""

from collections.abc import Callable, Iterable
from typing import Final

from kafka_redelivery.topology.config.settings import DependencySection, Ordering
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW
from tests.unit.consumers.simulation import Bank, ControlTopic, SimulatedKafka, SimulatedWorker, simulated_kafka

WORKERS: Final = 20
SLOTS: Final = 8
RAMP_S: Final = 3.0
"""1, 2, 4, 8: three steps."""

LONGEST_S: Final = 20.0
_SECTION: Final = DependencySection.model_validate({"longestPause": "20s"})
ROUND_S: Final = 0.25
AWAY_S: Final = 60.0
"""Long enough that all pauses have their full length: 5 + 10 + 20 s are less."""


class Member:
    """A worker with a partition and a line to the bank of its own."""

    def __init__(self, kafka: SimulatedKafka, number: int, bank: Bank) -> None:
        self.bank = bank
        self._worker = SimulatedWorker(kafka, [Partition("orders", number)], bank)
        self._slots = self._worker.slots[0]
        self.curve: list[tuple[float, int]] = []
        """How many calls it had in flight at most in each round (seconds since the start)."""

        self._without_limit: list[float] = []
        """In which rounds it had nothing of the outage left (seconds since the start)."""

    def turn(self, now_s: float) -> None:
        """Let it take one turn."""
        self._slots.most = 0
        self._worker.run(1)
        self.curve.append((now_s, self._slots.most))
        outages = self._worker.worker.outages
        if outages is not None and not outages.active:
            self._without_limit.append(now_s)

    def tries(self, *, answered: bool, since_s: float = 0.0) -> list[float]:
        """When it has called the bank (seconds since the start)."""
        return [at / 1000 for at, well in self.bank.calls if well is answered and at >= since_s * 1000]

    def full_s(self, since_s: float) -> float:
        """When its load could be full again."""
        return min(at_s for at_s in self._without_limit if at_s > since_s)


class WorkerGroup:
    """All of them, with a partition each."""

    def __init__(self, *, records: int = 120, control: ControlTopic | None = None, cut_off: Iterable[int] = ()) -> None:
        """Start all workers.

        Args:
            records: how many each of them has.
            control: what they tell each other.
            cut_off: the workers for which the bank never comes back.
        """
        self._kafka = simulated_kafka([records] * WORKERS, ordering=Ordering.UNORDERED, slots=SLOTS, waits=False)
        control = ControlTopic() if control is None else control
        for_ever, at_first = [(0, 10**9)], [(0, round(AWAY_S * 1000))]
        self.members = [
            Member(self._kafka, n, Bank(for_ever if n in cut_off else at_first, _SECTION, control=control))
            for n in range(WORKERS)
        ]

    def run(self, until_s: float, ended: Callable[[], bool] = lambda: False, *, round_s: float = ROUND_S) -> float:
        """Return when it ended."""
        now_s = (self._kafka.now_ms - NOW) / 1000
        while now_s < until_s and not ended():
            for member in self.members:
                member.turn(now_s)
            self._kafka.now_ms += round(round_s * 1000)
            now_s += round_s
        return now_s

    def meet(self) -> None:
        """Let all meet the outage, until it ends."""
        self.run(AWAY_S, round_s=1.0)
        assert all(member.tries(answered=False) for member in self.members)
