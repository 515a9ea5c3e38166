"""The clock that decides what has expired: never ahead of the brokers' clock, and never following a jump ahead."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafka_redelivery.consumers.clock import Clock

_log = logging.getLogger(__name__)

_TOLERANCE_MS = 1000
"""Clocks that differ by less agree. An adjusted clock slews by far less between two calls."""


class SweepClock:
    """The wall clock minus the time by which it is known to be ahead.

    The brokers tell how far it is ahead; they are asked before anything is removed (:meth:`compare`). Where the user
    may not ask them, a monotonic clock reveals a jump ahead. Removing late is harmless, removing early is not.
    """

    def __init__(self, wall: Clock, steady_s: Callable[[], float]) -> None:
        """Trust the wall clock as it is now.

        Args:
            wall: epoch ms.
            steady_s: monotonic seconds that also count while the machine is suspended.
        """
        self._wall = wall
        self._steady_s = steady_s
        self._difference_ms = self._wall_minus_steady_ms()
        self._ahead_ms = 0
        self.faults = 0
        """How often the wall clock was found ahead since this was last set to 0."""

    def now_ms(self) -> int:
        """Epoch ms."""
        difference_ms = self._wall_minus_steady_ms()
        jump_ms = difference_ms - self._difference_ms
        self._difference_ms = difference_ms
        if jump_ms > _TOLERANCE_MS:
            self.faults += 1
            self._ahead_ms += jump_ms
            _log.warning("the clock jumped ahead by %d ms; dead letters still expire by the time before it", jump_ms)
        elif jump_ms < -_TOLERANCE_MS:
            self._ahead_ms = max(0, self._ahead_ms + jump_ms)
        return self._wall() - self._ahead_ms

    def compare(self, brokers_ms: int) -> None:
        """Compare with the brokers' current time (epoch ms), which replaces the wall clock if that is ahead."""
        self.now_ms()
        ahead_ms = self._wall() - brokers_ms
        if ahead_ms <= _TOLERANCE_MS:
            self._ahead_ms = 0
            return
        if abs(ahead_ms - self._ahead_ms) > _TOLERANCE_MS:
            self.faults += 1
            _log.warning("the clock is %d ms ahead of Kafka's; dead letters are removed by Kafka's clock", ahead_ms)
        self._ahead_ms = ahead_ms

    def _wall_minus_steady_ms(self) -> int:
        return self._wall() - round(self._steady_s() * 1000)
