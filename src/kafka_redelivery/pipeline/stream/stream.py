"""`redelivery pipeline stream`: a streaming query over the sources and their ready topics, under the group's policy.

Spark decides which offsets a micro-batch has and starts tasks for its partitions. Tasks handle the records and write
the outcomes (:mod:`kafka_redelivery.pipeline.task.task`). The progress of the group is in Kafka, not in Spark's
checkpoint: the checkpoint only says what to read next, and tasks skip records that they have already handled.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.process.pause_watch import watch_pauses
from kafka_redelivery.consumers.process.scheduler_watch import scheduler_watch
from kafka_redelivery.consumers.telemetry.logs import TEXT, child_log_format
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.pipeline.errors import PipelineError, StreamHaltedError, first_line
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.process import HandlerProcess
from kafka_redelivery.pipeline.spark.jars import DELTA
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options, refuse_delegation_tokens
from kafka_redelivery.pipeline.spark.schema_files import SchemaFiles
from kafka_redelivery.pipeline.spark.session import spark_session, submitted_settings
from kafka_redelivery.pipeline.stream.available_now import AvailableNow
from kafka_redelivery.pipeline.stream.checkpoint import (
    group_checkpoint,
    refuse_skipped_records,
    refuse_unwritable,
    remove_stale_checkpoint,
)
from kafka_redelivery.pipeline.stream.driver_scheduler import scheduler_in_driver
from kafka_redelivery.pipeline.stream.lost_positions import LostPositions, RecordsDeletedError
from kafka_redelivery.pipeline.stream.membership import (
    NAME,
    Membership,
    StoppedJoiningError,
    membership,
    refuse_members,
)
from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches, QueryEndedError
from kafka_redelivery.pipeline.stream.monitor import ROLE, QueryMonitor, query_monitor
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.query_runner import QueryRunner
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics, topics_of
from kafka_redelivery.pipeline.stream.shutdown import Shutdown, shutdown_on_signals
from kafka_redelivery.pipeline.stream.sink_table import AUTO_COMPACTION, SinkTable, validate_sink
from kafka_redelivery.pipeline.stream.start_offsets import (
    offsets_json,
    partition_counts,
    partitions_of,
    partitions_option,
    ready_topics,
    save_positions,
    start_offsets,
)
from kafka_redelivery.pipeline.stream.table_query import TableQuery
from kafka_redelivery.pipeline.stream.validation import validate_settings
from kafka_redelivery.pipeline.stream.waiting_records import WaitingRecords, waiting_records
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.pipeline_section import PipelineSection
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.transport.admin.preflight import verify
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

_SPARK_CONSUMERS: Final = 64
"""How many consumers an executor keeps by default. Beyond this number Spark closes one for each that it creates."""

_HEADERS: Final = "array<struct<key: string, value: binary>>"
_OUR_ERRORS: Final = (ConsumersError, PipelineError, TopologyError, TransportError)


def run_stream(
    settings: Settings,
    base: Path,
    *,
    available_now: bool = False,
    until_settled: timedelta | None = None,
    skip_removed: bool = False,
    session: SparkSession | None = None,
    shutdown: Shutdown | None = None,
    observer: QueryObserver | None = None,
) -> None:
    """Run the query until SIGTERM or SIGINT; with ``available_now``, until the records that exist now are handled.

    Args:
        settings: the configuration.
        base: the folder of the configuration file.
        available_now: end when all records that exist at the start have been handled once.
        until_settled: with ``available_now``, go on until no record waits for a redelivery, at most for this time.
        skip_removed: the table goes on without records that Kafka has removed before they were appended.
        session: the session to run in; ``None`` = a new one.
        shutdown: whether to stop; ``None`` = on signals.
        observer: receives the outcomes of micro-batches; ``None`` = metrics as configured.

    Raises:
        StreamRefusedError, KafkaOptionError, HandlerLoadError, SerdeError: the configuration cannot run here.
        TopologyRefusedError: the topics are not safe to use, for example because they would lose data.
        HaltedError, StreamHaltedError, TransportError: the query could not continue.
        StreamUnsettledError: with ``until_settled``, records still wait.
    """
    section = validate_settings(settings)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(_is_no_query_end)
    configured = {name: _text(value) for name, value in section.spark.items()}
    refuse_delegation_tokens(settings.kafka, configured | submitted_settings())
    options = kafka_options(settings.kafka)
    # Last in the search path: a user's module must not hide an installed one.
    if str(base) not in sys.path:
        sys.path.append(str(base))
    schemas = SchemaFiles.of(settings, base)
    config = HandlerConfig(settings, base, tuple(sys.path), logging.getLogger().level, child_log_format(TEXT), schemas)
    HandlerProcess(config).close()
    verify(settings, AclRole.SPARK)
    counts = partition_counts(settings)
    validate_sink(section.sink, counts, skip_removed=skip_removed)
    refuse_members(settings)
    wanted = partitions_of(settings, counts)
    with ExitStack() as stack:
        stop = stack.enter_context(shutdown_on_signals(settings.limits.shutdown_timeout, shutdown))
        monitor = stack.enter_context(query_monitor(settings, observer))
        pauses = stack.enter_context(watch_pauses(settings, ROLE, settings.instance or NAME, monitor.health))
        monitor.gate = gate = PauseGate(pauses, topics_of(settings), stop)
        jars = () if section.sink is None else (DELTA,)
        spark = {
            "spark.sql.execution.arrow.maxBytesPerBatch": str(settings.limits.buffer_bytes),
            "spark.kafka.consumer.cache.capacity": str(_consumers(wanted, section, counts)),
            "spark.log.level": "DEBUG" if _log.isEnabledFor(logging.DEBUG) else "ERROR",
            **AUTO_COMPACTION,
            **configured,
        }
        own = nullcontext(session) if session is not None else spark_session(settings.group, spark, jars)
        session = stack.enter_context(own)
        # Join after Spark has started, which takes seconds: a query that this one replaces keeps running until then.
        member = stack.enter_context(membership(settings, wanted, stop))
        scheduler = stack.enter_context(scheduler_in_driver(settings, monitor))
        stack.enter_context(scheduler_watch(settings, monitor.health))
        lost = LostPositions(settings, monitor.observer, monitor.health)
        topics = ReadTopics.of(settings)
        stream = _Stream(
            session=session,
            settings=settings,
            section=section,
            base=base,
            options=options,
            counts=counts,
            wanted=wanted,
            shutdown=stop,
            monitor=monitor,
            member=member,
            batches=MicroBatches(config, member, counts, monitor.observer, stop, gate, topics),
            lost=lost,
            topics=topics,
            runner=QueryRunner(session, stop, monitor, member, lost, scheduler),
            table=_table(session, settings, section, options, base),
            skip_removed=skip_removed,
        )
        _log.info("the query of group %s reads %s", settings.group, ", ".join(topics_of(settings)))
        try:
            if available_now:
                stream.runner.end_s = None if until_settled is None else monotonic_s() + until_settled.total_seconds()
                stream.run_available_now(until_settled)
            else:
                stream.run()
        finally:
            stream.save_positions()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """The queries of a driver that is a member of the group."""

    session: SparkSession
    settings: Settings
    section: PipelineSection
    base: Path
    options: Mapping[str, str]
    """Options of the Kafka sources."""

    counts: Mapping[str, int]
    """The number of partitions of every topic."""

    wanted: frozenset[Partition]
    """Every partition of the sources and their ready topics."""

    shutdown: Shutdown
    monitor: QueryMonitor
    member: Membership
    batches: MicroBatches
    lost: LostPositions
    topics: ReadTopics
    runner: QueryRunner
    table: SinkTable | None
    skip_removed: bool
    """Whether the table goes on without records that Kafka has removed."""

    def run(self) -> None:
        """Run the queries until a shutdown is requested."""
        with ExitStack() as stack:
            appending: TableQuery | None = None
            if self.table is not None:
                appending = TableQuery(self.table, self.monitor, skip_removed=self.skip_removed)
                stack.callback(appending.stop)
                appending.start()
            self._handle(lambda writer: self.runner.run(writer, self.section.trigger, appending))

    def run_available_now(self, until_settled: timedelta | None) -> None:
        """Handle the records that exist now, append to the table what they sent, and say how many records wait.

        Args:
            until_settled: go on for at most so long until no record waits; ``None`` = handle each record once.

        Raises:
            StreamHaltedError: some partitions were left out, or the table could not be written.
            StreamUnsettledError: records still wait.
        """
        run = AvailableNow(self.runner, self.shutdown, lambda: self._handle(self.runner.run_once), self._waiting)
        run.handle(until_settled)
        if self.table is not None and not self.shutdown.requested:
            run.append(self.table, skip_removed=self.skip_removed)
        run.report(None if self.lost.problem else until_settled)
        if self.lost.problem:
            raise StreamHaltedError(self.lost.problem)

    def save_positions(self) -> None:
        """Save where the group stands, unless a task or another process may still commit."""
        if self.batches.settled and self.member.joined:
            save_positions(self.settings, self.wanted, self.topics)

    def _handle(self, run: Callable[[DataStreamWriter], bool]) -> None:
        """Run the query that handles records, again at the group's offsets when other partitions can be read."""
        failed: Mapping[Partition, int] | None = None
        again = True
        while again and not self.shutdown.requested:
            try:
                member = self.member.member()
            except StoppedJoiningError:
                return
            starts = start_offsets(self.settings, self.wanted, member, self.topics)
            self.monitor.started(starts)
            readable = self.lost.leave_out(starts, self.wanted - starts.keys())
            if not readable:
                raise StreamHaltedError(self.lost.problem)
            query = self._handling_writer(readable)
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

    def _waiting(self) -> WaitingRecords:
        with _unwrapped_errors(self.batches):
            return waiting_records(self.session, self.settings, self.options, self.counts)

    def _handling_writer(self, starts: Mapping[Partition, int]) -> DataStreamWriter:
        """Return the query that handles records."""
        session, settings = self.session, self.settings
        folder = _folder(self.section.checkpoint, self.base)
        refuse_unwritable(session, folder)
        checkpoint = group_checkpoint(session, settings, folder)
        refuse_unwritable(session, checkpoint)
        remove_stale_checkpoint(session, settings, checkpoint, starts, self.topics.marks)
        refuse_skipped_records(session, settings, checkpoint, starts)
        frame = _handling(session, settings, self.section, self.options, starts, self.wanted - starts.keys())
        handling = frame.writeStream.queryName(settings.group).foreachBatch(self.batches)
        return handling.option("checkpointLocation", checkpoint)


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


def _is_no_query_end(record: logging.LogRecord) -> bool:
    """Whether a log record is not about the error that ends the query, which the command reports itself."""
    return record.exc_info is None or not isinstance(record.exc_info[1], QueryEndedError)


def _handling(
    session: SparkSession,
    settings: Settings,
    section: PipelineSection,
    options: Mapping[str, str],
    starts: Mapping[Partition, int],
    left_out: Collection[Partition],
) -> DataFrame:
    """Read the ready topics and the sources with one Kafka source each.

    A Kafka source divides the offsets of a micro-batch in proportion to the backlog of its topics. With one Kafka
    source for all topics, redeliveries would wait while the sources have a backlog.
    """

    def read(topics: Iterable[str]) -> Iterator[DataFrame]:
        wanted = set(topics)
        chosen = {partition: at for partition, at in starts.items() if partition.topic in wanted}
        if not chosen:
            return
        found = (
            session.readStream.format("kafka")
            .options(**options)
            .options(**partitions_option(chosen, whole=not any(each.topic in wanted for each in left_out)))
            .option("startingOffsets", offsets_json(chosen))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", str(section.max_offsets_per_trigger))
            .load()
        )
        yield records(found)

    frames = (*read(ready_topics(settings)), *read(source.topic for source in settings.sources))
    return reduce(lambda first, second: first.union(second), frames)


def records(frame: DataFrame) -> DataFrame:
    """Select the columns that tasks receive."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    timestamp = F.unix_millis("timestamp").alias("timestamp")
    # Spark measures the Arrow batch before each row. Measuring walks over the nulls behind the last list that is not
    # null, so an empty list replaces null.
    headers = F.coalesce("headers", F.array().cast(_HEADERS)).alias("headers")
    return frame.select("key", "value", headers, "topic", "partition", "offset", timestamp)


def _table(
    session: SparkSession, settings: Settings, section: PipelineSection, options: Mapping[str, str], base: Path
) -> SinkTable | None:
    sink = section.sink
    if sink is None:
        return None
    path, topics = _folder(sink.path, base), ReadTopics.of(settings, [sink.topic])
    return SinkTable(session, settings, section, sink, options, path, topics)


def _consumers(wanted: Collection[Partition], section: PipelineSection, counts: Mapping[str, int]) -> int:
    """Return how many consumers an executor keeps: one for each partition that the queries read."""
    sink = 0 if section.sink is None else counts[section.sink.topic]
    return max(_SPARK_CONSUMERS, len(wanted) + sink)


def _folder(path: str, base: Path) -> str:
    """Return the URI of a path of the configuration; a path that is a URI already stays as it is."""
    return path if "://" in path else (base / path).absolute().as_uri()


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a setting
    return str(value).lower() if isinstance(value, bool) else str(value)
