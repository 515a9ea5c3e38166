"""The queries of a driver: the one that handles records, and that of the sink table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.pipeline.errors import PipelineError, StreamHaltedError, StreamUnsettledError, first_line
from kafka_redelivery.pipeline.frames import Frames
from kafka_redelivery.pipeline.spark.kafka_options import offsets_json, partitions_option
from kafka_redelivery.pipeline.stream.checkpoint import prepare_checkpoint
from kafka_redelivery.pipeline.stream.driver_scheduler import DriverScheduler
from kafka_redelivery.pipeline.stream.lost_positions import LostPositions, RecordsDeletedError, is_data_loss
from kafka_redelivery.pipeline.stream.membership import Membership, StoppedJoiningError
from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches
from kafka_redelivery.pipeline.stream.monitor import QueryMonitor, is_idle
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.pipeline.stream.settling import WaitingRecords, settle, unhandled_records, waiting_records
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.sink_table import SinkTable, TableQuery, cause_of, triggered
from kafka_redelivery.pipeline.stream.start_offsets import (
    partition_counts,
    partitions_of,
    ready_topics,
    save_positions,
    start_offsets,
)
from kafka_redelivery.serdes.registry import why_away
from kafka_redelivery.topology.config.settings import PipelineSection, Settings
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

POLL_S: Final = 0.2

_LAST_S: Final = 3.0
"""How long a query may take to end after its last micro-batch."""

_HEADERS: Final = "array<struct<key: string, value: binary>>"
_OUR_ERRORS: Final = (ConsumersError, PipelineError, TopologyError, TransportError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Runs the queries of a driver that is a member of the group, on its main thread."""

    frames: Frames
    settings: Settings
    section: PipelineSection
    checkpoint: str
    """The folder ``pipeline.checkpoint``."""

    counts: dict[str, int]
    """The number of partitions of every topic, which :attr:`batches` looks at, too. Each start reads it again."""

    shutdown: Shutdown
    monitor: QueryMonitor
    member: Membership
    batches: MicroBatches
    gate: PauseGate
    lost: LostPositions
    topics: ReadTopics
    scheduler: DriverScheduler | None
    table: SinkTable | None
    skip_removed: bool
    """Whether the table goes on without records that Kafka has removed."""

    @property
    def wanted(self) -> frozenset[Partition]:
        """Every partition of the sources and their ready topics."""
        return partitions_of(self.settings, self.counts)

    def run(self) -> None:
        """Run the queries until a shutdown is requested."""
        with ExitStack() as stack:
            appending: TableQuery | None = None
            if self.table is not None:
                appending = TableQuery(self.table, self.monitor, skip_removed=self.skip_removed)
                stack.callback(appending.stop)
                appending.start()
            self._handle(lambda writer: self._supervise(triggered(writer, self.section.trigger), table=appending))

    def run_available_now(self, until_settled: timedelta | None) -> None:
        """Handle the records that exist now, append to the table what they sent, and say how many records wait.

        Args:
            until_settled: go on for at most so long until no record waits; ``None`` = handle each record once.

        Raises:
            StreamHaltedError: some partitions were left out, or the table could not be written.
            StreamUnsettledError: records still wait, or its time was over, or a dependency was found away.
        """
        late = waiting = None
        try:
            if until_settled is None:
                self._handle_once(None)
            else:
                end_s = monotonic_s() + until_settled.total_seconds()
                waiting = settle(lambda: self._handle_once(end_s), self._waiting, self._pause, until_settled)
        except StreamUnsettledError as error:
            late = error  # what was handled is still appended
        if self.table is not None and not self.shutdown.requested:
            self._append(self.table)
        if self.lost.problem:
            self._say_waiting(waiting, None)
            raise StreamHaltedError(self.lost.problem)
        if late is not None and not self.shutdown.requested:
            raise self._with_count(late) if self.gate.lasts else late
        self._say_waiting(waiting, until_settled)

    def save_positions(self) -> None:
        """Save where the group stands, unless a task or another process may still commit."""
        if self.batches.settled and self.member.joined:
            save_positions(self.settings, self.wanted, self.topics)

    def _handle_once(self, end_s: float | None) -> None:
        """Handle what is there now; at ``end_s`` (monotonic) no other micro-batch begins.

        Without that time it does not wait for the end of an outage.

        Raises:
            StreamUnsettledError: at that time it had not read everything, or a dependency is away.
        """

        def run(writer: DataStreamWriter) -> bool:
            once = writer.trigger(availableNow=True)
            return self._supervise(once, end_s=end_s, restarts=False, waits=end_s is not None)

        self._handle(run)

    def _append(self, table: SinkTable) -> None:
        """Append to the table what was sent.

        Raises:
            StreamHaltedError: the table could not be written. What was handled stays handled.
        """
        try:
            writer = table.writer(skip_removed=self.skip_removed)
            self._supervise(writer.trigger(availableNow=True), handling=False, restarts=False)
        except _OUR_ERRORS:
            raise
        except Exception as error:
            raise StreamHaltedError(
                f"the query of pipeline.sink failed: {cause_of(error)}; what was handled is appended by a later run"
            ) from error

    def _waiting(self) -> WaitingRecords:
        with _unwrapped_errors(self.batches):
            return waiting_records(self.frames, self.settings, self.counts)

    def _with_count(self, error: StreamUnsettledError) -> StreamUnsettledError:
        """Return the error with the number of records that have no outcome yet."""
        try:
            with _unwrapped_errors(self.batches):
                number = unhandled_records(self.frames, self.settings, self.counts)
        except Exception as unknown:  # noqa: BLE001 - of Kafka or of Spark
            _log.warning("how many records have no outcome is unknown: %s", first_line(unknown))
            return error
        return StreamUnsettledError(f"{error}; {number:,} records of sources and ready topics have no outcome")

    def _say_waiting(self, known: WaitingRecords | None, until_settled: timedelta | None) -> None:
        """Say how many records wait, unless a shutdown was requested.

        Raises:
            StreamUnsettledError: records wait although the run was to go on until none does.
        """
        if self.shutdown.requested:
            return
        try:
            waiting = known or self._waiting()
        except Exception as error:  # noqa: BLE001 - of Kafka or of Spark, as without the rights of a scheduler
            _log.warning("how many records wait for a redelivery is unknown: %s", first_line(error))
            return
        if waiting.number and until_settled is not None:
            raise StreamUnsettledError(
                f"not settled within {format_duration(until_settled)}: {waiting}; run again, or allow more time"
            )
        more = "; keep a scheduler running, and run again after the last due time" if waiting.number else ""
        _log.info("%s%s", waiting, more, extra={"waiting": waiting.number, "last_due_ms": waiting.last_ms})

    def _pause(self, seconds: float) -> bool:
        """Wait between two runs; return whether to go on, because no shutdown was requested."""
        end_s = monotonic_s() + seconds
        while not self.shutdown.wait_requested(min(POLL_S, max(0.0, end_s - monotonic_s()))):
            if monotonic_s() >= end_s:
                return True
            self._check(idle=lambda: True)
        return False

    def _handle(self, run: Callable[[DataStreamWriter], bool]) -> None:
        """Run the query that handles records, again at the group's offsets when other partitions can be read."""
        failed: Mapping[Partition, int] | None = None
        again = True
        while again and not self.shutdown.requested:
            try:
                member = self.member.member()
            except StoppedJoiningError:
                return
            self.counts.update(partition_counts(self.settings))  # a topic may have got partitions
            wanted = self.wanted
            starts = start_offsets(self.settings, wanted, member, self.topics)
            self.monitor.started(starts)
            readable = self.lost.leave_out(starts, wanted - starts.keys())
            if not readable:
                raise StreamHaltedError(self.lost.problem)
            query = self._handling(readable)
            self.batches.failure = None
            try:
                with _unwrapped_errors(self.batches):
                    again = run(query)
            except (RecordsDeletedError, StreamHaltedError) as error:
                if self._created_again():  # Spark fails in many ways then
                    _log.info("starting again at the group's offsets: %s", error)
                    continue
                if isinstance(error, StreamHaltedError):
                    raise
                if readable == failed:
                    raise StreamHaltedError(str(error)) from error
                failed = readable
                _log.warning("starting again at the group's offsets: %s", error)

    def _created_again(self) -> bool:
        """Return whether a topic was created again since the query was started.

        Raises:
            StreamHaltedError: it has another number of partitions than before.
        """
        with suppress(TransportError):
            found = self.topics.created_again()
            for name, each in found.items():
                if each.partitions != self.counts[name]:
                    raise StreamHaltedError(
                        f"topic {name} was deleted and created again with {each.partitions} partitions instead of "
                        f"{self.counts[name]}; start the query again"
                    )
            return bool(found)
        return False

    def _handling(self, starts: Mapping[Partition, int]) -> DataStreamWriter:
        """Return the query that handles records. It reads the ready topics and the sources with one Kafka source each.

        A Kafka source divides the offsets of a micro-batch in proportion to the backlog of its topics. With one Kafka
        source for all topics, redeliveries would wait while the sources have a backlog.
        """
        left_out = self.wanted - starts.keys()

        def read(topics: Iterable[str]) -> Iterator[DataFrame]:
            wanted = set(topics)
            chosen = {partition: at for partition, at in starts.items() if partition.topic in wanted}
            if chosen:
                named = partitions_option(chosen, whole=not any(each.topic in wanted for each in left_out))
                at_most = self.section.max_offsets_per_trigger
                yield records(self.frames.stream(named, offsets_json(chosen), at_most))

        checkpoint = prepare_checkpoint(self.frames.spark, self.settings, self.checkpoint, starts, self.topics.marks)
        frames = (*read(ready_topics(self.settings)), *read(source.topic for source in self.settings.sources))
        frame = reduce(lambda first, second: first.union(second), frames)
        computes = self.batches.transformation
        name = self.settings.group if computes is None else computes.name
        handling = frame.writeStream.queryName(name).foreachBatch(self.batches)
        return handling.option("checkpointLocation", checkpoint)

    def _check(self, idle: Callable[[], bool]) -> None:
        """Report, and raise the error if the membership is lost or the scheduler hangs."""
        self.member.check()  # no micro-batch checks it while the query is idle
        if self.scheduler is not None:
            self.scheduler.check()
        self.monitor.tick(member=self.member.joined, idle=idle)

    def _registries_away(self) -> list[str]:
        """Return why schema registries do not answer. Those of a transformation are asked while columns are decoded."""
        computes = self.batches.transformation
        return registries_away(self.settings if computes is None else computes.settings)

    def _supervise(
        self,
        writer: DataStreamWriter,
        *,
        table: TableQuery | None = None,
        handling: bool = True,
        restarts: bool = True,
        waits: bool = True,
        end_s: float | None = None,
    ) -> bool:
        """Run a query until it ends by itself, or a shutdown is requested.

        Args:
            writer: the query, with its trigger.
            table: the query that appends to the sink table beside it; it has been started.
            handling: whether it is the query that handles records, which the monitor reports.
            restarts: whether to end it when a partition that was left out can go on.
            waits: whether it waits for the end of an outage.
            end_s: when no other micro-batch begins (monotonic).

        Returns:
            whether the query has to be started again, because such a partition can go on.

        Raises:
            RecordsDeletedError: Kafka deleted records that the query had to handle.
            StreamUnsettledError: at ``end_s`` it had not read everything, or it does not wait for what is away.
        """
        self.shutdown.resume()
        query = writer.start()
        if handling:
            self.shutdown.started.set()
        held = False
        try:
            while not _has_ended(query, handling=handling):
                self._check(idle=lambda: is_idle(query))
                if handling:
                    self.monitor.progressed(query)
                if table is not None:
                    table.check()
                if self.shutdown.requested:
                    self.monitor.health.stopping()
                    self.shutdown.wait_for_micro_batch()
                    self.shutdown.release_soon()
                    return False
                late = end_s is not None and monotonic_s() >= end_s
                away = self.gate.away if self.gate.waiting and (late or not waits) else []
                if late or away:
                    end_in_time(query, self.shutdown, self.gate, away, self._registries_away)
                    return False
                held = held or (restarts and self.lost.moved())
                if held and self.shutdown.hold():
                    self.shutdown.release_soon()
                    return True
            return False
        finally:
            query.stop()
            if handling:
                self.monitor.progressed(query)


def registries_away(settings: Settings) -> list[str]:
    """Return why schema registries of the configuration do not answer."""
    sides = [side for each in (*settings.sources, *settings.outputs) for side in (each.key, each.value)]
    registries = {repr(sorted(side.registry.items())): side.registry for side in sides if side.registry}
    return [found for each in registries.values() if (found := why_away(each))]


def end_in_time(
    query: StreamingQuery,
    shutdown: Shutdown,
    gate: PauseGate,
    away: Sequence[str] = (),
    registries: Callable[[], Sequence[str]] = list,
) -> None:
    """Let no other micro-batch begin, and wait for the running one for as long as a shutdown may take.

    Args:
        query: the query.
        shutdown: lets no other micro-batch begin.
        gate: knows what is paused.
        away: the dependencies that a micro-batch waits for.
        registries: returns why schema registries do not answer.

    Raises:
        StreamUnsettledError: the query has not read everything.
    """
    paused = gate.paused if gate.waiting else []
    ended = shutdown.hold() or shutdown.wait_for_micro_batch()
    if ended and query.awaitTermination(POLL_S if away else _LAST_S):  # type: ignore[arg-type] # accepts float
        return
    shutdown.release_soon()
    query.stop()
    if away:
        raise StreamUnsettledError(
            f"not settled: an outage of {', '.join(away)} (see `redelivery outage`); run again when it is over"
        )
    if paused:
        cause = f"a pause of {', '.join(paused)} (see `redelivery status`)"
    elif not ended and (problems := registries()):
        raise StreamUnsettledError(
            f"not settled in time, and the micro-batch was cancelled: {'; '.join(problems)}; run again when it answers"
        )
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


@contextmanager
def _unwrapped_errors(batches: MicroBatches) -> Iterator[None]:
    """Raise the cause instead of Spark's error that wraps it."""
    try:
        yield
    except _OUR_ERRORS:
        raise
    except Exception as error:
        cause = error if batches.failure is None else batches.failure
        if isinstance(cause, _OUR_ERRORS):
            raise cause from None
        raise StreamHaltedError(f"the query ended: {first_line(cause)}") from error


def records(frame: DataFrame) -> DataFrame:
    """Select the columns that tasks receive."""
    timestamp = F.unix_millis("timestamp").alias("timestamp")
    # Spark measures the Arrow batch before each row. Measuring walks over the nulls behind the last list that is not
    # null, so an empty list replaces null.
    headers = F.coalesce("headers", F.array().cast(_HEADERS)).alias("headers")
    return frame.select("key", "value", headers, "topic", "partition", "offset", timestamp)
