"""A run that handles the records that exist now, appends what they sent to the table, and ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.pipeline.errors import PipelineError, StreamHaltedError, StreamUnsettledError, first_line
from kafka_redelivery.pipeline.stream.query_runner import QueryRunner
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.sink_table import SinkTable
from kafka_redelivery.pipeline.stream.table_query import cause_of
from kafka_redelivery.pipeline.stream.waiting_records import WaitingRecords
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.transport.errors import TransportError

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


class AvailableNow:
    """The steps of the run, in the order of the methods."""

    def __init__(
        self,
        runner: QueryRunner,
        shutdown: Shutdown,
        handle: Callable[[], None],
        look: Callable[[], WaitingRecords],
    ) -> None:
        """Run nothing yet.

        Args:
            runner: runs queries.
            shutdown: whether to stop.
            handle: handles the records that exist now.
            look: counts the records that wait for a redelivery.
        """
        self._runner = runner
        self._shutdown = shutdown
        self._handle = handle
        self._look = look
        self._waiting: WaitingRecords | None = None
        self._unsettled: StreamUnsettledError | None = None

    def handle(self, until_settled: timedelta | None) -> None:
        """Handle the records; with a time limit also those that are redelivered until then."""
        if until_settled is None:
            self._handle()
            return
        try:
            self._waiting = settle(self._handle, self._look, self._runner.pause, until_settled)
        except StreamUnsettledError as error:
            self._unsettled = error  # what was handled is still appended

    def append(self, table: SinkTable, *, skip_removed: bool) -> None:
        """Append to the table what was sent.

        Raises:
            StreamHaltedError: the table could not be written. What was handled stays handled.
        """
        try:
            self._runner.run_once(table.writer(skip_removed=skip_removed), handling=False)
        except (ConsumersError, PipelineError, TransportError):
            raise
        except Exception as error:
            raise StreamHaltedError(
                f"the query of pipeline.sink failed: {cause_of(error)}; what was handled is appended by a later run"
            ) from error

    def report(self, until_settled: timedelta | None) -> None:
        """Say how many records wait, unless a shutdown was requested.

        Raises:
            StreamUnsettledError: records wait although the run was to go on until none does, or its time was over.
        """
        if self._shutdown.requested:
            return
        if self._unsettled is not None and until_settled is not None:
            raise self._unsettled
        waiting = self._waiting
        try:
            waiting = waiting or self._look()
        except Exception as error:  # noqa: BLE001 - of Kafka or of Spark, as without the rights of a scheduler
            _log.warning("how many records wait for a redelivery is unknown: %s", first_line(error))
            return
        if waiting.number and until_settled is not None:
            raise StreamUnsettledError(
                f"not settled within {format_duration(until_settled)}: {waiting}; run again, or allow more time"
            )
        more = "; keep a scheduler running, and run again after the last due time" if waiting.number else ""
        _log.info("%s%s", waiting, more, extra={"waiting": waiting.number, "last_due_ms": waiting.last_ms})
