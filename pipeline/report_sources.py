"""What a report is made from: dead letters of the archive and the topics, copies that wait, the journal."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.archive_positions import letter_topics
from pipeline.archive_schema import ARCHIVE_SCHEMA, PARTITION_COLUMNS, UNKNOWN_ORIGIN
from pipeline.dead_letters import dead_letters
from pipeline.decoding import SourceCodecs
from pipeline.journal_ranges import journal_ranges
from pipeline.kafka_frames import ORIGIN, Frames
from pipeline.kafka_options import kafka_options
from pipeline.lake_table import read_table
from pipeline.progress_frames import MARKS, Standing, mark, standings_of, with_standing
from pipeline.record_headers import header_number, header_text, header_time
from pipeline.table_format import TableFormat
from topology.decision import Reason
from topology.headers import DELIVERY_COUNT, ORIG_ADDRESS, ORIG_MESSAGE_ID, TIMESTAMP
from topology.plan import scheduler_group
from topology.settings import Settings
from transport.admin import ClusterAdmin
from transport.positions import Positions
from transport.protocols import Partition

_log = logging.getLogger(__name__)

UNKNOWN_REASON: Final = "(unknown)"

_NO_CODECS: Final = SourceCodecs({}, "")
_KEY_BYTES: Final = 24
_CUT: Final = 300


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a configuration that exist: partitions of each."""

    letters: Mapping[str, int]
    tiers: Mapping[str, int]
    """Retry tiers, and the mixed topic."""

    ready: Mapping[str, int]
    journal: Mapping[str, int]
    """Empty if it is off, or not there."""

    @property
    def places(self) -> list[Partition]:
        """All partitions."""
        return [place for each in (self.letters, self.tiers, self.ready, self.journal) for place in places_of(each)]

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
        journal = [naming.journal_topic()] if settings.journal else []
        facts = admin.describe([*letter_topics(settings), *tiers, *ready, *journal], {}).topics

        def of(names: Iterable[str]) -> dict[str, int]:
            return {name: facts[name].partitions for name in names if name in facts}

        return cls(of(letter_topics(settings)), of(tiers), of(ready), of(journal))


def places_of(topics: Mapping[str, int]) -> list[Partition]:
    """The partitions of topics that have so many each."""
    return [Partition(topic, number) for topic, partitions in topics.items() for number in range(partitions)]


class Sources:
    """The frames. Where the topics end is asked once, before anything else, so that all of them fit together."""

    def __init__(self, spark: SparkSession, settings: Settings, topics: Topics) -> None:
        """Ask where the topics begin and end.

        Raises:
            TransportError: Kafka does not answer.
        """
        self._spark = spark
        self._settings = settings
        self._topics = topics
        self._frames = Frames(spark, kafka_options(settings.kafka))
        self._positions = Positions(settings.kafka)
        places = topics.places
        self._starts = self._positions.starts(places)
        self._ends = self._positions.ends(places)

    def letters(self, table: str | None, table_format: TableFormat = TableFormat.PARQUET) -> DataFrame:
        """One row for each dead letter: what is archived, and what the topics hold beyond.

        Args:
            table: the archive, ``None`` = the topics alone.
            table_format: the archive's.

        Raises:
            TableFormatError: the archive is a table of another format.
        """
        archived = None if table is None else read_table(self._spark, table, table_format)
        behind: dict[Partition, int] = {}
        if archived is not None:
            last = archived.groupBy("topic", "partition").agg(F.max("offset").alias("last"))
            behind = {Partition(row["topic"], row["partition"]): row["last"] + 1 for row in last.collect()}
        beyond = dead_letters(self._records(self._topics.letters, behind), _NO_CODECS)
        if archived is None:
            return _for_report(beyond)
        columns = [F.col(each.name).cast(each.dataType) for each in ARCHIVE_SCHEMA]
        return _for_report(beyond.unionByName(archived.select(*columns)))

    def copies(self) -> DataFrame:
        """One row for each copy in a tier or a ready topic, done or not.

        ``topic, partition, offset, place`` (tier or ready), ``at, origin, message_id, deliveries, origin_timestamp``,
        and where it ``stands`` with the group, which is asked now.

        Raises:
            TransportError: Kafka does not answer.
        """
        names = {**self._topics.tiers, **self._topics.ready}
        standings = self._standings()
        marks = self._frames.local(
            [(*place, *mark(standings.get(place))) for place in self._starts if place.topic in names], MARKS
        )
        return with_standing(self._frames, self._records(names), marks, standings).select(
            *ORIGIN,
            F.when(F.col("topic").isin(*self._topics.ready), "ready").otherwise("tier").alias("place"),
            F.col("timestamp").alias("at"),
            F.coalesce(header_text(ORIG_ADDRESS), F.lit(UNKNOWN_ORIGIN)).alias("origin"),
            header_text(ORIG_MESSAGE_ID).alias("message_id"),
            header_number(DELIVERY_COUNT, "int").alias("deliveries"),
            header_time(TIMESTAMP).alias("origin_timestamp"),
            "stands",
        )

    def journal(self) -> DataFrame | None:
        """One row for each range of offsets: ``topic, partition, outcome, first, last, at``; ``None`` without one."""
        if not self._topics.journal:
            return None
        records = self._records(self._topics.journal).withColumnRenamed("timestamp", "at")
        return journal_ranges(records, self._settings.group, "at")

    def _records(self, topics: Iterable[str], behind: Mapping[Partition, int] = MappingProxyType({})) -> DataFrame:
        """Those of some topics, from certain offsets on."""
        names = set(topics)
        return self._frames.records(
            (place, max(start, behind.get(place, 0)), self._ends[place])
            for place, start in self._starts.items()
            if place.topic in names
        )

    def _standings(self) -> dict[Partition, Standing]:
        group = self._settings.group
        found = self._positions.committed(scheduler_group(group), places_of(self._topics.tiers))
        found |= self._positions.committed(group, places_of(self._topics.ready))
        standings, damaged = standings_of(found)
        for place in damaged:
            _log.warning("the progress of %s-%d cannot be read: more may be done there than is counted", *place)
        return standings


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
