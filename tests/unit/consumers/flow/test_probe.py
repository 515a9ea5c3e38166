"""The probe of a dependency: which worker calls it, and that no record waits for ever for its answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kafka_redelivery.consumers.flow.probe import Probe, as_probe
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import ProbeLease, read_lease


class _View:
    """A control topic that shows what is written to it, if ``writable``."""

    def __init__(self, *, shared: bool = True, writable: bool = True) -> None:
        self.shared, self._writable = shared, writable
        self.probes: dict[str, ProbeLease] = {}

    def publish(self, records: list[ControlRecord]) -> None:
        """See :class:`ProbeView`."""
        for _, value in records if self._writable else ():
            lease = read_lease(value)
            assert lease is not None
            self.probes = {"bank": lease}


class _Calls:
    """A probe, and the time that its worker knows."""

    def __init__(self, view: _View, name: str = "w1") -> None:
        self.number, self.now_s = 0, 0.0
        self.raises: BaseException | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.probe = Probe(
            "bank", self._bank, name, view, clock_s=lambda: self.now_s, clock_ms=lambda: round(self.now_s * 1000)
        )

    def _bank(self) -> None:
        self.number += 1
        self.answers.wait(20)
        if self.raises is not None:
            raise self.raises

    def ask_until(self, end_s: float) -> None:
        """Ask ten times a second. Real time passes only for the thread that calls."""
        while self.now_s < end_s:
            self.probe.ask(5.0)
            self.now_s += 0.1
            time.sleep(0.001)

    def answer(self) -> bool | None:
        """Return the answer of a call that ends soon."""
        for _ in range(2000):
            answer = self.probe.take_answer()
            if answer is not None:
                return answer
            time.sleep(0.005)
        return None


def test_without_a_control_topic_each_worker_calls_it() -> None:
    """At once."""
    calls = _Calls(_View(shared=False))
    calls.ask_until(0.1)
    assert calls.answer() is True


def test_one_worker_of_two_calls_it() -> None:
    """The one that wrote the last lease."""
    view = _View()
    first, second = _Calls(view, "w1"), _Calls(view, "w2")
    for tenth in range(1, 45):
        for each in (first, second):
            each.ask_until(tenth / 10)
    assert first.number + second.number == 1


def test_a_control_topic_that_cannot_be_written_keeps_nobody_waiting() -> None:
    """Then each worker calls it for itself."""
    calls = _Calls(_View(writable=False))
    calls.ask_until(4)
    assert calls.answer() is True


@pytest.mark.parametrize("error", [ValueError("away"), SystemExit(1)])
def test_whatever_it_raises_it_is_away(error: BaseException) -> None:
    """It is called again after that."""
    calls = _Calls(_View(shared=False))
    calls.raises = error
    for number in (1, 2):
        calls.probe.ask(5.0)
        assert calls.answer() is False
        assert calls.number == number


def test_one_that_does_not_return_is_known() -> None:
    """So that records are tried instead."""
    calls = _Calls(_View(shared=False))
    calls.answers.clear()
    calls.ask_until(50)
    assert not calls.probe.hangs
    calls.ask_until(70)
    assert calls.probe.hangs
    calls.answers.set()
    assert calls.answer() is True
    assert not calls.probe.hangs


def test_a_late_answer_is_none_of_the_next_outage() -> None:
    """The call began before the outage that it was made for was over."""
    calls = _Calls(_View(shared=False))
    calls.answers.clear()
    calls.probe.ask(5.0)
    calls.probe.forget()
    calls.answers.set()
    for _ in range(2000):
        calls.probe.ask(5.0)
        if calls.number == 2:
            break
        assert calls.probe.take_answer() is None
        time.sleep(0.005)

    assert calls.number == 2
    assert calls.answer() is True


class _Asks:
    """A probe that is an object with an asynchronous call."""

    async def __call__(self) -> bool:
        return False


async def _async() -> bool:
    return False


@pytest.mark.parametrize("function", [_Asks(), _async, lambda: False])
def test_an_asynchronous_probe_is_awaited(function: Callable[[], object]) -> None:
    """Otherwise its coroutine, which is not false, would count as an answer."""
    assert as_probe(function)() is False
