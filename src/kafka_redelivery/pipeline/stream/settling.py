"""Runs that go on until no record waits for a redelivery."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.pipeline.stream.waiting_records import WaitingRecords

_log = logging.getLogger(__name__)

_MIN_PAUSE_S: Final = 1.0
_MAX_OVERDUE_PAUSE_S: Final = 10.0
_RELEASE_S: Final = 0.2
"""The time a release usually takes."""


def settle(
    handle: Callable[[], None],
    look: Callable[[], WaitingRecords],
    pause: Callable[[float], bool],
    within: timedelta,
) -> WaitingRecords | None:
    """Handle what is there, and again when waiting records are due, until none waits or the time is over.

    A run that would have to wait for longer than it may does not wait.

    Args:
        handle: handles the records that are there.
        look: counts the records that wait.
        pause: waits for so many seconds; returns whether to go on.
        within: how long to go on.

    Returns:
        what still waits; ``None`` if a pause says not to go on.
    """
    end_s = monotonic_s() + within.total_seconds()
    before, overdue_s = None, _MIN_PAUSE_S
    while True:
        handle()
        if not pause(0):
            return None
        waiting = look()
        overdue_s = _MIN_PAUSE_S if waiting != before else min(2 * overdue_s, _MAX_OVERDUE_PAUSE_S)
        pause_s = max(overdue_s, _left_s(waiting))
        if not waiting.number or monotonic_s() + pause_s > end_s:
            return waiting
        if waiting != before:
            _log.info("%s", waiting)
        before = waiting
        if not pause(pause_s):
            return None


def _left_s(waiting: WaitingRecords) -> float:
    """Return the seconds until the first record is there; negative if it is overdue."""
    return 0.0 if waiting.first_ms is None else (waiting.first_ms - wall_clock_ms()) / 1000 + _RELEASE_S
