"""Failures in the log: every kind is seen, none floods it."""

from __future__ import annotations

import logging

from consumers.clock import monotonic_s
from topology.decision import DeadLetter, Decision, Discard, Failure, Retry
from topology.lineage import Lineage

_log = logging.getLogger(__name__)

WINDOW_S = 10.0
MOST = 5
"""So many lines of one kind (what was decided, and the exception's class) in one window."""


class FailureLog:
    """Tells of failed deliveries. One thread."""

    def __init__(self) -> None:
        self._window_s = 0.0
        self._told: dict[tuple[type[Decision], str], int] = {}

    def tell(self, lineage: Lineage, failure: Failure, decision: Decision) -> None:
        """Log one decision about a failure, unless there were many like it just now."""
        if not self._may_tell(type(decision), failure.exception):
            return
        which, attempt = lineage.message_id, lineage.deliveries
        why = f"{failure.exception}: {failure.message}"
        match decision:
            case Retry(delay_ms=delay):
                _log.info("%s failed at delivery %d, again in %d ms: %s", which, attempt, delay, why)
            case DeadLetter(reason=reason) | Discard(reason=reason):
                what = "dead-lettered" if isinstance(decision, DeadLetter) else "discarded"
                _log.warning("%s %s (%s) %s: %s", which, what, reason, _after(attempt), why)
            case _:
                pass

    def _may_tell(self, kind: type[Decision], exception: str) -> bool:
        now = monotonic_s()
        if now - self._window_s > WINDOW_S:
            for (what, which), number in self._told.items():
                if number > MOST:
                    _log.info(
                        "%d more of %s after %s in %.0f s", number - MOST, what.__name__, which, now - self._window_s
                    )
            self._told.clear()
            self._window_s = now
        number = self._told[kind, exception] = self._told.get((kind, exception), 0) + 1
        return number <= MOST


def _after(deliveries: int) -> str:
    if deliveries == 0:
        return "before any delivery"
    return "after 1 delivery" if deliveries == 1 else f"after {deliveries} deliveries"
