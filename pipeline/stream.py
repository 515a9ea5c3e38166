"""`redelivery pipeline stream`: a streaming query over the sources and their ready topics, under the group's policy.

Spark says which offsets a micro-batch has and starts a task for each partition; what becomes of the records is the
tasks' (:mod:`pipeline.task`), and how far the group is stands in Kafka, not in Spark's checkpoint. That one only says
what to look at next: whatever it repeats is skipped.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from consumers.errors import ConsumersError
from consumers.logs import TEXT, form_for_children
from consumers.observer import Observer
from pipeline import table
from pipeline.checkpoint import drop_if_stale, refuse_gaps, refuse_unwritable
from pipeline.errors import PipelineError, StreamHaltedError
from pipeline.handler_process import HandlerProcess
from pipeline.kafka_options import kafka_options
from pipeline.membership import Membership, membership, refuse_members
from pipeline.micro_batches import EndedError, MicroBatches
from pipeline.schema_files import SchemaFiles
from pipeline.session import spark_session
from pipeline.setup import Setup
from pipeline.spark_errors import first_line
from pipeline.start import as_json, partition_counts, partitions_of, ready_topics, start_offsets, topics_of
from pipeline.stopping import Stop, stopped_by_signals
from pipeline.stream_rules import refuse_what_means_nothing
from pipeline.table_format import TableFormat
from pipeline.watch import Watch, is_resting, listening, watching
from topology.errors import TopologyError
from topology.pipeline_settings import PipelineSection
from topology.settings import Settings
from transport.errors import TransportError
from transport.preflight import verify
from transport.protocols import Partition

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_HEADERS: Final = "array<struct<key: string, value: binary>>"
_OUR_ERRORS: Final = (ConsumersError, PipelineError, TopologyError, TransportError)


def run_stream(
    settings: Settings,
    base: Path,
    *,
    available_now: bool = False,
    session: SparkSession | None = None,
    stop: Stop | None = None,
    observer: Observer | None = None,
) -> None:
    """Run the query until SIGTERM or SIGINT, or, with ``available_now``, until all that is there now is done.

    Args:
        settings: the configuration.
        base: the folder of the configuration file.
        available_now: end when everything that is there at the start has been handled once.
        session: to run in; ``None`` = one of its own.
        stop: asked whether to end, ``None`` = by signals.
        observer: told of every micro-batch, ``None`` = metrics as configured.

    Raises:
        StreamRefusedError, KafkaOptionError, HandlerLoadError, SerdeError: the configuration cannot be run here.
        TopologyRefusedError: the topics would lose data.
        HaltedError, StreamHaltedError, TransportError: it could not go on.
    """
    section = refuse_what_means_nothing(settings)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(_is_news)
    options = kafka_options(settings.kafka)
    # At the end of the path: a package of the user's must not hide one of ours or of the installation.
    if str(base) not in sys.path:
        sys.path.append(str(base))
    schemas = SchemaFiles.of(settings, base)
    setup = Setup(settings, base, tuple(sys.path), logging.getLogger().level, form_for_children(TEXT), schemas)
    HandlerProcess(setup).close()
    verify(settings)
    counts = partition_counts(settings)
    if section.sink is not None:
        table.refuse(section.sink, counts)
    refuse_members(settings)
    wanted = partitions_of(settings, counts)
    with ExitStack() as stack:
        ending = stack.enter_context(stopped_by_signals(settings.limits.shutdown_timeout, stop))
        watch = stack.enter_context(watching(settings, observer))
        stored = TableFormat.PARQUET if section.sink is None else TableFormat(section.sink.format)
        spark = {
            "spark.sql.execution.arrow.maxBytesPerBatch": str(settings.limits.buffer_bytes),
            "spark.log.level": "DEBUG" if _log.isEnabledFor(logging.DEBUG) else "ERROR",
            **stored.settings,
            **{name: _text(value) for name, value in section.spark.items()},
        }
        own = nullcontext(session) if session is not None else spark_session(settings.group, spark, stored.jars)
        session = stack.enter_context(own)
        # Spark takes its time to start; whoever this query takes over from goes on until then.
        member = stack.enter_context(membership(settings, wanted))
        starts = start_offsets(settings, wanted, member.member())
        watch.begins_at(starts)
        folder = _folder(section.checkpoint, base)
        refuse_unwritable(session, f"{folder}/stream")
        drop_if_stale(session, settings, f"{folder}/stream", starts)
        refuse_gaps(session, settings, f"{folder}/stream", starts)
        batches = MicroBatches(setup, member, counts, watch.observer, ending)
        handling = _handling(session, settings, section, options, starts).writeStream.foreachBatch(batches)
        queries = [(handling.option("checkpointLocation", f"{folder}/stream"), section.trigger)]
        if section.sink is not None:
            path = _folder(section.sink.path, base)
            appending = table.appending(session, options, section.sink, path)
            queries.append((appending, section.sink.trigger))
        _log.info("the query of group %s reads %s", settings.group, ", ".join(topics_of(settings)))
        with _told_by(batches):
            _Turning(session, ending, watch, member).run(queries, available_now=available_now)


class _Turning:
    """The driver's main thread: starts the queries, looks after them, and stops them."""

    def __init__(self, session: SparkSession, stop: Stop, watch: Watch, member: Membership) -> None:
        self._session = session
        self._stop = stop
        self._watch = watch
        self._member = member

    def run(self, queries: list[tuple[DataStreamWriter, timedelta]], *, available_now: bool) -> None:
        """Until one of the queries ends, or all are to; the first one is what the watch is told of."""
        if available_now:
            for number, (writer, _) in enumerate(queries):  # the second one reads what the first has written
                if not self._stop.wanted:
                    self._look_after([writer.trigger(availableNow=True).start()], watched=number == 0)
            return
        started = []
        try:
            for writer, every in queries:
                milliseconds = round(every.total_seconds() * 1000)
                started.append(writer.trigger(processingTime=f"{milliseconds} milliseconds").start())
            self._look_after(started, watched=True)
        finally:
            for query in started:
                query.stop()

    def _look_after(self, queries: list[StreamingQuery], *, watched: bool) -> None:
        first = queries[0]
        with listening(self._session, first, self._watch) if watched else nullcontext():
            while not any(query.awaitTermination(_LOOK_S / len(queries)) for query in queries):  # type: ignore[arg-type] # a float is taken, too
                self._member.check()  # between two micro-batches nobody else asks
                self._watch.turned(member=self._member.joined, resting=lambda: is_resting(first))
                if self._stop.wanted:
                    self._watch.health.stopping()
                    self._stop.let_finish()
                    self._stop.over_soon()
                    for query in queries:
                        query.stop()
                    return


@contextmanager
def _told_by(batches: MicroBatches) -> Iterator[None]:
    """Errors in our own words instead of Spark's."""
    try:
        yield
    except _OUR_ERRORS:
        raise
    except Exception as error:
        cause = error if batches.failure is None else batches.failure
        if isinstance(cause, _OUR_ERRORS):
            raise cause from None
        raise StreamHaltedError(f"the query ended: {first_line(cause)}") from error


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the log is not about what ends the query, which is told as its error."""
    return record.exc_info is None or not isinstance(record.exc_info[1], EndedError)


def _handling(
    session: SparkSession,
    settings: Settings,
    section: PipelineSection,
    options: Mapping[str, str],
    starts: Mapping[Partition, int],
) -> DataFrame:
    """The sources and the ready topics, read beside each other.

    Spark divides what one reader may take in proportion to what there is. With one reader for all, redeliveries would
    wait for as long as there is a backlog of the sources.
    """

    def read(topics: Iterable[str]) -> DataFrame:
        wanted = set(topics)
        found = (
            session.readStream.format("kafka")
            .options(**options)
            .option("subscribe", ",".join(sorted(wanted)))
            .option("startingOffsets", as_json({place: at for place, at in starts.items() if place.topic in wanted}))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", str(section.max_offsets_per_trigger))
            .load()
        )
        return records(found)

    return read(ready_topics(settings)).union(read(source.topic for source in settings.sources))


def records(frame: DataFrame) -> DataFrame:
    """What tasks are given of Spark's Kafka source."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    timestamp = F.unix_millis("timestamp").alias("timestamp")
    # Before it takes another row into a batch, Spark measures what it has, for which Arrow goes over all the lists that
    # are missing behind the last that is not.
    headers = F.coalesce("headers", F.array().cast(_HEADERS)).alias("headers")
    return frame.select("key", "value", headers, "topic", "partition", "offset", timestamp)


def _folder(path: str, base: Path) -> str:
    """A path of the configuration: as it is if it is one of a file system of its own."""
    return path if "://" in path else (base / path).absolute().as_uri()


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a setting
    return str(value).lower() if isinstance(value, bool) else str(value)
