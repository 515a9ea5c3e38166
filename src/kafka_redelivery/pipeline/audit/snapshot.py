"""The offsets and settings that an audit uses; :mod:`kafka_redelivery.pipeline.audit.snapshot_taking` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_redelivery.pipeline.frames.progress_frames import ReaderProgress
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan
from kafka_redelivery.transport.protocols import Partition


class Kind(StrEnum):
    """The kind of a topic of the group."""

    TIER = "tier"
    READY = "ready"
    LETTER = "letter"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that the audit reads from one partition of the group's topics."""

    partition: Partition
    start: int
    end: int
    """Exclusive. All transactions before it have ended."""

    early: int
    """The end offset before the commits were read. Records from here on may be newer than the commits."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The audited offsets of one source partition."""

    partition: Partition
    first: int
    end: int
    """Exclusive."""

    log_start: int
    reader_progress: ReaderProgress | None
    """``None`` = the group has committed nothing."""


@dataclass(frozen=True, slots=True)
class RemovedRange:
    """Offsets that Kafka removed before the reader of the partition read them."""

    partition: Partition
    first: int
    end: int
    """Exclusive."""

    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All offsets of an audit, and the settings that decide which records may have been removed."""

    group: str
    taken_ms: int
    journal: bool
    """Whether the journal is used."""

    sources: tuple[SourceRange, ...]
    marks: Mapping[str, str]
    """The mark of each topic, as far as it is known; see :mod:`kafka_redelivery.topology.wire.topic_mark`."""

    created_again: frozenset[str]
    """Topics in which the group has a commit of an older topic of that name, which counts as none."""

    spans: Mapping[Kind, tuple[Span, ...]]
    progress: Mapping[Partition, ReaderProgress]
    """Progress in tiers and ready topics, and of the sweeper, which moves expired dead letters."""

    removed: tuple[RemovedRange, ...]
    horizon_ms: int
    """Finished records of the group's topics that are older (epoch ms) may have been removed."""

    letter_lifetimes_ms: Mapping[str, int]
    """The age in ms at which dead letters may have been removed, by source topic; 0 = never."""

    discarding: frozenset[str]
    """Source topics whose records a scheduler may drop if it cannot release them."""

    compacted: frozenset[str]
    """Source topics from which compaction may remove a record."""

    sweeps: SweepPlan
    damaged: tuple[Partition, ...]
    """Partitions whose commit has metadata that cannot be decoded."""

    @property
    def partitions(self) -> list[Partition]:
        """All partitions that the audit reads."""
        return [source.partition for source in self.sources] + [
            span.partition for spans in self.spans.values() for span in spans
        ]

    def starts(self) -> dict[Partition, int]:
        """Return the first offset that is read from each partition."""
        found = {source.partition: source.first for source in self.sources if source.first < source.end}
        return found | {
            span.partition: span.start for spans in self.spans.values() for span in spans if span.start < span.end
        }
