"""Which part of the sources an audit is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pipeline.errors import PipelineError
from topology.lineage import parse_message_id
from transport.positions import Positions
from transport.protocols import Partition

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_MS: Final = 1000


class EdgeError(PipelineError):
    """A beginning or an end of the range that is none."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of the range: an offset for every partition, a time, or offsets of some partitions."""

    offset: int | None = None
    epoch_ms: int | None = None
    places: Mapping[Partition, int] = field(default_factory=dict)

    def of(
        self, positions: Positions, wanted: Iterable[Partition], ends: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """The offset that it means in each partition; one that it says nothing of is missing.

        Args:
            positions: is asked for times.
            wanted: the partitions of the sources.
            ends: of these partitions; the offset of a time at which nothing more had come.
        """
        wanted = list(wanted)
        if self.epoch_ms is not None:
            return {**{place: ends[place] for place in wanted}, **positions.since(wanted, self.epoch_ms)}
        if self.offset is not None:
            return dict.fromkeys(wanted, self.offset)
        unknown = [place for place in self.places if place not in set(wanted)]
        if unknown:
            raise EdgeError(
                f"{unknown[0].topic}-{unknown[0].number} is no partition of a source of this configuration; "
                "name partitions as in orders-0@1500"
            )
        return dict(self.places)


def parse_edge(texts: Sequence[str]) -> Edge | None:
    """An offset (``1500``), a time (``2026-11-01T08:00:00Z``, without a zone UTC), or some ``topic-partition@offset``.

    Returns:
        ``None`` if nothing is given.

    Raises:
        EdgeError: it is none of these, or several that do not go together.
    """
    if not texts:
        return None
    if all("@" in text for text in texts):
        return Edge(places=dict(_place(text) for text in texts))
    if len(texts) > 1:
        raise EdgeError(
            f"{texts[0]!r} and {texts[1]!r} do not go together: give one offset, one time, or only "
            "topic-partition@offset"
        )
    text = texts[0]
    if _DIGITS.fullmatch(text):
        return Edge(offset=int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise EdgeError(
            f"{text!r} is no offset (1500), no time (2026-11-01T08:00:00Z) and no topic-partition@offset"
        ) from None
    zoned = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return Edge(epoch_ms=round(zoned.timestamp() * _MS))


def _place(text: str) -> tuple[Partition, int]:
    try:
        topic, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise EdgeError(str(error)) from None
    return Partition(topic, partition), offset
