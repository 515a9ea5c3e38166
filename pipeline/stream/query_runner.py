"""Starts, monitors and stops the queries of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kafka_redelivery.pipeline.errors import first_line
from kafka_redelivery.pipeline.stream.deleted_positions import DeletedPositions, RecordsDeletedError, is_data_loss
from kafka_redelivery.pipeline.stream.membership import Membership
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle, progress_listener
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.table_query import TableQuery

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
        """Run until the first query ends, a shutdown is requested, or a partition that was left out can go on.

        The monitor reports the first query. A failure of the second ends the run only with ``available_now``.

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
                    self._supervise(writer.trigger(availableNow=True).start(), (), handling=number == 0, restarts=False)
            return False
        (handling, *tables) = (_triggered(writer, every) for writer, every in queries)
        with ExitStack() as started:
            query = handling.start()
            started.callback(query.stop)
            appending = [TableQuery(table, self._monitor.health) for table in tables]
            for each in appending:
                started.callback(each.stop)
            return self._supervise(query, appending, handling=True, restarts=True)

    def _supervise(
        self, query: StreamingQuery, appending: Sequence[TableQuery], *, handling: bool, restarts: bool
    ) -> bool:
        held = False
        with progress_listener(self._session, query, self._monitor) if handling else nullcontext():
            while not _has_ended(query, handling=handling):
                self._member.check()  # no micro-batch checks it while the query is idle
                self._monitor.tick(member=self._member.joined, idle=lambda: is_idle(query))
                for each in appending:
                    each.check()
                if self._shutdown.requested:
                    self._monitor.health.stopping()
                    self._shutdown.wait_for_micro_batch()
                    self._shutdown.finish_soon()
                    query.stop()
                    return False
                held = held or (restarts and self._deleted.moved())
                if held and self._shutdown.hold():
                    self._shutdown.release_soon()
                    query.stop()
                    return True
        return False


def _triggered(writer: DataStreamWriter, every: timedelta) -> DataStreamWriter:
    return writer.trigger(processingTime=f"{round(every.total_seconds() * 1000)} milliseconds")


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
