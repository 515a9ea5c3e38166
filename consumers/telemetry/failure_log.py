"""Log lines about failed deliveries and dropped dead letters, limited so that a burst does not flood the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.topology.policy.decision import DeadLetter, Decision, Discard, Failure, Retry
from kafka_redelivery.topology.policy.lineage import Lineage

_log = logging.getLogger(__name__)

WINDOW_S = 10.0
MAX_LINES_PER_KIND = 5
"""Lines per window for one kind of failure: one decision class and one exception class."""


class FailureLog:
    """Logs decisions about failed deliveries. Used by one thread."""

    def __init__(self) -> None:
        self._window_start_s = 0.0
        self._numbers: dict[tuple[type[Decision], str], int] = {}
        """Failures of each kind in the current window."""

    def log(self, lineage: Lineage, failure: Failure, decision: Decision) -> None:
        """Log one decision, unless the window has :data:`MAX_LINES_PER_KIND` lines of its kind already."""
        if not self._admit(type(decision), failure.exception):
            return
        record, attempt = lineage.message_id, lineage.deliveries
        cause = f"{failure.exception}: {failure.message}"
        match decision:
            case Retry(delay_ms=delay):
                _log.info("%s failed at delivery %d, next delivery in %d ms: %s", record, attempt, delay, cause)
            case DeadLetter(reason=reason) | Discard(reason=reason):
                verb = "dead-lettered" if isinstance(decision, DeadLetter) else "discarded"
                _log.warning("%s %s (%s) %s: %s", record, verb, reason, _after(attempt), cause)
            case _:
                pass

    def _admit(self, decision: type[Decision], exception: str) -> bool:
        now_s = monotonic_s()
        if now_s - self._window_start_s > WINDOW_S:
            self._log_suppressed(now_s - self._window_start_s)
            self._numbers.clear()
            self._window_start_s = now_s
        number = self._numbers[decision, exception] = self._numbers.get((decision, exception), 0) + 1
        return number <= MAX_LINES_PER_KIND

    def _log_suppressed(self, window_s: float) -> None:
        for (decision, exception), number in self._numbers.items():
            suppressed = number - MAX_LINES_PER_KIND
            if suppressed > 0:
                _log.info("%d more of %s after %s in %.0f s", suppressed, decision.__name__, exception, window_s)


class DiscardReport:
    """Logs the total of dropped dead letters at every ``reportInterval`` of the discarding plugin. One thread."""

    def __init__(self) -> None:
        self._totals: Counter[int] = Counter()
        """Dead letters dropped since the process started, by report interval."""

    def add(self, dropped: Mapping[int, int]) -> None:
        """Add the dead letters that a confirmed write has dropped, by the report interval of their plugin."""
        for interval, number in dropped.items():
            before = self._totals[interval]
            after = self._totals[interval] = before + number
            for total in range((before // interval + 1) * interval, after + 1, interval):
                _log.info("the discarding plugin has dropped %d dead letters since this process started", total)


def _after(deliveries: int) -> str:
    if deliveries == 0:
        return "before any delivery"
    return "after 1 delivery" if deliveries == 1 else f"after {deliveries} deliveries"
