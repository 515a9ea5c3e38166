"""The report: failures by source, reason, attempt and time; recoveries and their duration; waiting records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.condition import DEFAULT_LIMIT, limited
from kafka_redelivery.pipeline.report import figures
from kafka_redelivery.topology.config.settings import Settings

Rows = list[dict[str, Any]]

SHOWN: Final = 50
"""The maximum number of rows of a table in the page and the JSON document. Written tables have all rows."""

_SECONDS: Final = timedelta(minutes=3)
_MINUTES: Final = timedelta(hours=3)
_HOURS: Final = timedelta(days=4)


class Tables(StrEnum):
    """The file format of the written tables."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report as plain values. Times are UTC."""

    group: str
    made_at: datetime
    letters: int
    origins: int
    first: datetime | None
    last: datetime | None
    unit: str
    """The time unit of the trend: second, minute, hour or day."""

    by_origin: Rows
    by_reason: Rows
    by_attempt: Rows
    trend: Rows
    """``since, reason, letters``."""

    fingerprints: Rows
    survival: Rows
    acked: int | None
    """Records that succeeded at the first attempt; ``None`` without a journal."""

    failed: int
    recovered: int
    recovery: Rows
    curve: list[float]
    pending: Rows
    waiting: int
    journal: bool
    """Whether recoveries come from the journal; otherwise they are derived from the topics."""

    archive: str | None
    where: str | None = None
    """The condition on the dead letters that are counted; recoveries and waiting records are those of all records."""

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_text))
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The inputs and outputs of a report."""

    settings: Settings
    archive: str | None = None
    """A table of archived dead letters; those of the topics that are not in it are added."""

    where: str | None = None
    """A condition on the dead letters that are counted (docs/where.md)."""

    within: timedelta = DEFAULT_LIMIT
    """How long it may take to compute ``where``."""

    journal: bool = True
    """Whether to use the journal if it is on."""

    output: str | None = None
    """The URI of a folder for the tables; ``None`` = write no tables."""

    form: Tables = Tables.PARQUET


def make_report(
    spark: SparkSession, request: Request, now_ms: int, on_progress: Callable[[str], None] = lambda _: None
) -> Report:
    """Create a report.

    Args:
        spark: a session of :func:`archive_session`.
        request: inputs and outputs.
        now_ms: epoch ms.
        on_progress: called with a short description of the current step.

    Raises:
        NotAuthorisedError: the user may not read all topics that are counted.
        TransportError: Kafka does not answer.
        PipelineRefusedError: a client setting has no equivalent for Spark.
        ExpressionError, OptionError: the condition is not one, or not on what the archive has.
        PipelineError: the condition takes too long.
    """
    where = None if request.where is None else Where.of(request.where, now_ms)
    on_progress("reading the topics")
    with ExitStack() as until:

        def cached(frame: DataFrame) -> DataFrame:
            until.callback(frame.persist().unpersist)
            return frame

        sources = figures.TopicFrames(spark, request.settings)
        letters = cached(sources.letters(request.archive, where))
        copies = cached(sources.copies())
        pending = cached(figures.pending(copies))
        journal = sources.journal() if request.journal else None
        if journal is None:
            histories = cached(figures.histories_from_topics(copies, letters, pending))
        else:
            journal = cached(journal)
            histories = cached(figures.record_histories(journal))
        letters = letters.where("selected")
        on_progress("counting the dead letters")
        # The letters are cached, so the condition is computed here and not again.
        with nullcontext() if request.where is None else limited(letters.sparkSession, request.within):
            total = letters.agg(
                F.count("*").alias("letters"),
                F.countDistinct("origin").alias("origins"),
                F.min("at").alias("first"),
                F.max("at").alias("last"),
            ).collect()[0]
        first, last = _utc(total["first"]), _utc(total["last"])
        unit = _unit(first, last)
        wanted = {
            "by_origin": figures.by(letters, "origin"),
            "by_reason": figures.by(letters, "reason"),
            "by_attempt": figures.by(letters, "deliveries", "reason"),
            "trend": figures.trend(letters, unit),
            "fingerprints": figures.fingerprints(letters),
            "survival": figures.survival(histories),
            "recovery": figures.recovery_times(histories),
            "pending": figures.pending_by_origin(pending),
        }
        shown = {}
        for name, frame in wanted.items():
            on_progress(f"counting: {name.replace('_', ' ')}")
            shown[name] = _shown(name, frame, request)
        totals = histories.agg(F.count("*").alias("failed"), F.count_if("recovered").alias("recovered")).collect()[0]
        return Report(
            group=request.settings.group,
            made_at=datetime.fromtimestamp(now_ms / 1000, UTC),
            letters=total["letters"],
            origins=total["origins"],
            first=first,
            last=last,
            unit=unit,
            acked=None if journal is None else _acked(journal),
            failed=totals["failed"],
            recovered=totals["recovered"],
            curve=figures.recovery_curve(histories),
            waiting=pending.count(),
            journal=journal is not None,
            archive=request.archive,
            where=request.where,
            **shown,
        )


def _shown(name: str, frame: DataFrame, request: Request) -> Rows:
    """Write a table, and return the rows for the page."""
    cached = frame.persist()
    try:
        if request.output is not None:
            _write(cached, f"{request.output}/{name}", request.form)
        if name == "trend":
            by_reason = cached.groupBy("since", "reason").agg(F.sum("letters").alias("letters"))
            return _rows(by_reason.orderBy("since", "reason"))
        return _rows(cached.limit(SHOWN))
    finally:
        cached.unpersist()


def _acked(entries: DataFrame) -> int:
    runs = entries.where(F.col("outcome") == "acked")
    total = runs.agg(F.sum(F.col("last") - F.col("first") + 1).alias("records")).collect()[0]["records"]
    return int(total or 0)


def _unit(first: datetime | None, last: datetime | None) -> str:
    span = timedelta() if first is None or last is None else last - first
    if span < _SECONDS:
        return "second"
    return "minute" if span < _MINUTES else "hour" if span < _HOURS else "day"


def _rows(frame: DataFrame) -> Rows:
    return [{name: _value(value) for name, value in row.asDict(recursive=True).items()} for row in frame.collect()]


def _value(value: Any) -> Any:  # noqa: ANN401 - a value of a row
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, Mapping):
        return {name: _value(each) for name, each in value.items()}
    return [_value(each) for each in value] if isinstance(value, list) else value


def _utc(time: datetime | None) -> datetime | None:
    """Return a value of Spark in UTC. PySpark returns the local time of this process, without a time zone."""
    return None if time is None else time.astimezone(UTC)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _write(frame: DataFrame, folder: str, form: Tables) -> None:
    """Write a table. CSV has no nested values, so they become JSON."""
    if form is Tables.CSV:
        nested = [each.name for each in frame.schema if each.dataType.typeName() in {"array", "struct"}]
        frame = frame.withColumns({name: F.to_json(name) for name in nested})
    frame.coalesce(1).write.mode("overwrite").option("header", "true").format(form).save(folder)
