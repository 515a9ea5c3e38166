"""The report: failures by origin, reason, attempt and time; how many records recover, how fast, and what waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import report_tables as tables
from pipeline.report_sources import Sources, Topics
from pipeline.table_format import TableFormat
from topology.settings import Settings

Rows = list[dict[str, Any]]

SHOWN: Final = 50
"""Rows of a table in summary and page; the tables that are written hold all."""

_SECONDS: Final = timedelta(minutes=3)
_MINUTES: Final = timedelta(hours=3)
_HOURS: Final = timedelta(days=4)


class Tables(StrEnum):
    """The format of the tables that are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything, as plain values. Times are UTC."""

    group: str
    made_at: datetime
    letters: int
    origins: int
    first: datetime | None
    last: datetime | None
    unit: str
    """Of the trend: second, minute, hour or day."""

    by_origin: Rows
    by_reason: Rows
    by_attempt: Rows
    trend: Rows
    """``since, reason, letters``."""

    fingerprints: Rows
    survival: Rows
    acked: int | None
    """Records that succeeded at once; ``None`` without a journal."""

    failed: int
    recovered: int
    recovery: Rows
    curve: list[float]
    pending: Rows
    waiting: int
    journal: bool
    """Whether the journal tells of recovery; else it is concluded from the topics."""

    archive: str | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_text))
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a report is made from, and where its tables go."""

    settings: Settings
    archive: str | None = None
    """A table of dead letters; those of the topics that it has not yet are added."""

    archive_format: TableFormat = TableFormat.PARQUET
    journal: bool = True
    """Whether to use the journal, where it is on."""

    output: Path | None = None
    """A folder for the tables; ``None`` = they are not written."""

    form: Tables = Tables.PARQUET


def make_report(
    spark: SparkSession, request: Request, now_ms: int, told: Callable[[str], None] = lambda _: None
) -> Report:
    """Read everything and count it.

    Args:
        spark: of :func:`pipeline.archive.archive_session`.
        request: what, and where to.
        now_ms: epoch ms.
        told: what is done now.

    Raises:
        TransportError: Kafka does not answer.
        KafkaOptionError: a client setting cannot be said to Spark.
    """
    told("reading the topics")
    frames = _Frames.read(spark, request)
    try:
        return _counted(frames, request, now_ms, told)
    finally:
        frames.forget()


@dataclass(frozen=True, slots=True)
class _Frames:
    """What is counted, kept as long as that takes."""

    letters: DataFrame
    pending: DataFrame
    entries: DataFrame | None
    """Of the journal."""

    lives: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, request: Request) -> Self:
        sources = Sources(spark, request.settings, Topics.of(request.settings))
        letters = sources.letters(request.archive, request.archive_format).persist()
        copies = sources.copies().persist()
        pending = tables.pending(copies).persist()
        journal = sources.journal() if request.journal else None
        if journal is None:
            return cls(letters, pending, None, tables.lives_by_topics(copies, letters, pending).persist())
        entries = journal.persist()
        return cls(letters, pending, entries, tables.record_lives(entries).persist())

    def forget(self) -> None:
        for frame in (self.letters, self.pending, self.entries, self.lives):
            if frame is not None:
                frame.unpersist()


def _counted(frames: _Frames, request: Request, now_ms: int, told: Callable[[str], None]) -> Report:
    letters, lives = frames.letters, frames.lives
    told("counting the dead letters")
    total = letters.agg(
        F.count("*").alias("letters"),
        F.countDistinct("origin").alias("origins"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    ).collect()[0]
    unit = _unit(total["first"], total["last"])
    wanted = {
        "by_origin": tables.by(letters, "origin"),
        "by_reason": tables.by(letters, "reason"),
        "by_attempt": tables.by(letters, "deliveries", "reason"),
        "trend": tables.trend(letters, unit),
        "fingerprints": tables.fingerprints(letters),
        "survival": tables.survival(lives),
        "recovery": tables.recovery_times(lives),
        "pending": tables.pending_by_origin(frames.pending),
    }
    shown = {}
    for name, frame in wanted.items():
        told(f"counting: {name.replace('_', ' ')}")
        shown[name] = _shown(name, frame, request)
    fate = lives.agg(F.count("*").alias("failed"), F.count_if("recovered").alias("recovered")).collect()[0]
    return Report(
        group=request.settings.group,
        made_at=datetime.fromtimestamp(now_ms / 1000, UTC),
        letters=total["letters"],
        origins=total["origins"],
        first=_utc(total["first"]),
        last=_utc(total["last"]),
        unit=unit,
        acked=None if frames.entries is None else _acked(frames.entries),
        failed=fate["failed"],
        recovered=fate["recovered"],
        curve=tables.recovery_curve(lives),
        waiting=frames.pending.count(),
        journal=frames.entries is not None,
        archive=request.archive,
        **shown,
    )


def _shown(name: str, frame: DataFrame, request: Request) -> Rows:
    """Write a table, and give what the page shows of it."""
    kept = frame.persist()
    try:
        if request.output is not None:
            _write(kept, request.output / name, request.form)
        if name == "trend":
            by_reason = kept.groupBy("since", "reason").agg(F.sum("letters").alias("letters"))
            return _rows(by_reason.orderBy("since", "reason"))
        return _rows(kept.limit(SHOWN))
    finally:
        kept.unpersist()


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
    """Spark's times are those of the session, which is UTC, and do not say so."""
    return None if time is None else time.replace(tzinfo=UTC)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _write(frame: DataFrame, folder: Path, form: Tables) -> None:
    """CSV has no lists: they become JSON."""
    if form is Tables.CSV:
        nested = [each.name for each in frame.schema if each.dataType.typeName() in {"array", "struct"}]
        frame = frame.withColumns({name: F.to_json(name) for name in nested})
    frame.coalesce(1).write.mode("overwrite").option("header", "true").format(form).save(str(folder))
