"""The outcomes in the journal as columns. :mod:`kafka_redelivery.topology.wire.journal` defines its format.

Spark's own functions parse the values; a value that is not an entry of this group is left out.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_redelivery.topology.wire.journal import OUTCOMES, VERSION

_LONGEST: Final = 10_000_000
"""Offsets in a range. A write has far fewer; a longer range, which another program has written, is left out."""

_ENTRY: Final = "v int, group string, topic string, partition int, mark string, " + ", ".join(
    f"{outcome} array<array<bigint>>" for outcome in OUTCOMES
)


def journal_ranges(records: DataFrame, group: str, *kept: str) -> DataFrame:
    """Return one row for each range of offsets: ``topic, partition, mark, outcome, first, last``, and ``kept``.

    ``topic``, ``partition`` and ``mark`` are those of the source; ``mark`` is null if the entry names none. ``last`` is
    inclusive.

    Args:
        records: records of the journal, with the column ``value``.
        group: the consumer group whose entries count.
        kept: further columns of the records.
    """
    entry = F.from_json(F.col("value").cast("string"), _ENTRY)
    outcomes = F.array(
        *(F.struct(F.lit(name).alias("outcome"), F.col(f"entry.{name}").alias("ranges")) for name in OUTCOMES)
    )
    entries = records.select(*kept, entry.alias("entry")).where(
        (F.col("entry.v") == VERSION) & (F.col("entry.group") == group)
    )
    origin = ("topic", "partition", "mark")
    lists = entries.select(*kept, *(f"entry.{name}" for name in origin), F.explode(outcomes).alias("list"))
    runs = lists.select(*kept, *origin, "list.outcome", F.explode("list.ranges").alias("run"))
    first, last = F.get("run", 0).alias("first"), F.get("run", 1).alias("last")
    return runs.select(*origin, "outcome", first, last, *kept).where(
        F.col("topic").isNotNull()
        & (F.col("first") >= 0)
        & (F.col("last") >= F.col("first"))
        & (F.col("last") - F.col("first") < _LONGEST)
    )
