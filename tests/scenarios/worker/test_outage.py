"""What a handler depends on goes away in mid-run and comes back; a worker is killed and one is added meanwhile."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.scenarios.handlers import BANK_AWAY, BANK_CALLS, BANK_PROBES
from tests.scenarios.running import SHORT_SESSION, Group, exactly, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.slow]

_BANK = {"unavailable": ["tests.scenarios.handlers:BankDownError"], "firstPause": "500ms", "longestPause": "1s"}


class _Bank:
    """The bank as the handlers of a group see it."""

    def __init__(self, folder: Path) -> None:
        self.away = folder / BANK_AWAY
        self._calls, self._probes = folder / BANK_CALLS, folder / BANK_PROBES

    @property
    def step(self) -> str:
        """The step of a script that calls it."""
        return f"bank {self.away}"

    def calls(self, *, away: bool) -> list[float]:
        """When it was called while it was away, or there (epoch seconds)."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [float(line.split()[0]) for line in lines if line.endswith(" 1") is away]

    def probes(self) -> list[float]:
        """When it was asked whether it is back."""
        return [float(line) for line in self._probes.read_text().splitlines()] if self._probes.exists() else []


def _prepare(group: Group, **more: object) -> _Bank:
    bank = _Bank(group.folder)
    other = f"{group.source}.other"
    json = {"format": "json"}
    group.prepare(
        kafka=SHORT_SESSION,
        sources=[
            {"topic": group.source, "value": json, "dependencies": ["bank"]},
            {"topic": other, "value": json},
        ],
        dependencies={"bank": {**_BANK, **more}},
        handler={"slots": 4, "ordering": "key"},
    )
    return bank


def test_nothing_is_lost_counted_or_stopped(group: Group) -> None:
    """No attempt is spent and nothing goes to a tier, also of records whose worker is killed meanwhile."""
    group.cluster.create(f"{group.source}.other", partitions=2)
    bank = _prepare(group)
    first = group.worker("w1")
    group.send([[bank.step]] * 100)
    group.settle()
    bank.away.touch()
    group.send([[bank.step]] * 400, first=100)
    until(lambda: len(bank.calls(away=True)) > 5, "it is tried again and again")

    group.cluster.produce(f"{group.source}.other", [script(n, ["ok"]) for n in range(1000, 1050)])
    until(lambda: all(n in group.outputs() for n in range(1000, 1050)), "a source that does not need it goes on")
    group.worker("w2")
    first.kill()
    seen = len(bank.calls(away=True))
    until(lambda: len(bank.calls(away=True)) > seen + 2, "the worker that has joined tries, too")
    bank.away.unlink()
    group.settle()
    group.stop()

    assert group.outputs() == exactly([*range(500), *range(1000, 1050)])
    assert not group.dead()
    assert all(set(attempts) == {1} for attempts in group.deliveries.attempts().values())
    assert not [topic for topic in group.internal()[1] if group.cluster.read(topic)]


def test_a_probe_is_asked_once_a_pause_for_the_group(group: Group) -> None:
    """No record is tried while it says that the bank is away, and the load goes on when it says that it is back."""
    group.cluster.create(f"{group.source}.other", partitions=2)
    bank = _prepare(group, probe="tests.scenarios.handlers:bank_answers", longestPause="2s")
    bank.away.touch()
    for name in ("w1", "w2"):
        group.worker(name)
    until(lambda: len(group.cluster.members(group.name)) == 2, "both are members")
    group.send([[bank.step]] * 100)
    until(lambda: len(bank.probes()) > 1, "the probe is asked")
    called = len(bank.calls(away=True))
    asked = len(bank.probes())
    until(lambda: len(bank.probes()) > asked + 1, "the probe is asked again")

    assert len(bank.calls(away=True)) == called
    bank.away.unlink()
    group.settle()
    group.stop()
    assert all(later - earlier > 0.4 for earlier, later in pairwise(bank.probes()))
    assert group.outputs() == exactly(range(100))
    assert not group.dead()
