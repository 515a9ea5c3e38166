"""Twenty workers and one control topic: one closes an outage, the others follow within seconds, without a stampede."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

import pytest

from kafka_redelivery.consumers.flow.outages import SPREAD_S
from kafka_redelivery.topology.config.settings import DependencySection, Ordering
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.records import NOW
from tests.unit.consumers.simulation import Bank, ControlTopic, SimulatedKafka, SimulatedWorker, simulated_kafka

_WORKERS: Final = 20
_SLOTS: Final = 8
_RAMP_S: Final = 3.0
"""1, 2, 4, 8: three steps."""

_LONGEST_S: Final = 20.0
_SECTION: Final = DependencySection.model_validate({"longestPause": "20s"})
_ROUND_S: Final = 0.25
_AWAY_S: Final = 60.0
"""Long enough that all pauses have their full length: 5 + 10 + 20 s are less."""


class _Member:
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


class _Group:
    def __init__(self, *, records: int = 120, control: ControlTopic | None = None, cut_off: Iterable[int] = ()) -> None:
        self._kafka = simulated_kafka([records] * _WORKERS, ordering=Ordering.UNORDERED, slots=_SLOTS, waits=False)
        control = ControlTopic() if control is None else control
        for_ever, at_first = [(0, 10**9)], [(0, round(_AWAY_S * 1000))]
        self.members = [
            _Member(self._kafka, n, Bank(for_ever if n in cut_off else at_first, _SECTION, control=control))
            for n in range(_WORKERS)
        ]

    def run(self, until_s: float, ended: Callable[[], bool] = lambda: False, *, round_s: float = _ROUND_S) -> float:
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
        self.run(_AWAY_S, round_s=1.0)
        assert all(member.tries(answered=False) for member in self.members)


def _assert_no_stampede(member: _Member) -> None:
    """From second to second the calls in flight at most double."""
    first_s = member.tries(answered=True)[0]
    for at_s, calls in member.curve:
        if at_s >= first_s:
            assert calls <= 2 ** int(at_s - first_s), (at_s - first_s, calls)


def test_all_are_at_full_load_soon_after_one_has_closed() -> None:
    """All have met the outage. The first that finds the bank back makes the others try within three seconds."""
    group = _Group()
    group.meet()
    before = [len(member.tries(answered=False)) for member in group.members]
    group.run(_AWAY_S + _LONGEST_S + SPREAD_S + _RAMP_S + 2)

    first = [member.tries(answered=True)[0] for member in group.members]
    closed_s = min(first)
    assert max(first) <= closed_s + SPREAD_S + 2 * _ROUND_S
    assert len(set(first)) > _WORKERS // 4
    assert max(member.full_s(closed_s) for member in group.members) <= max(first) + _RAMP_S + 2 * _ROUND_S
    for member, calls in zip(group.members, before, strict=True):
        assert calls <= _SLOTS + 7  # those in flight when it opened, and one after each pause
        _assert_no_stampede(member)


@pytest.mark.parametrize("control", [ControlTopic(shared=False), ControlTopic(compacted=True)])
def test_nobody_waits_for_ever_who_sees_no_closing(control: ControlTopic) -> None:
    """Each worker finds out by itself, at the latest after its longest pause."""
    group = _Group(control=control)
    group.meet()
    group.run(_AWAY_S + _LONGEST_S + _RAMP_S + 2)

    assert all(member.full_s(_AWAY_S) <= _AWAY_S + _LONGEST_S + _RAMP_S + 2 * _ROUND_S for member in group.members)
    for member in group.members:
        _assert_no_stampede(member)


@pytest.mark.parametrize("number", [1, 10])
def test_workers_that_are_cut_off_by_themselves(number: int) -> None:
    """They neither stop the others nor are driven by them: their pauses stay long."""
    group = _Group(cut_off=range(number))
    cut_off, others = group.members[:number], group.members[number:]
    group.meet()
    closed_s = group.run(_AWAY_S + _LONGEST_S, lambda: any(each.tries(answered=True) for each in others))
    group.run(closed_s + SPREAD_S + _RAMP_S + 1)
    group.run(closed_s + 4 * _LONGEST_S, round_s=1.0)

    assert all(each.full_s(_AWAY_S) <= closed_s + SPREAD_S + _RAMP_S + 2 * _ROUND_S for each in others)
    assert all(len(each.bank.calls) > 120 for each in others)
    assert not any(each.tries(answered=False, since_s=_AWAY_S) for each in others)
    for each in cut_off:
        later = each.tries(answered=False, since_s=closed_s + 2 * SPREAD_S)
        assert len(later) >= 2
        assert all(after - earlier >= 0.9 * _LONGEST_S for earlier, after in pairwise(later))
        assert len(each.tries(answered=False, since_s=closed_s)) <= len(later) + 4
