"""The query that appends to the sink table: its failures do not end the handling of records."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.pipeline.errors import TableFormatError, first_line
from kafka_redelivery.pipeline.stream.lost_positions import is_data_loss
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle
from kafka_redelivery.pipeline.stream.sink_table import SinkTable

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

_SUBJECT: Final = "pipeline.sink"
_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 300.0
_REPORT_INTERVAL_S: Final = 1.0


class TableQuery:
    """Starts the query, and starts it again after growing pauses when it has failed. Only the main thread uses it.

    It goes on while the query that handles records is started again.
    """

    def __init__(self, table: SinkTable, monitor: QueryMonitor, *, skip_removed: bool) -> None:
        """Start nothing yet.

        Args:
            table: the table.
            monitor: receives progress and failures.
            skip_removed: go on without records that Kafka has removed until now. A later removal is a failure again.
        """
        self._table = table
        self._monitor = monitor
        self._skip_removed = skip_removed
        self._query: StreamingQuery | None = None
        self._failing = False
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0
        """When the query is started again (monotonic)."""

        self._reported_s = 0.0
        self._batch: int | None = None
        """The last micro-batch of the query that was reported."""

    def start(self) -> None:
        """Start the query.

        Raises:
            TableFormatError: the table is one of Parquet, or the session does not have Delta.
        """
        self._monitor.observer.table_progress()
        self._start(TableFormatError)

    def check(self) -> None:
        """Report progress or a failure, or start again when the pause is over."""
        query = self._query
        if query is None:
            if monotonic_s() >= self._next_s:
                self._start()
        elif not query.isActive:
            error = query.exception()
            self._failed("it was stopped" if error is None else cause_of(error))
        elif self._table.topics.poll():
            query.stop()
            self._start()
        elif monotonic_s() - self._reported_s >= _REPORT_INTERVAL_S:
            self._reported_s = monotonic_s()
            self._report(query)

    def stop(self) -> None:
        """Stop the query. It continues where it was when it is started again."""
        if self._query is not None:
            self._query.stop()

    def _report(self, query: StreamingQuery) -> None:
        progress = query.lastProgress
        # A query without progress has just been started: it is idle, too, and may fail in its first micro-batch.
        if progress is None or (progress.batchId == self._batch and not is_idle(query)):
            return
        self._batch = progress.batchId
        self._monitor.observer.table_progress()
        if self._failing:
            self._failing, self._pause_s = False, _FIRST_PAUSE_S
            self._monitor.health.note(_SUBJECT, "")
            _log.warning("the query of pipeline.sink appends to its table again")
        if self._skip_removed:
            self._skip_removed = False
            query.stop()
            self._start()

    def _start(self, *refused: type[Exception]) -> None:
        self._batch = None
        try:
            writer = self._table.writer(skip_removed=self._skip_removed)
            self._query = triggered(writer, self._table.sink.trigger).start()
        except refused:
            raise
        except Exception as error:  # noqa: BLE001 - of Spark, or of the storage
            self._failed(cause_of(error))

    def _failed(self, cause: str) -> None:
        problem = (
            f"the query of pipeline.sink failed: {cause}; records are handled, but not appended to the table; "
            f"it is tried again, after at most {_MAX_PAUSE_S:g} s"
        )
        _log.error("%s", problem)
        self._monitor.health.note(_SUBJECT, problem)
        self._query, self._failing = None, True
        self._next_s = monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)


def triggered(writer: DataStreamWriter, every: timedelta) -> DataStreamWriter:
    """Return a query that begins a micro-batch at each interval."""
    return writer.trigger(processingTime=f"{round(every.total_seconds() * 1000)} milliseconds")


def cause_of(error: BaseException) -> str:
    """Return why the query failed, with the fix if there is one."""
    removed = "; to go on without the records that Kafka removed, start the query once with --skip-removed"
    return f"{first_line(error)}{removed if is_data_loss(error) else ''}"
