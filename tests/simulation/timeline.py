"""Simulated time: events in their order, and the product's clocks set to it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from types import ModuleType

from kafka_redelivery.consumers import clock

START_MS = 1_800_000_000_000
"""The wall clock at the beginning (epoch ms)."""

_CLOCKS = ("monotonic_s", "wall_clock_ms", "failure_clock_ms")


class Timeline:
    """Calls what is due, in the order of times and, at one time, of requests."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._sequence = count()

    def at(self, when_s: float, call: Callable[[], object]) -> None:
        """Call something at a time, now at the earliest."""
        heappush(self._events, (max(when_s, self.now_s), next(self._sequence), call))

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call something some seconds from now."""
        self.at(self.now_s + seconds, call)

    def run(self, until_s: float) -> None:
        """Let the time pass until then."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, call = heappop(self._events)
            call()
        self.now_s = until_s

    def monotonic_s(self) -> float:
        """Seconds since the beginning, and a bit: the product's code takes 0 for "never"."""
        return self.now_s + 1.0

    def wall_clock_ms(self) -> int:
        """Epoch ms, rounded down."""
        return START_MS + int(self.now_s * 1000)

    def failure_clock_ms(self) -> int:
        """Epoch ms, rounded up."""
        return START_MS - int(-self.now_s * 1000 // 1)


@contextmanager
def as_clock(timeline: Timeline) -> Iterator[None]:
    """Replace the clocks in all imported modules of ``consumers`` while the block runs."""
    replaced: list[tuple[ModuleType, str, object]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith("kafka_redelivery.consumers"):
            for each in _CLOCKS:
                if getattr(module, each, None) is getattr(clock, each) and module is not clock:
                    replaced.append((module, each, getattr(module, each)))
                    setattr(module, each, getattr(timeline, each))
    try:
        yield
    finally:
        for module, each, former in replaced:
            setattr(module, each, former)
