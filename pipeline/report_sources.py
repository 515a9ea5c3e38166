"""What a report is made from: dead letters of the archive and the topics, copies that wait, the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from consumers.journal import OUTCOMES
from pipeline.archive_positions import letter_topics
from pipeline.archive_schema import ARCHIVE_SCHEMA, PARTITION_COLUMNS, UNKNOWN_ORIGIN
from pipeline.dead_letters import dead_letters, header_number, header_text, header_time
from pipeline.decoding import SourceCodecs
from pipeline.kafka_options import kafka_options
from pipeline.table_format import TableFormat
from topology.decision import Reason
from topology.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, TIMESTAMP
from topology.plan import scheduler_group
from topology.progress_metadata import decode
from topology.settings import Settings
from transport.admin import ClusterAdmin
from transport.client_config import consumer_config
from transport.protocols import Partition
from transport.reader import Reader

UNKNOWN_REASON: Final = "(unknown)"

_NO_CODECS: Final = SourceCodecs({}, "")
_KEY_BYTES: Final = 24
_CUT: Final = 300
_ENTRY: Final = "v int, group string, topic string, partition int, " + ", ".join(
    f"{outcome} array<array<bigint>>" for outcome in OUTCOMES
)
_STANDING: Final = "topic string, partition int, watermark bigint, seen bigint, outstanding array<bigint>"


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a configuration that exist: partitions of each."""

    letters: Mapping[str, int]
    tiers: Mapping[str, int]
    """Retry tiers, and the mixed topic."""

    ready: Mapping[str, int]
    journal: str | None
    """``None`` if it is off, or not there."""

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """Ask Kafka.

        Raises:
            TransportError: it does not answer.
        """
        admin, naming = ClusterAdmin(settings.kafka), settings.naming()
        existing = admin.topic_names()
        tiers = [*naming.tiers_among(existing), naming.mixed_topic()]
        ready = [naming.ready_topic(source.topic) for source in settings.sources]
        journal = naming.journal_topic()
        facts = admin.describe([*letter_topics(settings), *tiers, *ready], {}).topics

        def of(names: Iterable[str]) -> dict[str, int]:
            return {name: facts[name].partitions for name in names if name in facts}

        known = journal if settings.journal and journal in existing else None
        return cls(of(letter_topics(settings)), of(tiers), of(ready), known)


class Sources:
    """The frames. Each reads what is there when it is first asked for rows."""

    def __init__(self, spark: SparkSession, settings: Settings, topics: Topics) -> None:
        self._spark = spark
        self._settings = settings
        self._topics = topics

    def letters(self, table: str | None, table_format: TableFormat = TableFormat.PARQUET) -> DataFrame:
        """One row for each dead letter: what is archived, and what the topics hold beyond.

        Args:
            table: the archive, ``None`` = the topics alone.
            table_format: the archive's.
        """
        archived = None if table is None else self._spark.read.format(table_format).load(table)
        starts: dict[str, dict[str, int]] = {}
        if archived is not None:
            for row in archived.groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect():
                starts.setdefault(row["topic"], {})[str(row["partition"])] = row["last"] + 1
        frames = []
        if self._topics.letters:
            offsets = json.dumps(
                {
                    topic: {str(number): starts.get(topic, {}).get(str(number), -2) for number in range(partitions)}
                    for topic, partitions in self._topics.letters.items()
                }
            )
            frames.append(dead_letters(self._read(self._topics.letters, offsets), _NO_CODECS))
        if archived is not None:
            frames.append(archived.select(*(F.col(each.name).cast(each.dataType) for each in ARCHIVE_SCHEMA)))
        if not frames:
            return _for_report(self._spark.createDataFrame([], ARCHIVE_SCHEMA))
        found = frames[0]
        for frame in frames[1:]:
            found = found.unionByName(frame)
        return _for_report(found)

    def copies(self) -> DataFrame:
        """One row for each copy in a tier or a ready topic, done or not.

        ``topic, partition, offset, place`` (tier or ready), ``at, origin, message_id, deliveries, origin_timestamp``.
        """
        names = {**self._topics.tiers, **self._topics.ready}
        schema = (
            "topic string, partition int, offset bigint, place string, at timestamp, origin string, message_id string, "
            "deliveries int, origin_timestamp timestamp"
        )
        if not names:
            return self._spark.createDataFrame([], schema)
        return self._read(names).select(
            "topic",
            "partition",
            "offset",
            F.when(F.col("topic").isin(*self._topics.ready), "ready").otherwise("tier").alias("place"),
            F.col("timestamp").alias("at"),
            F.coalesce(header_text(ORIG_ADDRESS), F.lit(UNKNOWN_ORIGIN)).alias("origin"),
            header_text(ORIG_MESSAGE_ID).alias("message_id"),
            header_number(DELIVERY_COUNT, "int").alias("deliveries"),
            header_time(TIMESTAMP).alias("origin_timestamp"),
        )

    def standings(self) -> DataFrame:
        """How far the group is with tiers and ready topics: ``topic, partition, watermark, seen, outstanding``.

        Asked at once. What is between watermark and seen is done, unless it is outstanding.
        """
        group = self._settings.group
        rows = self._standings(scheduler_group(group), self._topics.tiers)
        rows += self._standings(group, self._topics.ready)
        return self._spark.createDataFrame(rows, _STANDING)

    def journal(self) -> DataFrame | None:
        """One row for each range of offsets: ``topic, partition, outcome, first, last, at``; ``None`` without one."""
        if self._topics.journal is None:
            return None
        entry = F.from_json(F.col("value").cast("string"), _ENTRY)
        told = F.explode(
            F.array(
                *(F.struct(F.lit(each).alias("outcome"), F.col(f"entry.{each}").alias("ranges")) for each in OUTCOMES)
            )
        )
        records = self._read([self._topics.journal]).select(F.col("timestamp").alias("at"), entry.alias("entry"))
        ours = records.where(F.col("entry.group") == self._settings.group)
        outcomes = ours.select("at", "entry.topic", "entry.partition", told.alias("told"))
        runs = outcomes.select("at", "topic", "partition", "told.outcome", F.explode("told.ranges").alias("run"))
        return runs.select(
            "topic", "partition", "outcome", F.get("run", 0).alias("first"), F.get("run", 1).alias("last"), "at"
        ).where(F.col("topic").isNotNull() & (F.col("first") <= F.col("last")))

    def _read(self, topics: Iterable[str], starting: str = "earliest") -> DataFrame:
        options = {
            **kafka_options(self._settings.kafka),
            "subscribe": ",".join(topics),
            "startingOffsets": starting,
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        return self._spark.read.format("kafka").options(**options).load()

    def _standings(self, group: str, topics: Mapping[str, int]) -> list[tuple[object, ...]]:
        if not topics:
            return []
        reader = Reader(consumer_config(self._settings.kafka, group=group, instance=None))
        try:
            places = [Partition(topic, number) for topic, partitions in topics.items() for number in range(partitions)]
            committed = reader.committed(places)
        finally:
            reader.close()
        rows: list[tuple[object, ...]] = []
        for place, point in committed.items():
            if point is None:
                continue
            if not point.metadata:
                rows.append((*place, point.offset, point.offset, []))
                continue
            noted = decode(point.offset, point.metadata)
            rows.append((*place, point.offset, max(point.offset, noted.end), sorted(noted.outstanding)))
        return rows


def _for_report(letters: DataFrame) -> DataFrame:
    """The columns that are counted by, and what samples are taken from; text is cut and holds no control characters."""
    return letters.select(
        "topic",
        "partition",
        "offset",
        F.col("dead_lettered_at").alias("at"),
        "day",
        F.col(PARTITION_COLUMNS[1]).alias("origin"),
        _plain(F.col("origin_group")).alias("group"),
        _plain(F.col("origin_message_id")).alias("message_id"),
        "origin_timestamp",
        F.coalesce("delivery_count", F.lit(0)).alias("deliveries"),
        F.when(F.col("reason").isin(*map(str, Reason)), F.col("reason")).otherwise(UNKNOWN_REASON).alias("reason"),
        F.coalesce("fingerprint", F.lit("")).alias("fingerprint"),
        _plain(F.coalesce("exception", F.lit(""))).alias("exception"),
        _plain(F.coalesce("normal_message", F.lit(""))).alias("normal_message"),
        _plain(F.coalesce("message", F.lit(""))).alias("message"),
        _key_text().alias("key"),
    )


def _key_text() -> Column:
    start = F.substring("key", 1, _KEY_BYTES)
    text = start.cast("string")
    readable = F.is_valid_utf8(text) & ~text.rlike(r"\p{Cntrl}")
    return F.when(readable, text).otherwise(F.concat(F.lit("0x"), F.lower(F.hex(start))))


def _plain(text: Column) -> Column:
    return F.regexp_replace(F.substring(text, 1, _CUT), r"\p{Cntrl}", " ")
