"""The positions that one audit goes by, as values; :mod:`pipeline.audit_survey` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline.progress_frames import Standing
from topology.sweep_plan import SweepPlan
from transport.protocols import Partition


class Kind(StrEnum):
    """What a topic of ours holds."""

    TIER = "tier"
    READY = "ready"
    LETTER = "letter"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Span:
    """What is read of one partition of ours."""

    place: Partition
    start: int
    end: int
    """Exclusive. Everything before it is decided."""

    early: int
    """Its end before the commits were asked for: what lies from here on may have come after them."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The records of one source partition that are audited."""

    place: Partition
    first: int
    end: int
    """Exclusive."""

    log_start: int
    standing: Standing | None
    """``None``: the group has committed nothing there."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Offsets that are gone from a partition although its reader has not got there."""

    place: Partition
    first: int
    end: int
    """Exclusive."""

    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All positions of one audit, and what the configuration says about what may be gone."""

    group: str
    taken_ms: int
    journal: bool
    """Whether the journal is used."""

    sources: tuple[SourceRange, ...]
    spans: Mapping[Kind, tuple[Span, ...]]
    standings: Mapping[Partition, Standing]
    """Of ready topics and tiers; of dead-letter topics how far the sweeper has moved what has expired."""

    removed: tuple[Removed, ...]
    horizon_ms: int
    """What is done may be gone from our topics if it is older (epoch ms)."""

    lives: Mapping[str, int]
    """Source topic -> after so many ms a dead letter of it may be gone; 0 = never."""

    discarding: frozenset[str]
    """Source topics of which a scheduler may drop what it cannot release."""

    compacted: frozenset[str]
    """Source topics from which compaction may remove a record."""

    sweeps: SweepPlan
    damaged: tuple[Partition, ...]
    """Whose commit has metadata that cannot be read."""

    @property
    def places(self) -> list[Partition]:
        """All partitions that are read."""
        return [source.place for source in self.sources] + [
            span.place for spans in self.spans.values() for span in spans
        ]

    def starts(self) -> dict[Partition, int]:
        """From where each is read."""
        found = {source.place: source.first for source in self.sources if source.first < source.end}
        return found | {
            span.place: span.start for spans in self.spans.values() for span in spans if span.start < span.end
        }
