"""The figures of a report as DataFrames, from those of :mod:`kafka_redelivery.pipeline.report.topic_frames`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.frames.progress_frames import DONE

_ORIGINS: Final = 5
_ACCURACY: Final = 1000
"""Relative accuracy of quantiles: a thousandth of the rank."""

QUANTILES: Final = (0.5, 0.9, 0.99)
_PERCENT: Final = 100


def by(letters: DataFrame, *columns: str) -> DataFrame:
    """Count dead letters by columns, the most frequent first, with the first and last time."""
    counted = letters.groupBy(*columns).agg(
        F.count("*").alias("letters"),
        F.countDistinct("fingerprint").alias("fingerprints"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
    )
    return counted.orderBy(F.desc("letters"), *columns)


def trend(letters: DataFrame, unit: str) -> DataFrame:
    """Count dead letters by origin and reason for each ``second``, ``minute``, ``hour`` or ``day``."""
    return (
        letters.groupBy(F.date_trunc(unit, "at").alias("since"), "origin", "reason")
        .agg(F.count("*").alias("letters"))
        .orderBy("since", "origin", "reason")
    )


def fingerprints(letters: DataFrame) -> DataFrame:
    """Count dead letters by fingerprint, the most frequent first. The samples include the newest and the oldest one."""
    sample = F.struct(F.col("at"), F.col("message_id"), F.col("key"), F.col("message"))
    grouped = letters.groupBy("fingerprint", "reason", "exception", "normal_message").agg(
        F.count("*").alias("letters"),
        F.countDistinct("origin").alias("origins"),
        F.slice(F.array_sort(F.collect_set("origin")), 1, _ORIGINS).alias("some_origins"),
        F.min("at").alias("first_seen"),
        F.max("at").alias("last_seen"),
        F.array_distinct(F.array(F.max(sample), F.min(sample), F.any_value(sample))).alias("samples"),
    )
    return grouped.orderBy(F.desc("letters"), "fingerprint", "reason")


def record_histories(journal: DataFrame) -> DataFrame:
    """Return one row for each record that failed: number of retries, final outcome, and times, from the journal."""
    offsets = F.explode(F.sequence("first", "last")).alias("offset")
    events = journal.where(F.col("outcome") != "acked").select("topic", "partition", "outcome", "at", offsets)
    is_a = {name: F.col("outcome") == name for name in ("retried", "recovered", "dead_lettered", "discarded")}
    return events.groupBy("topic", "partition", "offset").agg(
        F.count_if(is_a["retried"]).alias("retried"),
        (F.count_if(is_a["recovered"]) > 0).alias("recovered"),
        ((F.count_if(is_a["recovered"]) == 0) & (F.count_if(is_a["dead_lettered"]) > 0)).alias("dead"),
        (F.count_if(is_a["discarded"]) > 0).alias("discarded"),
        F.min(F.when(is_a["retried"], F.col("at"))).alias("failed_at"),
        F.max(F.when(is_a["recovered"], F.col("at"))).alias("ended_at"),
    )


def histories_from_topics(copies: DataFrame, letters: DataFrame, pending: DataFrame) -> DataFrame:
    """As :func:`record_histories`, from the topics instead of the journal.

    A record that failed, is not a dead letter and does not wait has recovered or was discarded; the topics do not show
    which. ``ended_at`` is the time of its release for the last delivery, because the end is unknown.
    """
    failed = (
        copies.where(F.col("message_id").isNotNull() & (F.col("deliveries") > 0))
        .groupBy("message_id")
        .agg(
            F.first("origin").alias("topic"),
            F.max("deliveries").alias("retried"),
            F.min("at").alias("failed_at"),
            F.max("at").alias("ended_at"),
        )
    )
    dead = letters.groupBy("message_id").agg(F.max("deliveries").alias("died_after"))
    waiting = pending.select("message_id").distinct().withColumn("waits", F.lit(1))
    joined = failed.join(dead, "message_id", "full").join(waiting, "message_id", "left")
    is_dead, waits = F.col("died_after").isNotNull(), F.col("waits").isNotNull()
    # The last delivery of a dead letter was not retried.
    retried = F.when(is_dead, F.greatest(F.col("died_after") - 1, F.lit(0))).otherwise(F.col("retried"))
    return joined.select(
        "topic",
        "message_id",
        retried.alias("retried"),
        (~is_dead & ~waits).alias("recovered"),
        is_dead.alias("dead"),
        F.lit(False).alias("discarded"),  # noqa: FBT003 - a literal
        "failed_at",
        "ended_at",
    )


def survival(histories: DataFrame) -> DataFrame:
    """Count the outcomes of failed records by attempt: ``attempt, reached, recovered, dead, discarded``.

    An attempt is a delivery; the first is 1. ``reached`` counts the records that had the attempt. A record that was
    dead-lettered without a delivery counts at 1. A waiting record counts at its last delivery.
    """
    has_ended = F.col("recovered") | F.col("dead") | F.col("discarded")
    attempt = F.col("retried") + has_ended.cast("int")
    ended = histories.groupBy(F.greatest(attempt, F.lit(1)).alias("attempt")).agg(
        F.count("*").alias("records"),
        *(F.count_if(F.col(name)).alias(name) for name in ("recovered", "dead", "discarded")),
    )
    # Add rows for attempts without an outcome.
    most = ended.agg(F.max("attempt").alias("most"))
    attempts = most.select(F.explode(F.sequence(F.lit(1), F.col("most").cast("int"))).alias("attempt"))
    ended = attempts.join(ended, "attempt", "left").na.fill(0)
    later = Window.orderBy(F.desc("attempt")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reached = ended.withColumn("reached", F.sum("records").over(later))
    return reached.select("attempt", "reached", "recovered", "dead", "discarded").orderBy("attempt")


def recovery_times(histories: DataFrame) -> DataFrame:
    """Return the seconds from the first failure to the success by source: count, quantiles and maximum."""
    seconds = (F.unix_micros("ended_at") - F.unix_micros("failed_at")) / 1e6
    times = histories.where(F.col("recovered") & F.col("failed_at").isNotNull()).select(
        "topic", seconds.alias("seconds")
    )
    quantiles = [F.percentile_approx("seconds", level, _ACCURACY).alias(_name(level)) for level in QUANTILES]
    return (
        times.groupBy("topic")
        .agg(F.count("*").alias("recovered"), *quantiles, F.max("seconds").alias("longest"))
        .orderBy(F.desc("recovered"), "topic")
    )


def recovery_curve(histories: DataFrame) -> list[float]:
    """Return the seconds within which 1 %, 2 %, ..., 100 % of the recovered records did so; empty if none did."""
    seconds = (F.unix_micros("ended_at") - F.unix_micros("failed_at")) / 1e6
    levels = [number / _PERCENT for number in range(1, _PERCENT + 1)]
    found = histories.where(F.col("recovered") & F.col("failed_at").isNotNull()).agg(
        F.percentile_approx(seconds, levels, _ACCURACY).alias("levels")
    )
    return list(found.collect()[0]["levels"] or ())


def pending(copies: DataFrame) -> DataFrame:
    """Select the records that the scheduler (tiers) or the workers (ready topics) have not finished."""
    return copies.where(F.col("status") != DONE)


def pending_by_origin(pending: DataFrame) -> DataFrame:
    """Count waiting records by source, with the oldest one."""
    return (
        pending.groupBy("origin")
        .agg(
            F.count("*").alias("records"),
            F.count_if(F.col("place") == "tier").alias("in_tiers"),
            F.count_if(F.col("place") == "ready").alias("ready"),
            F.min("origin_timestamp").alias("oldest_record"),
            F.min_by("message_id", "origin_timestamp").alias("oldest_message_id"),
            F.max("deliveries").alias("most_deliveries"),
        )
        .orderBy("oldest_record", "origin")
    )


def _name(level: float) -> str:
    return f"p{level * _PERCENT:g}"
