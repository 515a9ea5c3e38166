"""How far the archive has read each dead-letter topic, and what there is beyond."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from pipeline.archive_errors import CheckpointError
from pipeline.lake_files import LakeFiles
from topology.facts import Bounds
from topology.settings import Settings
from topology.sweep_plan import sweep_plan
from transport.admin import ClusterAdmin

Place = tuple[str, int]
"""Topic and partition."""

EARLIEST: Final = -2
"""What Spark's Kafka source calls the first offset there is."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Dead letters that went from Kafka before they were archived: offsets from ``first`` to below ``next``."""

    topic: str
    partition: int
    first: int
    next: int

    @property
    def place(self) -> str:
        """Said in short, with the last offset."""
        return f"{self.topic}-{self.partition}@{self.first}..{self.next - 1}"


@dataclass(frozen=True, slots=True)
class Positions:
    """The dead-letter topics as they are, and where the archive stands in them."""

    bounds: Mapping[Place, Bounds]
    archived: Mapping[Place, int] = field(default_factory=dict)
    """The next offset to be archived. Empty: nothing has been archived yet."""

    missing: tuple[str, ...] = ()
    """Topics of the configuration that do not exist."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Those to be read. One that was archived before stays among them: Spark wants to see all it has seen."""
        return tuple(sorted({topic for topic, _ in self.bounds}))

    @property
    def removed(self) -> list[Removed]:
        """What can be archived no more. Nothing at first: what was removed before counts as never there."""
        if not self.archived:
            return []
        return [
            Removed(*place, first, bounds.start)
            for place, bounds in sorted(self.bounds.items())
            if (first := self.archived.get(place, 0)) < bounds.start
        ]

    def starting_offsets(self) -> str:
        """Spark's option ``startingOffsets`` for what is not archived."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), bounds in self.bounds.items():
            archived = self.archived.get((topic, partition))
            start = EARLIEST if archived is None else max(archived, bounds.start)
            offsets.setdefault(topic, {})[str(partition)] = start
        return json.dumps(offsets)


def letter_topics(settings: Settings) -> tuple[str, ...]:
    """All dead-letter and expiry topics of a configuration."""
    return sweep_plan(settings).topics


def positions(settings: Settings, archived: Mapping[Place, int]) -> Positions:
    """Ask Kafka what there is.

    Raises:
        TransportError: it does not answer.
    """
    wanted = {*letter_topics(settings), *(topic for topic, _ in archived)}
    facts = ClusterAdmin(settings.kafka).describe(wanted, dict.fromkeys(wanted, ()))
    bounds = {(name, number): each for name, topic in facts.topics.items() for number, each in topic.bounds.items()}
    return Positions(bounds, archived, tuple(sorted(wanted - facts.topics.keys())))


def archived_offsets(spark: SparkSession, checkpoint: str) -> dict[Place, int]:
    """Up to where a checkpoint says that everything is written: the next offset of each partition.

    Raises:
        CheckpointError: it cannot be read.
    """
    files = LakeFiles(spark, checkpoint)
    committed = [int(name) for name in files.names("commits") if name.isdigit()]
    if not committed:
        return {}
    last = files.read(f"offsets/{max(committed)}")
    try:
        # A line with the version, one with the batch's settings, then one for each source: ours is the only one.
        topics: dict[str, dict[str, int]] = json.loads(last.splitlines()[2])
        return {(topic, int(number)): offset for topic, each in topics.items() for number, offset in each.items()}
    except (IndexError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{checkpoint}/offsets/{max(committed)}", str(error)) from None
