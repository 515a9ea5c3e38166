"""Starts, monitors and stops the query that handles records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.pipeline.errors import StreamUnsettledError, first_line
from kafka_redelivery.pipeline.stream.driver_scheduler import DriverScheduler
from kafka_redelivery.pipeline.stream.lost_positions import LostPositions, RecordsDeletedError, is_data_loss
from kafka_redelivery.pipeline.stream.membership import Membership
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle, progress_listener
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.table_query import TableQuery, triggered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S: Final = 0.2

_LAST_S: Final = 3.0
"""How long a query may take to end after its last micro-batch."""


class QueryRunner:
    """Works on the driver's main thread."""

    def __init__(
        self,
        session: SparkSession,
        shutdown: Shutdown,
        monitor: QueryMonitor,
        member: Membership,
        lost: LostPositions,
        scheduler: DriverScheduler | None,
    ) -> None:
        self._session = session
        self._shutdown = shutdown
        self._monitor = monitor
        self._member = member
        self._lost = lost
        self._scheduler = scheduler
        self.end_s: float | None = None
        """When :meth:`run_once` begins no other micro-batch (monotonic); ``None`` = it goes on."""

    def run(self, writer: DataStreamWriter, every: timedelta, table: TableQuery | None) -> bool:
        """Run the query that handles records until a shutdown is requested, or a partition left out can go on.

        Args:
            writer: the query.
            every: the time from one micro-batch to the next.
            table: the query that appends to the sink table; it has been started.

        Returns:
            whether the query has to be started again, because such a partition can go on.

        Raises:
            RecordsDeletedError: Kafka deleted records that the query had to read.
        """
        self._shutdown.resume()
        query = triggered(writer, every).start()
        try:
            return self._supervise(query, table, handling=True, restarts=True)
        finally:
            query.stop()

    def run_once(self, writer: DataStreamWriter, *, handling: bool = True) -> bool:
        """Run a query until it has read what is there now, or a shutdown is requested.

        Args:
            writer: the query.
            handling: whether it is the one that handles records, which the monitor reports.

        Returns:
            false: the query need not be started again.

        Raises:
            RecordsDeletedError: Kafka deleted records that the query had to handle.
            StreamUnsettledError: at :attr:`end_s` it had not read everything.
        """
        self._shutdown.resume()
        query = writer.trigger(availableNow=True).start()
        try:
            return self._supervise(query, None, handling=handling, restarts=False)
        finally:
            query.stop()

    def pause(self, seconds: float) -> bool:
        """Wait between two runs; return whether to go on, because no shutdown was requested."""
        end_s = monotonic_s() + seconds
        while not self._shutdown.wait_requested(min(POLL_S, max(0.0, end_s - monotonic_s()))):
            if monotonic_s() >= end_s:
                return True
            self._check(idle=lambda: True)
        return False

    def _check(self, idle: Callable[[], bool]) -> None:
        """Report, and raise the error if the membership is lost or the scheduler hangs."""
        self._member.check()  # no micro-batch checks it while the query is idle
        if self._scheduler is not None:
            self._scheduler.check()
        self._monitor.tick(member=self._member.joined, idle=idle)

    def _supervise(self, query: StreamingQuery, table: TableQuery | None, *, handling: bool, restarts: bool) -> bool:
        held = False
        with progress_listener(self._session, query, self._monitor) if handling else nullcontext():
            while not _has_ended(query, handling=handling):
                self._check(idle=lambda: is_idle(query))
                if table is not None:
                    table.check()
                if self._shutdown.requested:
                    self._monitor.health.stopping()
                    self._shutdown.wait_for_micro_batch()
                    self._shutdown.finish_soon()
                    query.stop()
                    return False
                if handling and not restarts and self.end_s is not None and monotonic_s() >= self.end_s:
                    self._end_in_time(query)
                    return False
                held = held or (restarts and self._lost.moved())
                if held and self._shutdown.hold():
                    self._shutdown.release_soon()
                    query.stop()
                    return True
        return False

    def _end_in_time(self, query: StreamingQuery) -> None:
        """Let no other micro-batch begin, and wait for the running one for as long as a shutdown may take.

        Raises:
            StreamUnsettledError: the query has not read everything.
        """
        gate = self._monitor.gate
        paused = gate.paused if gate is not None and gate.waiting else []
        ended = self._shutdown.hold() or self._shutdown.wait_for_micro_batch()
        if ended and query.awaitTermination(_LAST_S):  # type: ignore[arg-type] # accepts float
            return
        self._shutdown.release_soon()
        query.stop()
        if paused:
            cause = f"a pause of {', '.join(paused)} (see `redelivery status`)"
        else:
            cause = "records are not handled yet" if ended else "a micro-batch was still running, and was cancelled"
        raise StreamUnsettledError(f"not settled in time: {cause}; run again, or allow more time")


def _has_ended(query: StreamingQuery, *, handling: bool) -> bool:
    """Wait a moment; return whether a query has ended.

    Raises:
        RecordsDeletedError: Kafka deleted records that the query had to read, and it is the one that handles records.
    """
    try:
        return bool(query.awaitTermination(POLL_S))  # type: ignore[arg-type] # accepts float
    except Exception as error:
        if handling and is_data_loss(error):
            raise RecordsDeletedError(first_line(error)) from error
        raise
