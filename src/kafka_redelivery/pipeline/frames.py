"""Kafka topics as Spark DataFrames: records, headers, what the readers have finished, and the journal."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.writes.journal import ranges
from kafka_redelivery.pipeline.spark.kafka_options import offsets_json, partitions_option
from kafka_redelivery.topology.wire.journal import OUTCOMES, VERSION
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.progress_metadata import decode
from kafka_redelivery.topology.wire.topic_mark import is_void
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

ORIGIN: Final = ("topic", "partition", "offset")
"""The columns that identify a record. Columns that begin with ``origin_`` identify its source record."""

DONE, IN_HAND, IN_PLACE, UNREAD = "done", "in_hand", "in_place", "unread"
"""The status of a record with its reader."""

_IN_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # PySpark 4.1: always UTC
)
_POLL_S: Final = 0.05
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_RECORD: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A later header value is not a timestamp."""

_DIGITS: Final = {"bigint": 19, "int": 9}
_LONGEST: Final = 10_000_000
"""Offsets in a range of the journal. A write has far fewer; a longer range, which another program has written, is left
out."""

_ENTRY: Final = "v int, group string, topic string, partition int, mark string, " + ", ".join(
    f"{outcome} array<array<bigint>>" for outcome in OUTCOMES
)


class ReaderProgress(NamedTuple):
    """The progress of the reader of a partition."""

    watermark: int
    """All records below are finished."""

    seen: int
    """One past the last offset that was read."""

    outstanding: frozenset[int] = frozenset()
    """Offsets from ``watermark`` to ``seen`` that are not finished."""

    in_place: frozenset[int] = frozenset()
    """Outstanding offsets that wait in place for their redelivery."""


class GroupProgress(NamedTuple):
    """The progress of readers by their commits. A partition without a commit is missing."""

    partitions: Mapping[Partition, ReaderProgress]
    damaged: tuple[Partition, ...]
    """Partitions whose commit has metadata that cannot be decoded: only its offset counts."""

    created_again: frozenset[str]
    """Topics of which a commit is about an older topic of that name. It counts as none."""


def read_progress(
    offsets: PartitionOffsets, readers: Mapping[str, Iterable[Partition]], marks: Mapping[str, str]
) -> GroupProgress:
    """Read the commits of consumer groups.

    Args:
        offsets: asks Kafka.
        readers: the partitions that each group reads.
        marks: the mark of each topic, as far as it is known; see :mod:`kafka_redelivery.topology.wire.topic_mark`.

    Raises:
        TransportError: Kafka does not answer.
    """
    commits = {
        each: point for group, wanted in readers.items() for each, point in offsets.committed(group, wanted).items()
    }
    present = {each: point for each, point in commits.items() if not is_void(point.metadata, marks.get(each.topic, ""))}
    found: dict[Partition, ReaderProgress] = {}
    damaged = []
    for partition, point in present.items():
        try:
            found[partition] = _decoded(point)
        except ValueError:  # not written by this library, or damaged
            damaged.append(partition)
            found[partition] = ReaderProgress(point.offset, point.offset)
    return GroupProgress(found, tuple(damaged), frozenset(each.topic for each in commits.keys() - present.keys()))


def _decoded(point: Checkpoint) -> ReaderProgress:
    if not point.metadata:
        return ReaderProgress(point.offset, point.offset)
    noted = decode(point.offset, point.metadata)
    waiting = frozenset(noted.waiting).intersection(noted.outstanding)
    return ReaderProgress(point.offset, max(point.offset, noted.end), frozenset(noted.outstanding), waiting)


def stable_ends(
    offsets: PartitionOffsets, partitions: Iterable[Partition], within_s: float
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Return the current end offsets, and those of them before which transactions are still open after a time.

    Kafka answers a commit before it has written the markers of the transaction, and until then the records behind it
    are not visible. This waits for the markers.

    Raises:
        TransportError: Kafka does not answer.
    """
    ends = undecided = offsets.high_watermarks(partitions)
    pause, deadline_s = threading.Event(), monotonic_s() + within_s
    while True:
        reached = offsets.last_stable_offsets(undecided)
        undecided = {each: ends[each] for each, end in reached.items() if end < ends[each]}
        if not undecided or monotonic_s() > deadline_s:
            return ends, undecided
        pause.wait(_POLL_S)


@dataclass(frozen=True, slots=True)
class Frames:
    """Creates DataFrames. They are lazy: Spark reads when an action runs."""

    spark: SparkSession
    options: Mapping[str, str]
    """The connection options of Spark's Kafka source."""

    def records(self, wanted: Iterable[tuple[Partition, int, int]], *, headers: bool = True) -> DataFrame:
        """Return committed records: ``topic, partition, offset, timestamp, key, value, headers``.

        Args:
            wanted: partition, first offset and end offset (exclusive).
            headers: whether to read headers; the column is null otherwise.
        """
        chosen = {partition: (start, end) for partition, start, end in wanted if start < end}
        if not chosen:
            return self.local([], _RECORD)
        options = {
            **self.options,
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
            "includeHeaders": str(headers).lower(),
            **partitions_option(chosen, whole=False),
            "startingOffsets": offsets_json({partition: start for partition, (start, _) in chosen.items()}),
            "endingOffsets": offsets_json({partition: end for partition, (_, end) in chosen.items()}),
        }
        return (
            self.spark.read.format("kafka")
            .options(**options)
            .load()
            .select(*_COLUMNS, F.col("headers") if headers else F.lit(None).alias("headers"))
        )

    def stream(self, chosen: Mapping[str, str], starts: str, at_most: int, *, skip_removed: bool = False) -> DataFrame:
        """Return the committed records of a streaming query, as Spark's Kafka source has them, with headers.

        Args:
            chosen: the option that names what it reads, see :func:`partitions_option`.
            starts: where a query without a checkpoint begins: ``earliest``, or offsets as JSON.
            at_most: the maximum number of offsets of a micro-batch.
            skip_removed: go on without records that Kafka has removed.
        """
        options = {
            **self.options,
            **chosen,
            "startingOffsets": starts,
            "failOnDataLoss": "false" if skip_removed else "true",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(at_most),
        }
        return self.spark.readStream.format("kafka").options(**options).load()

    def local(self, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        """Return local rows. Created through Arrow they are part of the plan, so Spark can drop empty relations."""
        arrow_schema = to_arrow_schema(cast("StructType", StructType.fromDDL(schema)), **_IN_UTC)
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in arrow_schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema, strict=True)]
        table: Any = pa.Table.from_arrays(arrays, schema=arrow_schema)
        return self.spark.createDataFrame(table, schema)

    def with_status(self, records: DataFrame, progress: Mapping[Partition, ReaderProgress]) -> DataFrame:
        """Add the column ``status`` to records; those of a partition without a commit are unread."""
        seen = self.local(
            [(*each, at.seen) for each, at in progress.items()], "topic string, partition int, seen bigint"
        )
        unfinished = self.local(
            [
                (*partition, *run, waits)
                for partition, at in progress.items()
                for waits, offsets in ((True, at.in_place), (False, at.outstanding - at.in_place))
                for run in ranges(offsets)
            ],
            "topic string, partition int, first bigint, last bigint, waits boolean",
        ).select("topic", "partition", F.explode(F.sequence("first", "last")).alias("offset"), "waits")
        status = (
            F.when(F.col("seen").isNull() | (F.col("offset") >= F.col("seen")), UNREAD)
            .when(F.col("waits"), IN_PLACE)
            .when(F.col("waits").isNotNull(), IN_HAND)
            .otherwise(DONE)
        )
        return (
            records.join(F.broadcast(seen), ["topic", "partition"], "left")
            .join(F.broadcast(unfinished), list(ORIGIN), "left")
            .withColumn("status", status)
            .drop("seen", "waits")
        )


def header(name: str, at: int = -1) -> Column:
    """Return the bytes of a header: of several the last one, or that ``at`` this place; null if there is none."""
    return F.try_element_at(F.filter("headers", lambda each: each["key"] == name), F.lit(at))["value"]


def header_text(name: str) -> Column:
    """Return a header as text; invalid UTF-8 is replaced."""
    return F.make_valid_utf8(header(name).cast("string"))


def header_number(name: str, kind: str = "bigint") -> Column:
    """Return a header as a number, null if it is not one of digits, or has more digits than Python's readers take."""
    text = header_text(name)
    return F.when(text.rlike(rf"\A[0-9]{{1,{_DIGITS[kind]}}}\z"), text.try_cast(kind))


def header_time(name: str) -> Column:
    """Return a header in epoch ms as a timestamp, null if it is 0 (never) or out of range."""
    milliseconds = header_number(name)
    return F.when(milliseconds.between(1, _LAST_MS), F.timestamp_millis(milliseconds))


def journal_ranges(records: DataFrame, group: str, *kept: str) -> DataFrame:
    """Return one row for each range of offsets: ``topic, partition, mark, outcome, first, last``, and ``kept``.

    ``topic``, ``partition`` and ``mark`` are those of the source; ``mark`` is null if the entry names none. ``last`` is
    inclusive. A value that is not an entry of this group (:mod:`kafka_redelivery.topology.wire.journal`) is left out.

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
