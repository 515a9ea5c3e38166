"""The state of each source record, decided with Spark's own columns.

A record is a token. A reader that takes it from a source, a tier or a ready topic passes it on exactly once: as a copy,
as a dead letter, or as done. So finished reads and their results cancel out, even after Kafka has removed them, and
every source record must be in exactly one place: unread, waiting, a dead letter, or done. A record in no place is
missing; a record in two places is doubled. Only the journal shows that a record is done. Without the journal, a record
in no place may be done or lost.

Two faults show without a journal, because finished records stay in their topics for a while. A record that has left its
tier must be in a ready topic or be a dead letter. And each number of deliveries must have one copy, not two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.pipeline.audit.snapshot import Snapshot, TopicKind
from kafka_redelivery.pipeline.frames import DONE, ORIGIN
from kafka_redelivery.topology.wire.journal import OUTCOMES

STATES: Final = (
    "acked",
    "recovered",
    "pending",
    "dead_lettered",
    "discarded",
    "expired",
    "untraced",
    "missing",
    "doubled",
)
"""The states of a source record; the last two are findings. ``untraced``: acked, or lost without trace."""

FINDINGS: Final = ("missing", "doubled")

RANGE_SCHEMA: Final = "topic string, partition int, begin bigint, finish bigint, begins bigint, since_ms bigint"
"""The schema of the range: its offsets, and the offset and time from which the journal must cover every record."""

_COUNTS: Final = ("waiting", "letters", "expired", "redriven", "excess", "in_tier", "late_waiting", "late_letters")


def count_by_origin(copies: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Count copies by origin.

    Columns: ``waiting`` (not read yet), ``in_tier`` (those of them in tiers), ``letters``, and ``expired`` and
    ``redriven`` among these; ``late_waiting``, ``late_letters``; ``excess`` (surplus copies); ``left`` (the last copy
    was read from a tier and has no successor); ``last_ms`` (the timestamp of the newest copy).
    """
    kind, there = F.col("kind"), ~F.col("finished")
    tier, ready, letter = (kind == str(each) for each in (TopicKind.TIER, TopicKind.READY, TopicKind.LETTER))
    waits = there & ~letter
    active = (tier & there) | (ready & ~F.col("redriven"))
    origin = [F.col(f"origin_{name}").alias(name) for name in ORIGIN]
    levels = (
        copies.where(F.col("origin_offset").isNotNull())
        .groupBy(*origin, "deliveries")
        .agg(
            F.count_if(waits).alias("waiting"),
            F.count_if(waits & tier).alias("in_tier"),
            F.count_if(letter & there).alias("letters"),
            F.count_if(letter & there & F.col("expired")).alias("expired"),
            F.count_if(F.col("redriven")).alias("redriven"),
            F.count_if(waits & F.col("late")).alias("late_waiting"),
            F.count_if(letter & there & F.col("late")).alias("late_letters"),
            F.count_if(active).alias("active"),
            F.count_if(active & F.col("late")).alias("late_active"),
            F.max(F.when(tier, F.col("at_ms"))).alias("tier_ms"),
            F.max("at_ms").alias("last_ms"),
            F.count_if(~tier | there).alias("elsewhere"),
        )
    )
    # More copies with a number of deliveries than the one that a worker writes. A redriven record starts again at 0.
    too_many = F.greatest(F.col("active") - 1 - F.col("late_active"), F.lit(0))
    left = (F.col("elsewhere") == 0) & _successors_exist(snapshot)
    return (
        levels.select("*", too_many.alias("excess"), left.alias("left"))
        .groupBy(*ORIGIN)
        .agg(
            *(F.sum(name).alias(name) for name in _COUNTS),
            F.max_by("left", "deliveries").alias("left"),
            F.max("last_ms").alias("last_ms"),
        )
    )


def _successors_exist(snapshot: Snapshot) -> Column:
    """Whether the successors of a copy with this timestamp still exist: not trimmed, and no expired dead letter."""
    ours = [span for kind in (TopicKind.TIER, TopicKind.READY) for span in snapshot.spans[kind]]
    whole = F.lit(all(span.start == 0 for span in ours)) | (F.col("tier_ms") >= snapshot.horizon_ms)
    lifetime = _letter_lifetime(F.col("topic"), snapshot)
    return whole & ((lifetime == 0) | (F.col("tier_ms") + lifetime > snapshot.taken_ms))


def record_states(
    sources: DataFrame,
    outcomes: DataFrame,
    copies: DataFrame,
    within: DataFrame,
    snapshot: Snapshot,
) -> DataFrame:
    """Return one row for each source record in the range: ``topic, partition, offset, state, place, why, journal``.

    ``place`` is where a pending record waits. For findings, ``why`` is the reason and ``journal`` has the number of
    entries by outcome.

    Args:
        sources: the result of :meth:`Evidence.sources`.
        outcomes: the result of :meth:`Evidence.outcomes`.
        copies: the result of :func:`count_by_origin`.
        within: the range of each partition, see :data:`RANGE_SCHEMA`.
        snapshot: the positions.
    """
    counts = [*OUTCOMES, "late_successes", "late_dead_lettered", *_COUNTS]
    joined = (
        sources.join(outcomes, list(ORIGIN), "full_outer")
        .join(copies, list(ORIGIN), "full_outer")
        .join(F.broadcast(within), ["topic", "partition"])
        .where((F.col("offset") >= F.col("begin")) & (F.col("offset") < F.col("finish")))
        .na.fill(0, counts)
    )
    return _counted(joined).select(*ORIGIN, *_state_columns(snapshot)).where(F.col("state").isNotNull())


def _counted(joined: DataFrame) -> DataFrame:
    """Add the number of places of each record. A dead letter in the topic and in the journal counts once."""
    none = F.lit(0)
    return joined.withColumns(
        {
            "open": (F.col("status").isNotNull() & (F.col("status") != DONE)).cast("int"),
            "successes": F.col("acked") + F.col("recovered") + F.col("discarded"),
            "letters": F.greatest(F.col("letters") - F.col("redriven"), none),
            "journal_letters": F.greatest(F.col("dead_lettered") - F.col("redriven"), none),
            "excess": F.when(F.col("redriven") > 0, none).otherwise(F.col("excess")),
            "late": F.col("late_waiting") + F.col("late_successes") + F.greatest("late_letters", "late_dead_lettered"),
        }
    ).withColumns(
        {
            "surplus": F.col("open")
            + F.col("waiting")
            + F.col("successes")
            + F.greatest("letters", "journal_letters")
            - 1
        }
    )


def _state_columns(snapshot: Snapshot) -> list[Column]:
    here = F.col("status").isNotNull()
    doubled = (F.col("surplus") > F.col("late")) | (F.col("excess") > 0)
    left = F.coalesce(F.col("left"), F.lit(False)) & (F.col("redriven") == 0)  # noqa: FBT003 - a literal
    dropped = left & F.col("topic").isin(*snapshot.discarding)
    covered = (F.col("offset") >= F.col("begins")) | (F.col("last_ms") >= F.col("since_ms"))
    gone = (F.col("journal_letters") > 0) & (F.col("late_dead_lettered") == 0) & ~_expired(snapshot)
    nowhere = [(left & ~dropped, "left_its_tier"), (F.coalesce(covered, F.lit(False)) & ~dropped, "no_outcome")]  # noqa: FBT003
    stray = ~here & ~F.col("topic").isin(*snapshot.compacted)

    states = [
        (stray, "doubled", "no_source"),
        (~here, None, None),
        (doubled & ((F.col("successes") > 1) | (F.col("journal_letters") > 1)), "doubled", "ended_twice"),
        (doubled & (F.col("letters") > 1), "doubled", "two_letters"),
        (doubled & (F.col("excess") > 0), "doubled", "two_copies"),
        (doubled, "doubled", "two_places"),
        ((F.col("open") > 0) | (F.col("waiting") > 0), "pending", None),
        ((F.col("letters") > 0) & (F.col("expired") > 0), "expired", None),
        (F.col("letters") > 0, "dead_lettered", None),
        (gone, "missing", "letter_gone"),
        ((F.col("journal_letters") > 0) & (F.col("late_dead_lettered") > 0), "dead_lettered", None),
        (F.col("journal_letters") > 0, "expired", None),
        *((F.col(name) > 0, name, None) for name in ("discarded", "recovered", "acked")),
        *((condition, "missing", why) for condition, why in nowhere),
    ]
    place = (
        F.when(F.col("open") > 0, F.col("status"))
        .when(F.col("in_tier") > 0, str(TopicKind.TIER))
        .when(F.col("waiting") > 0, str(TopicKind.READY))
    )
    state = _first((condition, state) for condition, state, _ in states).otherwise("untraced")
    return [
        state.alias("state"),
        F.when(state == "pending", place).alias("place"),
        _first((condition, why) for condition, _, why in states).alias("why"),
        F.when(state.isin(*FINDINGS), F.struct(*OUTCOMES)).alias("journal"),
    ]


def _expired(snapshot: Snapshot) -> Column:
    """Whether a dead letter that the journal names may have expired and been removed."""
    lifetime = _letter_lifetime(F.col("topic"), snapshot)
    return (lifetime > 0) & (F.col("dead_lettered_ms") + lifetime <= snapshot.taken_ms)


def _letter_lifetime(topic: Column, snapshot: Snapshot) -> Column:
    """Return the age in ms at which dead letters of a source may have been removed; 0 = never."""
    return _first((topic == source, lifetime) for source, lifetime in snapshot.letter_lifetimes_ms.items()).otherwise(
        F.lit(0)
    )


def _first(cases: Iterable[tuple[Column, str | int | None]]) -> Column:
    """Return the value of the first case whose condition holds; ``cases`` is not empty."""
    (condition, value), *others = cases
    chosen = F.when(condition, F.lit(value))
    for other, its_value in others:
        chosen = chosen.when(other, F.lit(its_value))
    return chosen
