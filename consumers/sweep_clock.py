"""The time that dead letters are removed by: not ahead of the brokers', nor of our own before it jumped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from consumers.clock import Clock

_log = logging.getLogger(__name__)

_TOLERANCE_MS = 1000
"""Clocks that differ by less agree; one that is merely adjusted slews by far less between two looks."""


class SweepClock:
    """The wall clock, held back by as much as it is known to be ahead.

    That is known from the brokers, who are asked before anything is removed (:meth:`compare`), and, where they may
    not be asked, from a clock that only ever grows: a jump ahead of it is not followed. Late is harmless, early is not.
    """

    def __init__(self, wall: Clock, steady_s: Callable[[], float]) -> None:
        """Trust the wall clock as it is now.

        Args:
            wall: epoch ms.
            steady_s: seconds that only ever grow, also while the machine is suspended.
        """
        self._wall = wall
        self._steady_s = steady_s
        self._base_ms = self._difference_ms()
        self._ahead_ms = 0
        self.faults = 0
        """How often the wall clock was found ahead, since it was last set to 0."""

    def now_ms(self) -> int:
        """Epoch ms."""
        difference_ms = self._difference_ms()
        jump_ms = difference_ms - self._base_ms
        self._base_ms = difference_ms
        if jump_ms > _TOLERANCE_MS:
            self.faults += 1
            self._ahead_ms += jump_ms
            _log.warning("the clock jumped ahead by %d ms; no dead letter is removed by that", jump_ms)
        elif jump_ms < -_TOLERANCE_MS:
            self._ahead_ms = max(0, self._ahead_ms + jump_ms)
        return self._wall() - self._ahead_ms

    def compare(self, brokers_ms: int) -> None:
        """The brokers' clock says ``brokers_ms`` now; it is believed where ours is ahead of it."""
        self.now_ms()
        ahead_ms = self._wall() - brokers_ms
        if ahead_ms <= _TOLERANCE_MS:
            self._ahead_ms = 0
            return
        if abs(ahead_ms - self._ahead_ms) > _TOLERANCE_MS:
            self.faults += 1
            _log.warning("the clock is %d ms ahead of Kafka's; dead letters are removed by Kafka's", ahead_ms)
        self._ahead_ms = ahead_ms

    def _difference_ms(self) -> int:
        return self._wall() - round(self._steady_s() * 1000)
