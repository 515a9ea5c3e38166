"""`redelivery pipeline stream`: a streaming query over the sources and their ready topics, under the group's policy.

Spark says which offsets a micro-batch has and starts a task for each partition; what becomes of the records is the
tasks' (:mod:`pipeline.task`), and how far the group is stands in Kafka, not in Spark's checkpoint. That one only says
what to look at next: whatever it repeats is skipped.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from consumers.clock import monotonic_s
from consumers.errors import ConsumersError, HaltedError
from consumers.logs import TEXT, form_for_children
from consumers.observer import Observer
from consumers.patience import Patience
from pipeline.errors import PipelineError, StreamHaltedError
from pipeline.handler_process import HandlerProcess
from pipeline.kafka_options import kafka_options
from pipeline.membership import Membership, membership
from pipeline.session import spark_session
from pipeline.setup import Setup
from pipeline.start import as_json, partitions_of, start_offsets, topics_of
from pipeline.stopping import Stop, stopped_by_signals
from pipeline.stream_rules import refuse_what_means_nothing
from pipeline.summary import Ended, Summary, together
from pipeline.task import RESULT, Task
from pipeline.task_plan import TaskPlan
from pipeline.watch import Watch, is_resting, listening, watching
from topology.errors import TopologyError
from topology.pipeline_settings import PipelineSection
from topology.settings import Settings
from transport.client_config import consumer_config
from transport.errors import TransportError
from transport.preflight import verify
from transport.protocols import Partition
from transport.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_AGAIN_S: Final = 1.0
_OUR_MODULES: Final = ("consumers.", "transport.", "topology.", "serdes.", "pipeline.")
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
    options = kafka_options(settings.kafka)
    # At the end of the path: a package of the user's must not hide one of ours or of the installation.
    if str(base) not in sys.path:
        sys.path.append(str(base))
    setup = Setup(settings, base, tuple(sys.path), logging.getLogger().level, form_for_children(TEXT))
    HandlerProcess(setup).close()
    verify(settings)
    counts = _partition_counts(settings)
    wanted = partitions_of(settings, counts)
    with (
        stopped_by_signals(settings.limits.shutdown_timeout, stop) as ending,
        watching(settings, observer) as watch,
        membership(settings, wanted) as member,
    ):
        starts = start_offsets(settings, wanted)
        options["startingOffsets"] = as_json(starts)
        watch.begins_at(starts)
        batches = MicroBatches(setup, member, counts, watch, ending)
        if session is not None:
            _query(session, settings, section, options, base, batches, available_now=available_now)
            return
        with spark_session(settings.group, {name: _text(value) for name, value in section.spark.items()}) as own:
            _query(own, settings, section, options, base, batches, available_now=available_now)


class MicroBatches:
    """Runs one micro-batch after the other. Called on Spark's thread."""

    def __init__(self, setup: Setup, member: Membership, counts: Mapping[str, int], watch: Watch, stop: Stop) -> None:
        self._setup = setup
        self.member = member
        self._counts = counts
        self.watch = watch
        self.stop = stop
        self._query = secrets.token_hex(8)
        self._runners: dict[Partition, str] = {}
        self._patience = Patience()
        self.failure: Exception | None = None
        """Why the query ended, in our own words."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Handle a micro-batch; done again until each of its tasks has come to its end.

        Raises:
            Exception: the query cannot go on; kept in :attr:`failure`, for Spark makes a long text of it.
        """
        with self.stop.busy():
            try:
                self._run(frame, number)
            except Exception as error:
                self.failure = error
                raise

    def _run(self, frame: DataFrame, number: int) -> None:
        begun_s = monotonic_s()
        member: object = None
        while True:
            member = self.member.member(than=member)
            plan = TaskPlan(self._query, self._setup, member, self._counts, dict(self._runners))
            try:
                rows = frame.mapInArrow(Task(plan), RESULT).collect()
            except Exception as error:
                if self.stop.wanted:
                    raise
                self.member.member()  # if it is lost, that is the reason
                self._undone(_first_line(error))
                _log.warning("micro-batch %d is run again: %s", number, _first_line(error))
                self.stop.wait(_AGAIN_S)
                member = None
                continue
            summaries = [Summary.unpacked(bytes(row.summary)) for row in rows]
            self._tell(summaries)
            again = [each for each in summaries if each.ended is Ended.OUTDATED]
            if not again:
                self._patience.succeeded()
                _tell_outcomes(number, monotonic_s() - begun_s, summaries)
                return
            self._undone(again[0].cause)
            _log.warning("micro-batch %d is run again: %s", number, again[0].cause)
            if self.stop.wait(_AGAIN_S):
                raise StreamHaltedError("stopped")
            member = None

    def _undone(self, cause: str) -> None:
        self.watch.observer.undone(cause)
        self._patience.undone(cause)

    def _tell(self, summaries: list[Summary]) -> None:
        for each in summaries:
            if each.place is not None:
                self._runners[each.place] = each.runner
            if each.writes:
                self.watch.observer.committed(together(each.writes))
        for each in summaries:
            if each.ended is Ended.HALTED:
                raise HaltedError(each.cause)
            if each.ended is Ended.REPLACED:
                self.watch.observer.fenced()
                self.member.member()
                raise StreamHaltedError(
                    f"another query of group {self._setup.settings.group} has taken over ({each.cause})"
                )


def _query(
    session: SparkSession,
    settings: Settings,
    section: PipelineSection,
    options: Mapping[str, str],
    base: Path,
    batches: MicroBatches,
    *,
    available_now: bool,
) -> None:
    topics = topics_of(settings)
    frame = records(
        session.readStream.format("kafka")
        .options(**options)
        .option("subscribe", ",".join(topics))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(section.max_offsets_per_trigger))
        .load()
    )
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", _folder(section.checkpoint, base))
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(section.trigger.total_seconds() * 1000)} milliseconds")
    query = writer.start()
    _log.info("the query of group %s reads %s", settings.group, ", ".join(topics))
    with listening(session, query, batches.watch):
        _await(query, batches)


def records(frame: DataFrame) -> DataFrame:
    """What tasks are given of Spark's Kafka source."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional dependency

    return frame.select(
        "key",
        "value",
        "headers",
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
    )


def _await(query: StreamingQuery, batches: MicroBatches) -> None:
    stop = batches.stop
    try:
        while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type] # a float is taken, too
            batches.watch.turned(member=batches.member.joined, resting=lambda: is_resting(query))
            if stop.wanted:
                batches.watch.health.stopping()
                stop.let_finish()
                query.stop()
                return
    except Exception as error:
        if batches.failure is not None and isinstance(batches.failure, _OUR_ERRORS):
            raise batches.failure from None
        raise StreamHaltedError(f"the query ended: {_first_line(error)}") from error


def _tell_outcomes(number: int, seconds: float, summaries: Sequence[Summary]) -> None:
    """A line of the log for a micro-batch that had records."""
    found: Counter[str] = Counter()
    for each in summaries:
        for write in each.writes:
            for label, count in write.outcomes.items():
                found[label.outcome] += count
    if found:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        more = {"micro_batch": number, "seconds": round(seconds, 3), "outcomes": dict(found)}
        _log.info("micro-batch %d: %s in %.2f s", number, told, seconds, extra=more)


def _partition_counts(settings: Settings) -> dict[str, int]:
    reader = Reader(consumer_config(settings.kafka, group=settings.group, instance=None))
    try:
        return reader.partition_counts()
    finally:
        reader.close()


def _folder(path: str, base: Path) -> str:
    """A path of the configuration: as it is if it is one of a file system of its own."""
    return path if "://" in path or path.startswith("/") else (base / path).as_uri()


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a setting
    return str(value).lower() if isinstance(value, bool) else str(value)


def _first_line(error: BaseException) -> str:
    """What a person needs of an error of Spark's, which brings the stack of every process it went through."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(_OUR_MODULES)]
    return (told or lines or [type(error).__name__])[-1 if told else 0][:500]
