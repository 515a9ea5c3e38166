"""Starts, monitors and stops the queries of a stream."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import first_line
from kafka_redelivery.pipeline.stream.deleted_positions import DeletedPositions, RecordsDeletedError, is_data_loss
from kafka_redelivery.pipeline.stream.membership import Membership
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle, progress_listener
from kafka_redelivery.pipeline.stream.shutdown import Shutdown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S: Final = 0.2


class QueryRunner:
    """Works on the driver's main thread."""

    def __init__(
        self,
        session: SparkSession,
        shutdown: Shutdown,
        monitor: QueryMonitor,
        member: Membership,
        deleted: DeletedPositions,
    ) -> None:
        self._session = session
        self._shutdown = shutdown
        self._monitor = monitor
        self._member = member
        self._deleted = deleted

    def run(self, queries: list[tuple[DataStreamWriter, timedelta]], *, available_now: bool) -> bool:
        """Run until a query ends, a shutdown is requested, or a partition that was left out can go on.

        The monitor reports the first query.

        Returns:
            whether the queries have to be started again, because such a partition can go on.

        Raises:
            RecordsDeletedError: Kafka deleted records that the first query had to read.
        """
        self._shutdown.resume()
        if available_now:
            # One after the other: the second reads what the first writes.
            for number, (writer, _) in enumerate(queries):
                if not self._shutdown.requested:
                    self._supervise([writer.trigger(availableNow=True).start()], monitored=number == 0, restarts=False)
            return False
        started = []
        try:
            for writer, every in queries:
                milliseconds = round(every.total_seconds() * 1000)
                started.append(writer.trigger(processingTime=f"{milliseconds} milliseconds").start())
            return self._supervise(started, monitored=True, restarts=True)
        finally:
            _stop(started)

    def _supervise(self, queries: list[StreamingQuery], *, monitored: bool, restarts: bool) -> bool:
        first = queries[0]
        held = False
        with progress_listener(self._session, first, self._monitor) if monitored else nullcontext():
            while not _any_ended(queries, first if monitored else None):
                self._member.check()  # no micro-batch checks it while the query is idle
                self._monitor.tick(member=self._member.joined, idle=lambda: is_idle(first))
                if self._shutdown.requested:
                    self._monitor.health.stopping()
                    self._shutdown.wait_for_micro_batch()
                    self._shutdown.finish_soon()
                    _stop(queries)
                    return False
                held = held or (restarts and self._deleted.moved())
                if held and self._shutdown.hold():
                    self._shutdown.release_soon()
                    _stop(queries)
                    return True
        return False


def _any_ended(queries: list[StreamingQuery], handling: StreamingQuery | None) -> bool:
    """Wait a moment; return whether a query has ended.

    Raises:
        RecordsDeletedError: Kafka deleted records that the query ``handling`` had to read.
    """
    try:
        return any(query.awaitTermination(POLL_S / len(queries)) for query in queries)  # type: ignore[arg-type] # accepts float
    except Exception as error:
        if handling is not None and is_data_loss(error) and handling.exception() is not None:
            raise RecordsDeletedError(first_line(error)) from error
        raise


def _stop(queries: list[StreamingQuery]) -> None:
    for query in queries:
        query.stop()
