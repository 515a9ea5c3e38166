"""What became of archived dead letters: the columns ``state``, ``job`` and ``decided_at`` of their rows.

A row is written with the state ``waiting``. The topics of the jobs say what follows. Each run compares that with the
table, and replaces what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.index.files import Slot
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.archive.delta_table import merge
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import is_delta, read_table
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.topic_mark import topic_mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY: Final = ("topic", "partition", "offset", "topic_mark")
_STATE: Final = ("state", "job", "decided_at")
_STANDINGS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("topic_mark", pa.string()),
        ("new_state", pa.string()),
        ("new_job", pa.string()),
        ("new_decided_at", pa.timestamp("us", "UTC")),
    ]
)


def update_states(spark: SparkSession, path: str, settings: Settings) -> int:
    """Bring the states of the table's rows up to date, and return how many rows have changed.

    A letter whose job was deleted from Kafka keeps the last state that was known, as does one of an older topic.

    Args:
        spark: a session of :func:`archive_session`.
        path: the folder of the table.
        settings: those of the group whose jobs count.

    Raises:
        ConsumersError: the topics of the jobs do not exist, or no index of them can be written.
        TransportError: Kafka does not answer or denies access.
    """
    files = LakeFiles(spark, path)
    if not is_delta(files):
        return 0
    with Index.refreshed(settings, letters=False) as index:
        standings = spark.createDataFrame(pa.Table.from_batches(_standings(index), _STANDINGS))
        present = list({mark for _, mark in _marks(index)})
    known = read_table(spark, path, ARCHIVE_SCHEMA).select("day", "origin_group", *_KEY, *_STATE)
    on = [known[each].eqNullSafe(standings[each]) for each in _KEY]
    joined = known.join(standings, on, "left").select(known["*"], "new_state", "new_job", "new_decided_at")
    differs = F.lit(False)  # noqa: FBT003 - the value
    for each in _STATE:
        differs |= ~F.col(each).eqNullSafe(F.col(f"new_{each}"))
    # A job that was cancelled has left its letters as they were.
    ours = (F.col("origin_group") == settings.group) & F.coalesce("topic_mark", F.lit("")).isin(present)
    released = F.col("new_state").isNull() & (F.col("state") == LetterState.IN_JOB) & ours
    changed = joined.where((F.col("new_state").isNotNull() & differs) | released).select(
        "day",
        *_KEY,
        F.coalesce("new_state", F.lit(LetterState.WAITING.value)).alias("state"),
        F.col("new_job").alias("job"),
        F.col("new_decided_at").alias("decided_at"),
    )
    changed = changed.persist()
    try:
        numbers = {str(row["day"]): row["count"] for row in changed.groupBy("day").count().collect()}
        if numbers:
            merge(spark, files, changed.drop("day"), _KEY, numbers)
    finally:
        changed.unpersist()
    return sum(numbers.values())


def _marks(index: Index) -> list[tuple[Slot, str]]:
    """Return the partitions that the index knows, each with the mark of its topic."""
    return [(each, topic_mark(index.topics.cluster, each.topic_id)) for each in index.snapshot.slots]


def _standings(index: Index) -> Iterator[pa.RecordBatch]:
    """Yield the letters that jobs have or had, a batch for each partition."""
    for each, mark in _marks(index):
        rows = index.rows(
            """
            SELECT "offset", state, job, CASE WHEN decided_ms > 0 THEN decided_ms * 1000 END
            FROM standings WHERE slot = ?
            """,
            (each.number,),
        )
        if rows:
            offsets, *found = zip(*rows, strict=True)
            topic, number, marks = ([same] * len(rows) for same in (each.topic, each.partition, mark or None))
            columns = zip((topic, number, offsets, marks, *found), _STANDINGS, strict=True)
            arrays = [pa.array(column, field.type) for column, field in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=_STANDINGS)
