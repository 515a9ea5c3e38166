"""What the journal tells, as columns; :mod:`consumers.journal` says how it is written.

Its values are parsed by Spark's own functions: what is not an entry of this group is null, and left out.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from consumers.journal import OUTCOMES, VERSION

_ENTRY: Final = "v int, group string, topic string, partition int, " + ", ".join(
    f"{outcome} array<array<bigint>>" for outcome in OUTCOMES
)


def journal_ranges(records: DataFrame, group: str, *kept: str) -> DataFrame:
    """One row for each range of offsets: ``topic, partition, outcome, first, last``, and what is kept.

    ``topic`` and ``partition`` are the source's; ``last`` is inclusive.

    Args:
        records: of the journal, with ``value``.
        group: whose entries are wanted.
        kept: columns of the records that each of its ranges is to have.
    """
    entry = F.from_json(F.col("value").cast("string"), _ENTRY)
    outcomes = F.array(
        *(F.struct(F.lit(name).alias("outcome"), F.col(f"entry.{name}").alias("ranges")) for name in OUTCOMES)
    )
    entries = records.select(*kept, entry.alias("entry")).where(
        (F.col("entry.v") == VERSION) & (F.col("entry.group") == group)
    )
    told = entries.select(*kept, "entry.topic", "entry.partition", F.explode(outcomes).alias("told"))
    runs = told.select(*kept, "topic", "partition", "told.outcome", F.explode("told.ranges").alias("run"))
    first, last = F.get("run", 0).alias("first"), F.get("run", 1).alias("last")
    return runs.select("topic", "partition", "outcome", first, last, *kept).where(
        F.col("topic").isNotNull() & (F.col("first") >= 0) & (F.col("last") >= F.col("first"))
    )
