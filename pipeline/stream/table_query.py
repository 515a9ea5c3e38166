"""The query that appends to the sink table: its failures do not end the handling of records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.pipeline.errors import first_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

_SUBJECT: Final = "pipeline.sink"
_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 300.0


class TableQuery:
    """Starts the query, and starts it again after growing pauses when it has failed. Only the main thread uses it."""

    def __init__(self, writer: DataStreamWriter, health: Health) -> None:
        """Start the query.

        Args:
            writer: the query with its trigger.
            health: names the failure in the body of ``/readyz``.
        """
        self._writer = writer
        self._health = health
        self._query: StreamingQuery | None = writer.start()
        self._failing = False
        self._pause_s = _FIRST_PAUSE_S
        self._next_s = 0.0
        """When the query is started again (monotonic)."""

    def check(self) -> None:
        """Report a failure, start again when the pause is over, or report that the query goes on."""
        query = self._query
        if query is None:
            if monotonic_s() >= self._next_s:
                self._start_again()
        elif not query.isActive:
            error = query.exception()
            self._failed("it was stopped" if error is None else first_line(error))
        elif self._failing and query.lastProgress is not None:
            self._failing, self._pause_s = False, _FIRST_PAUSE_S
            self._health.note(_SUBJECT, "")
            _log.warning("the query of pipeline.sink appends to its table again")

    def stop(self) -> None:
        """Stop the query. It continues where it was when it is started again."""
        if self._query is not None:
            self._query.stop()

    def _start_again(self) -> None:
        try:
            self._query = self._writer.start()
        except Exception as error:  # noqa: BLE001 - of Spark, or of the storage
            self._failed(first_line(error))

    def _failed(self, cause: str) -> None:
        problem = (
            f"the query of pipeline.sink failed: {cause}; records are handled, but not appended to the table; "
            f"it is tried again, after at most {_MAX_PAUSE_S:g} s"
        )
        _log.error("%s", problem)
        self._health.note(_SUBJECT, problem)
        self._query, self._failing = None, True
        self._next_s = monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
