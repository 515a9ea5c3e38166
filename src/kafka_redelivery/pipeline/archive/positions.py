"""The archived offsets of each dead-letter topic, and the offsets that Kafka holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import CheckpointError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.topology.cluster.facts import Bounds
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Partition

EARLIEST: Final = -2
"""The earliest offset, as Spark's Kafka source writes it."""


@dataclass(frozen=True, slots=True)
class RemovedLetters:
    """Dead letters that Kafka removed before they were archived: offsets from ``first`` to ``next``, exclusive."""

    topic: str
    partition: int
    first: int
    next: int

    @property
    def location(self) -> str:
        """The range as ``topic-partition@first..last``."""
        return f"{self.topic}-{self.partition}@{self.first}..{self.next - 1}"


@dataclass(frozen=True, slots=True)
class Positions:
    """The offsets of the dead-letter topics, and the archive's position in them."""

    bounds: Mapping[Partition, Bounds]
    archived: Mapping[Partition, int] = field(default_factory=dict)
    """The next offset to archive; empty before the first run."""

    marks: Mapping[str, str] = field(default_factory=dict)
    """The mark of each topic; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    created_again: tuple[str, ...] = ()
    """Topics of which older ones were archived. They are archived from their start."""

    missing: tuple[str, ...] = ()
    """Topics of the configuration that do not exist, or may not be described."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read. Includes all topics that were archived before, because Spark requires them."""
        return tuple(sorted({topic for topic, _ in self.bounds}))

    @property
    def removed(self) -> list[RemovedLetters]:
        """Dead letters that were removed unarchived. Empty before the first run: earlier removals do not count."""
        if not (self.archived or self.created_again):
            return []
        return [
            RemovedLetters(*partition, first, bounds.start)
            for partition, bounds in sorted(self.bounds.items())
            if (first := self.archived.get(partition, 0)) < bounds.start
        ]

    def forgetting(self, topics: Iterable[str]) -> Positions:
        """Return the positions without what is archived of older topics of these names."""
        older = tuple(topics)
        archived = {each: offset for each, offset in self.archived.items() if each.topic not in older}
        return replace(self, archived=archived, created_again=older)

    def starting_offsets(self) -> str:
        """Return Spark's option ``startingOffsets`` for the dead letters that are not archived."""
        offsets: dict[str, dict[str, int]] = {}
        for partition, bounds in self.bounds.items():
            archived = self.archived.get(partition)
            start = EARLIEST if archived is None else max(archived, bounds.start)
            offsets.setdefault(partition.topic, {})[str(partition.number)] = start
        return json.dumps(offsets)


def missing_text(topic: str) -> str:
    """Return what to say about a dead-letter topic that the cluster does not show."""
    return f"topic {topic} does not exist yet, or may not be described{grant(f'Read on topic {topic}')}"


def letter_topics(settings: Settings) -> tuple[str, ...]:
    """Return all dead-letter and expiry topics of a configuration."""
    return sweep_plan(settings).topics


def positions(settings: Settings, archived: Mapping[Partition, int]) -> Positions:
    """Ask Kafka for the offsets of the dead-letter topics.

    Raises:
        TransportError: Kafka does not answer.
    """
    wanted = {*letter_topics(settings), *(topic for topic, _ in archived)}
    facts = ClusterAdmin(settings.kafka).describe(wanted, dict.fromkeys(wanted, ()))
    bounds = {
        Partition(name, number): each for name, topic in facts.topics.items() for number, each in topic.bounds.items()
    }
    missing = tuple(sorted(wanted - facts.topics.keys()))
    return Positions(bounds, archived, marks=facts.marks, missing=missing)


def archived_offsets(spark: SparkSession, checkpoint: str) -> dict[Partition, int]:
    """Return the next offset of each partition after the last complete micro-batch of a checkpoint.

    Raises:
        CheckpointError: the checkpoint cannot be read.
    """
    files = LakeFiles(spark, checkpoint)
    committed = [int(name) for name in files.names("commits") if name.isdigit()]
    if not committed:
        return {}
    last = files.read(f"offsets/{max(committed)}")
    try:
        # Lines: the version, the settings of the micro-batch, then one for each source. The query has one source.
        topics: dict[str, dict[str, int]] = json.loads(last.splitlines()[2])
        return {
            Partition(topic, int(number)): offset for topic, each in topics.items() for number, offset in each.items()
        }
    except (IndexError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint}/offsets/{max(committed)}", str(error)) from None
