"""Log lines about failed deliveries and dropped dead letters.

Each dead letter has a line. Only the rate is limited, so that a burst does not flood the log.
"""

from __future__ import annotations

import linecache
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.topology.policy.decision import (
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureDetails,
    FailureKind,
    Halt,
    Raised,
    Retry,
)
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.printable import printable_line

_log = logging.getLogger(__name__)

WINDOW_S = 10.0
MAX_LINES = 100
"""Lines per window about dead letters of one exception class and place; as many about discarded records."""

MAX_RETRY_LINES = 5
"""Lines per window about retries of one exception class and place. A record that fails for good has its own line."""

_NAMES: Mapping[type[Decision], tuple[str, str]] = {
    Retry: ("retry", "retries"),
    DeadLetter: ("dead letter", "dead letters"),
    Discard: ("discarded record", "discarded records"),
    Halt: ("halt", "halts"),
}
_LINES: Mapping[type[Decision], int] = dict.fromkeys(_NAMES, MAX_LINES) | {Retry: MAX_RETRY_LINES}
_MAX_KEY_BYTES = 100
_MAX_CAUSE_LENGTH = 500


class FailureLog:
    """Logs decisions about failed deliveries. Used by one thread."""

    _ignored_delay_logged: ClassVar[bool] = False
    """Whether this process has logged that a delay of a handler was ignored."""

    def __init__(self, details: FailureDetails = FailureDetails.FULL) -> None:
        """Begin the first window. ``details``: whether lines have keys and texts of exceptions."""
        self._details = details
        self._window_start_s = 0.0
        self._numbers: dict[tuple[type[Decision], str, str], int] = {}
        """Failures of the current window, by decision class, exception class and place in the code. The first ones have
        a line; those that were reported are not counted any more."""

    def log(self, lineage: Lineage, failure: Failure, decision: Decision, key: bytes | None, place: str = "") -> None:
        """Log one decision, unless the window is full.

        Args:
            lineage: where the record comes from, with the delivery that failed.
            failure: why it failed.
            decision: what was decided.
            key: the record's key.
            place: where the record waits, if not where it comes from.
        """
        if failure.kind is FailureKind.FILTERED:
            return  # what a user filters away is no fault
        # Before the line is made: in a storm, few failures have one.
        if monotonic_s() - self._window_start_s >= WINDOW_S:
            self.report_left_out()
        kind = type(decision), failure.exception, failure.place
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        if number > _LINES[kind[0]]:
            return
        about = [] if self._details.class_only else [_key(key)]
        trace_id = failure.span[3:35]
        if trace_id:
            about.append(f"trace {trace_id}")
        if place:
            about.append(f"waits at {place}")
        record = f"{lineage.message_id} ({', '.join(about)})" if about else lineage.message_id
        failure = self._details.of(failure)
        cause = failure.cause
        cause = printable_line(cause if len(cause) <= _MAX_CAUSE_LENGTH else f"{cause[:_MAX_CAUSE_LENGTH]}...")
        deliveries = lineage.deliveries
        fields: dict[str, object] = {
            "topic": lineage.address,
            "origin": lineage.message_id,
            "attempt": deliveries,
            "exception": cause,
        }
        if not self._details.class_only:
            fields["key"] = None if key is None else key[:_MAX_KEY_BYTES].decode(errors="backslashreplace")
        if trace_id:
            fields["trace_id"] = trace_id
        match decision:
            case Retry(delay_ms=delay):
                fields["delay_ms"] = delay
                line = "%s failed at delivery %d, next delivery in %d ms: %s"
                _log.info(line, record, deliveries, delay, cause, extra=fields)
            case DeadLetter(reason=reason) | Discard(reason=reason):
                fields["reason"] = str(reason)
                verb = "dead-lettered" if isinstance(decision, DeadLetter) else "discarded"
                line = "%s %s (%s) %s: %s%s"
                frames = traceback_text(failure.chain)
                _log.warning(line, record, verb, reason, _after(deliveries), cause, frames, extra=fields)
            case _:
                pass

    def ignored_delay(self, lineage: Lineage) -> None:
        """Log that a record waits for the policy's delay instead of the handler's own; once per process."""
        if FailureLog._ignored_delay_logged:
            return
        FailureLog._ignored_delay_logged = True
        _log.warning(
            "%s waits for the policy's delay: Redeliver(after=...) has no effect without maximumHandlerDelay "
            "(maximum-handler-delay for Artemis); set it to the longest delay that a handler may request. "
            "Later cases are not logged",
            lineage.message_id,
        )

    def report_left_out(self, *, ending: bool = False) -> None:
        """At the end of the window, log how many failures have no line, and begin the next window.

        Args:
            ending: the process or task ends, so log it before the end of the window.
        """
        over = monotonic_s() - self._window_start_s >= WINDOW_S
        if not (over or ending):
            return
        for (decision, exception, at), number in self._numbers.items():
            left_out = number - _LINES[decision]
            if left_out > 0:
                level = logging.INFO if decision is Retry else logging.WARNING
                cause = f"{exception} in {at}" if at else exception
                what = _NAMES[decision][left_out > 1]
                _log.log(level, "%d more %s after %s, not logged one by one", left_out, what, cause)
        if over:
            self._numbers.clear()
            self._window_start_s = monotonic_s()
        else:
            self._numbers = {kind: min(number, _LINES[kind[0]]) for kind, number in self._numbers.items()}


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


def traceback_text(chain: Sequence[Raised]) -> str:
    """Return the frames of an exception, then those that led to it, each in lines of its own.

    The lines of source code are read now, on this machine; not if the exceptions have no texts, either.
    """
    lines = (line for number, each in enumerate(chain) for line in _lines(each, is_first=not number))
    return "".join(f"\n{printable_line(line)}" for line in lines)


def _lines(raised: Raised, *, is_first: bool) -> Iterator[str]:
    if not is_first:
        yield f"caused by {raised.exception}: {raised.message}" if raised.message else f"caused by {raised.exception}"
    for file, line, function in raised.frames:
        yield f'  File "{file}", line {line}, in {function}' if line else f"  {file} {function}"
        source = linecache.getline(file, line).strip() if raised.message and line else ""
        if source:
            yield f"    {source}"


def _after(deliveries: int) -> str:
    if deliveries == 0:
        return "before any delivery"
    return "after 1 delivery" if deliveries == 1 else f"after {deliveries} deliveries"


def _key(key: bytes | None) -> str:
    if key is None:
        return "no key"
    shown = key[:_MAX_KEY_BYTES]
    try:
        text = repr(shown.decode())
    except UnicodeDecodeError:
        text = repr(shown)
    return f"key {text}{'...' if len(key) > len(shown) else ''}"
