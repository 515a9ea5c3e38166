"""What became of each source record, decided from the evidence by native columns.

A record is a token. Whoever reads it from a source, a tier or a ready topic gives it on exactly once: as a copy, as a
dead letter, or to nobody because it is done. So everything that has been read and everything that this has left behind
cancel each other, also where it has been trimmed since, and every source record must be in exactly one place: unread,
waiting, a dead letter, or done. None is a loss, two are a double. That it is done only the journal tells; without it a
record that is in no place may have been done as well as lost.

Two things show without a journal, because what has been read is kept for a while. Whatever has left its tier must be
in a ready topic, or be a dead letter. And for each number of deliveries there is one copy on its way, not two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from consumers.journal import OUTCOMES
from pipeline.audit_snapshot import Kind, Snapshot
from pipeline.kafka_frames import ORIGIN
from pipeline.progress_frames import DONE

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
"""What a source record can be; the last two are findings. ``untraced``: acked, or lost without trace."""

FINDINGS: Final = ("missing", "doubled")

RANGE: Final = "topic string, partition int, begin bigint, finish bigint, begins bigint, since_ms bigint"
"""The columns of the range: its offsets, and from where on the journal must tell of every record."""

_BITS: Final = ("waiting", "letters", "expired", "redriven", "excess", "in_tier", "late_waiting", "late_letters")


def by_origin(copies: DataFrame, snapshot: Snapshot) -> DataFrame:
    """One row for each origin that copies name, with numbers of them.

    ``waiting`` (not read yet), ``in_tier`` (those of them in tiers), ``letters``, ``expired`` and ``redriven`` (of
    these), ``late_waiting``, ``late_letters``, ``excess`` (copies on their way that are too many), ``left`` (the last
    copy was read from a tier, and is nowhere), ``last_ms`` (the timestamp of the newest copy).
    """
    kind, there = F.col("kind"), ~F.col("finished")
    tier, ready, letter = (kind == str(each) for each in (Kind.TIER, Kind.READY, Kind.LETTER))
    waits = there & ~letter
    on_its_way = (tier & there) | (ready & ~F.col("redriven"))
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
            F.count_if(on_its_way).alias("on_its_way"),
            F.count_if(on_its_way & F.col("late")).alias("late_on_its_way"),
            F.max(F.when(tier, F.col("at_ms"))).alias("tier_ms"),
            F.max("at_ms").alias("last_ms"),
            F.count_if(~tier | there).alias("elsewhere"),
        )
    )
    # More copies of a number of deliveries than the one that a worker made; of redriven ones the count begins anew.
    too_many = F.greatest(F.col("on_its_way") - 1 - F.col("late_on_its_way"), F.lit(0))
    left = (F.col("elsewhere") == 0) & _kept("tier_ms", snapshot)
    return (
        levels.select("*", too_many.alias("excess"), left.alias("left"))
        .groupBy(*ORIGIN)
        .agg(
            *(F.sum(name).alias(name) for name in _BITS),
            F.max_by("left", "deliveries").alias("left"),
            F.max("last_ms").alias("last_ms"),
        )
    )


def _kept(at_ms: str, snapshot: Snapshot) -> Column:
    """Whether what came of a copy with this timestamp is still there: not trimmed, and no letter that has expired."""
    ours = [span for kind in (Kind.TIER, Kind.READY) for span in snapshot.spans[kind]]
    whole = F.lit(all(span.start == 0 for span in ours)) | (F.col(at_ms) >= snapshot.horizon_ms)
    life = _life(F.col("topic"), snapshot)
    return whole & ((life == 0) | (F.col(at_ms) + life > snapshot.taken_ms))


def verdicts(
    sources: DataFrame,
    outcomes: DataFrame,
    copies: DataFrame,
    within: DataFrame,
    snapshot: Snapshot,
) -> DataFrame:
    """One row for each source record in the range: ``topic, partition, offset, state, place, why, told``.

    ``place`` says where a pending one is. Of findings ``why`` is the reason, ``told`` how often the journal tells
    which outcome.

    Args:
        sources: of :meth:`pipeline.audit_evidence.Evidence.sources`.
        outcomes: of :meth:`pipeline.audit_journal.JournalFrames.outcomes`.
        copies: of :func:`by_origin`.
        within: a row for each partition, as :data:`RANGE` has it.
        snapshot: the positions.
    """
    counts = [*OUTCOMES, "late_successes", "late_dead_lettered", *_BITS]
    joined = (
        sources.join(outcomes, list(ORIGIN), "full_outer")
        .join(copies, list(ORIGIN), "full_outer")
        .join(F.broadcast(within), ["topic", "partition"])
        .where((F.col("offset") >= F.col("begin")) & (F.col("offset") < F.col("finish")))
        .na.fill(0, counts)
    )
    return _counted(joined).select(*ORIGIN, *_judged(snapshot)).where(F.col("state").isNotNull())


def _counted(joined: DataFrame) -> DataFrame:
    """Adds in how many places each record is. A letter in the topic and in the journal is one."""
    none = F.lit(0)
    return joined.withColumns(
        {
            "open": (F.col("stands").isNotNull() & (F.col("stands") != DONE)).cast("int"),
            "successes": F.col("acked") + F.col("recovered") + F.col("discarded"),
            "letters": F.greatest(F.col("letters") - F.col("redriven"), none),
            "buried": F.greatest(F.col("dead_lettered") - F.col("redriven"), none),
            "excess": F.when(F.col("redriven") > 0, none).otherwise(F.col("excess")),
            "late": F.col("late_waiting") + F.col("late_successes") + F.greatest("late_letters", "late_dead_lettered"),
        }
    ).withColumns(
        {"surplus": F.col("open") + F.col("waiting") + F.col("successes") + F.greatest("letters", "buried") - 1}
    )


def _judged(snapshot: Snapshot) -> list[Column]:
    here = F.col("stands").isNotNull()
    doubled = (F.col("surplus") > F.col("late")) | (F.col("excess") > 0)
    left = F.coalesce(F.col("left"), F.lit(False)) & (F.col("redriven") == 0)  # noqa: FBT003 - a literal
    dropped = left & F.col("topic").isin(*snapshot.discarding)
    told = (F.col("offset") >= F.col("begins")) | (F.col("last_ms") >= F.col("since_ms"))
    gone = (F.col("buried") > 0) & (F.col("late_dead_lettered") == 0) & ~_expired(snapshot)
    nowhere = [(left & ~dropped, "left_its_tier"), (F.coalesce(told, F.lit(False)) & ~dropped, "no_outcome")]  # noqa: FBT003
    stray = ~here & ~F.col("topic").isin(*snapshot.compacted)

    states = [
        (stray, "doubled", "no_source"),
        (~here, None, None),
        (doubled & ((F.col("successes") > 1) | (F.col("buried") > 1)), "doubled", "ended_twice"),
        (doubled & (F.col("letters") > 1), "doubled", "two_letters"),
        (doubled & (F.col("excess") > 0), "doubled", "two_copies"),
        (doubled, "doubled", "two_places"),
        ((F.col("open") > 0) | (F.col("waiting") > 0), "pending", None),
        ((F.col("letters") > 0) & (F.col("expired") > 0), "expired", None),
        (F.col("letters") > 0, "dead_lettered", None),
        (gone, "missing", "letter_gone"),
        ((F.col("buried") > 0) & (F.col("late_dead_lettered") > 0), "dead_lettered", None),
        (F.col("buried") > 0, "expired", None),
        *((F.col(name) > 0, name, None) for name in ("discarded", "recovered", "acked")),
        *((condition, "missing", why) for condition, why in nowhere),
    ]
    place = (
        F.when(F.col("open") > 0, F.col("stands"))
        .when(F.col("in_tier") > 0, str(Kind.TIER))
        .when(F.col("waiting") > 0, str(Kind.READY))
    )
    state = _first((condition, state) for condition, state, _ in states).otherwise("untraced")
    return [
        state.alias("state"),
        F.when(state == "pending", place).alias("place"),
        _first((condition, why) for condition, _, why in states).alias("why"),
        F.when(state.isin(*FINDINGS), F.struct(*OUTCOMES)).alias("told"),
    ]


def _expired(snapshot: Snapshot) -> Column:
    """Whether the dead letter that the journal tells of may have been removed by now because its time was over."""
    life = _life(F.col("topic"), snapshot)
    return (life > 0) & (F.col("dead_lettered_ms") + life <= snapshot.taken_ms)


def _life(topic: Column, snapshot: Snapshot) -> Column:
    """After so many ms a dead letter of this source may be gone; 0 = never."""
    return _first((topic == source, life) for source, life in snapshot.lives.items()).otherwise(F.lit(0))


def _first(cases: Iterable[tuple[Column, str | int | None]]) -> Column:
    """The value of the first case that holds; there is at least one."""
    (condition, value), *others = cases
    chosen = F.when(condition, F.lit(value))
    for other, its_value in others:
        chosen = chosen.when(other, F.lit(its_value))
    return chosen
