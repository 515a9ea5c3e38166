"""`redelivery pipeline stream`: a streaming query over the sources and their ready topics, under the group's policy.

Spark decides which offsets a micro-batch has and starts tasks for its partitions. Tasks handle the records and write
the outcomes (:mod:`kafka_redelivery.pipeline.task.task`). The progress of the group is in Kafka, not in Spark's
checkpoint: the checkpoint only says what to read next, and tasks skip records that they have already handled.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.flow.outages import Outages
from kafka_redelivery.consumers.flow.probe import Probe, as_probe
from kafka_redelivery.consumers.handlers.handler import find_probe
from kafka_redelivery.consumers.process.pause_watch import PauseWatch, watch_pauses
from kafka_redelivery.consumers.process.scheduler_watch import scheduler_watch
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.logs import TEXT, child_log_format
from kafka_redelivery.consumers.writes.jitter import draws
from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.spark.codecs import SchemaFiles
from kafka_redelivery.pipeline.spark.jars import DELTA
from kafka_redelivery.pipeline.spark.kafka_options import java_text, kafka_options, refuse_delegation_tokens
from kafka_redelivery.pipeline.spark.session import noticing_end_of_java, spark_session, submitted_settings
from kafka_redelivery.pipeline.stream.driver_scheduler import scheduler_in_driver
from kafka_redelivery.pipeline.stream.lost_positions import LostPositions
from kafka_redelivery.pipeline.stream.membership import NAME, membership, refuse_members
from kafka_redelivery.pipeline.stream.micro_batches import MicroBatches, QueryEndedError
from kafka_redelivery.pipeline.stream.monitor import ROLE, query_monitor
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.query_outages import QueryOutages
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics, topics_of
from kafka_redelivery.pipeline.stream.shutdown import Shutdown, shutdown_on_signals
from kafka_redelivery.pipeline.stream.sink_table import COLUMNS, SinkTable, compacting, table_rows, validate_sink
from kafka_redelivery.pipeline.stream.start_offsets import partition_counts, partitions_of
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.settings import HandlerSection, PipelineSection, Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.transport.admin.preflight import verify
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession

    from kafka_redelivery.pipeline.stream.transformation import Transformation


_log = logging.getLogger(__name__)

_SPARK_CONSUMERS: Final = 64
"""How many consumers an executor keeps by default. Beyond this number Spark closes one for each that it creates."""


def run_stream(
    settings: Settings,
    base: Path,
    *,
    available_now: bool = False,
    until_settled: timedelta | None = None,
    skip_removed: bool = False,
    session: SparkSession | None = None,
    shutdown: Shutdown | None = None,
    transformation: Transformation | None = None,
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
        transformation: computes the outcomes of records; ``None`` = the handlers are called.

    Raises:
        PipelineRefusedError, HandlerLoadError, SerdeError: the configuration cannot run here.
        TopologyRefusedError: the topics are not safe to use, for example because they would lose data.
        HaltedError, StreamHaltedError, TransportError: the query could not continue.
        StreamUnsettledError: with ``until_settled``, records still wait.
    """
    section = validate_settings(settings)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(_is_no_query_end)
    configured = {name: java_text(value) for name, value in section.spark.items()}
    refuse_delegation_tokens(settings.kafka, settings_of_spark(session, configured))
    options = kafka_options(settings.kafka)
    # Last in the search path: a user's module must not hide an installed one.
    if str(base) not in sys.path:
        sys.path.append(str(base))
    schemas = SchemaFiles.of(settings, base)
    config = HandlerConfig(settings, base, tuple(sys.path), logging.getLogger().level, child_log_format(TEXT), schemas)
    config = _ready(config, transformation)
    verify(settings, AclRole.SPARK)
    counts = partition_counts(settings)
    validate_sink(section.sink, counts, _columns(transformation), skip_removed=skip_removed)
    refuse_members(settings)
    wanted = partitions_of(settings, counts)
    with ExitStack() as stack:
        stop = stack.enter_context(shutdown_on_signals(settings.limits.shutdown_timeout, shutdown))
        monitor = stack.enter_context(query_monitor(settings))
        pauses = stack.enter_context(watch_pauses(settings, ROLE, settings.instance or NAME, monitor.health))
        jars = () if section.sink is None else (DELTA,)
        spark = {
            "spark.sql.execution.arrow.maxBytesPerBatch": str(settings.limits.buffer_bytes),
            "spark.kafka.consumer.cache.capacity": str(_consumers(wanted, section, counts)),
            "spark.log.level": "DEBUG" if _log.isEnabledFor(logging.DEBUG) else "ERROR",
            **configured,
        }
        if session is None:
            session = stack.enter_context(spark_session(settings.group, spark, jars))
        stack.enter_context(noticing_end_of_java(session, query=True))
        outages = _outages(config, pauses, monitor.health, session.sparkContext.defaultParallelism)
        monitor.gate = gate = PauseGate(pauses, topics_of(settings), stop, outages)
        # Join after Spark has started, which takes seconds: a query that this one replaces keeps running until then.
        member = stack.enter_context(membership(settings, wanted, stop))
        scheduler = stack.enter_context(scheduler_in_driver(settings, monitor))
        stack.enter_context(scheduler_watch(settings, monitor.health))
        # It needs PySpark, which the session has found.
        from kafka_redelivery.pipeline.frames import Frames  # noqa: PLC0415 - an optional dependency
        from kafka_redelivery.pipeline.stream.queries import Queries  # noqa: PLC0415 - an optional dependency

        topics, frames = ReadTopics.of(settings), Frames(session, options)
        table = None
        if (sink := section.sink) is not None:
            path, of_sink = _folder(sink.path, base), ReadTopics.of(settings, [sink.topic])
            compacted = Frames(compacting(session), options)
            table = SinkTable(compacted, settings, section, sink, path, of_sink, _rows(transformation))
        queries = Queries(
            frames=frames,
            settings=settings,
            section=section,
            checkpoint=_folder(section.checkpoint, base),
            counts=counts,
            shutdown=stop,
            monitor=monitor,
            member=member,
            batches=stack.enter_context(
                closing(MicroBatches(config, member, counts, monitor.observer, stop, gate, topics, transformation))
            ),
            gate=gate,
            lost=LostPositions(settings, monitor.observer, monitor.health),
            topics=topics,
            scheduler=scheduler,
            table=table,
            skip_removed=skip_removed,
        )
        _log.info("the query of group %s reads %s", settings.group, ", ".join(topics_of(settings)))
        try:
            if available_now:
                queries.run_available_now(until_settled)
            else:
                queries.run()
        finally:
            queries.save_positions()


def settings_of_spark(session: SparkSession | None, configured: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the application. Those of the configuration do not apply to a given session."""
    if session is None:
        return {**configured, **submitted_settings()}
    if configured:
        _log.warning("pipeline.spark does not apply to a given session; set there: %s", ", ".join(configured))
    return dict(session.sparkContext.getConf().getAll())


def _ready(config: HandlerConfig, transformation: Transformation | None) -> HandlerConfig:
    """Return the configuration of tasks: that of a transformation, or of handlers that can be loaded.

    Raises:
        HandlerLoadError: a handler cannot be loaded.
    """
    if transformation is not None:
        return replace(config, computing=transformation.computing)
    Handling(config).close()
    return config


def _columns(transformation: Transformation | None) -> Collection[str]:
    return COLUMNS if transformation is None else transformation.columns.names


def _rows(transformation: Transformation | None) -> Callable[[DataFrame], DataFrame]:
    """Return what converts the records of the sink's topic to rows of its table."""
    return table_rows if transformation is None else transformation.table_rows


def _outages(config: HandlerConfig, pauses: PauseWatch, health: Health, cores: int) -> QueryOutages | None:
    """Return the outages of what the handlers declare; ``None`` if they declare nothing.

    Raises:
        HandlerLoadError: a probe cannot be loaded.
        SerdeError: a schema cannot be loaded.
    """
    sections = {name: each for section in config.sections for name, each in section.dependencies}
    if not sections:
        return None
    settings, full = config.settings, Counter[str]()
    for section in config.sections:
        full.update({name: section.slots * cores for name, _ in section.dependencies})
    instance = settings.instance or NAME
    probes = {
        name: Probe(name, as_probe(find_probe(each.probe, f"dependencies.{name}.probe")), instance, pauses)
        for name, each in sections.items()
        if each.probe is not None
    }
    outages = Outages(
        sections=sections,
        full=full,
        probes=probes,
        view=pauses,
        health=health,
        instance=instance,
        draw=lambda: abs(next(draws())),
        new_id=lambda: secrets.token_hex(8),
    )
    return QueryOutages(outages, config.routes(), settings.handlers)


def _is_no_query_end(record: logging.LogRecord) -> bool:
    """Whether a log record is not about the error that ends the query, which the command reports itself."""
    return record.exc_info is None or not isinstance(record.exc_info[1], QueryEndedError)


def _consumers(wanted: Collection[Partition], section: PipelineSection, counts: Mapping[str, int]) -> int:
    """Return how many consumers an executor keeps: one for each partition that the queries read."""
    sink = 0 if section.sink is None else counts[section.sink.topic]
    return max(_SPARK_CONSUMERS, len(wanted) + sink)


def _folder(path: str, base: Path) -> str:
    """Return the URI of a path of the configuration; a path that is a URI already stays as it is."""
    return path if "://" in path else (base / path).absolute().as_uri()


def validate_settings(settings: Settings) -> PipelineSection:
    """Return the section ``pipeline`` of a configuration that a query can run.

    Raises:
        PipelineRefusedError: a section is missing or a setting is not supported; the message lists all of them.
    """
    section = settings.pipeline
    faults = list(_faults(settings))
    if section is None:
        faults.insert(0, "there is no section pipeline: add 'pipeline: {checkpoint: FOLDER}'")
    if section is None or faults:
        raise PipelineRefusedError("redelivery pipeline stream cannot run this configuration:\n" + "\n".join(faults))
    return section


def _faults(settings: Settings) -> Iterator[str]:
    if settings.mode is not AcknowledgementMode.TRANSACTED:
        yield f"mode is {settings.mode}: a query always writes in transactions; remove the setting, or set transacted"
    if not settings.handlers:
        yield "there is no section handler: add 'handler: {callable: package.module:function}'"
    # What several sources have from the section handler is reported once.
    yield from dict.fromkeys(
        fault for topic, handler in settings.handlers.items() for fault in _handler_faults(settings, topic, handler)
    )


def _handler_faults(settings: Settings, topic: str, handler: HandlerSection) -> Iterator[str]:
    """Yield the faults of a source and its handler."""
    if not handler.non_blocking_redelivery:
        yield (
            "handler.nonBlockingRedelivery is false: a micro-batch cannot wait for a record; remove the setting, "
            "or use redelivery worker"
        )
    if handler.persist_delivery_count_before_delivery:
        yield (
            "handler.persistDeliveryCountBeforeDelivery is true: a query runs handlers in separate processes and "
            "counts a delivery that kills one anyway; remove the setting"
        )
    if handler.batch is not None:
        yield (
            "handler.batch is set: a query gives many records to one call only as an Arrow record batch; remove the "
            "setting and write a function for vectorized: true, or use redelivery worker"
        )
    if handler.vectorized:
        if handler.slots != 1:
            yield (
                f"handler.slots is {handler.slots}: a vectorised handler gets many records in one call, and there is "
                "one call at a time; remove the setting"
            )
        source = next(each for each in settings.sources if each.topic == topic)
        for part in ("key", "value"):
            given = getattr(source, part).format
            if given != "raw":
                yield (
                    f"sources: {topic} has a {part} of format {given}, but a vectorised handler receives "
                    "bytes: remove the format and decode in the handler"
                )
