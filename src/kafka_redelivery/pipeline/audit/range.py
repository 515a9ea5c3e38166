"""The range of source records that an audit covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kafka_redelivery.pipeline.errors import PipelineError
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_MS: Final = 1000


class RangeError(PipelineError):
    """A bound of the range is not valid."""

    exit_code = exit_codes.USAGE


@dataclass(frozen=True, slots=True)
class RangeBound:
    """One bound of the range: an offset for every partition, a time, or offsets of some partitions."""

    offset: int | None = None
    epoch_ms: int | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)

    def of(
        self, positions: PartitionOffsets, wanted: Iterable[Partition], ends: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Return the offset in each partition. Partitions that the bound does not name are missing.

        Args:
            positions: resolves times to offsets.
            wanted: the partitions of the sources.
            ends: the end offsets; used for a time after the last record.
        """
        wanted = list(wanted)
        if self.epoch_ms is not None:
            return {
                **{partition: ends[partition] for partition in wanted},
                **positions.offsets_for_time(wanted, self.epoch_ms),
            }
        if self.offset is not None:
            return dict.fromkeys(wanted, self.offset)
        unknown = [partition for partition in self.offsets if partition not in set(wanted)]
        if unknown:
            raise RangeError(
                f"{unknown[0].topic}-{unknown[0].number} is not a partition of a source of this configuration; "
                "name partitions as in orders-0@1500"
            )
        return dict(self.offsets)


def parse_bound(texts: Sequence[str]) -> RangeBound | None:
    """Parse an offset (``1500``), a time (``2026-11-01T08:00:00Z``, UTC by default) or some ``topic-partition@offset``.

    Returns:
        ``None`` if ``texts`` is empty.

    Raises:
        RangeError: a text is none of these, or the texts cannot be combined.
    """
    if not texts:
        return None
    if all("@" in text for text in texts):
        return RangeBound(offsets=dict(_place(text) for text in texts))
    if len(texts) > 1:
        raise RangeError(
            f"{texts[0]!r} and {texts[1]!r} cannot be combined: give one offset, one time, or only "
            "topic-partition@offset"
        )
    text = texts[0]
    if _DIGITS.fullmatch(text):
        return RangeBound(offset=int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise RangeError(
            f"{text!r} is not an offset (1500), a time (2026-11-01T08:00:00Z) or topic-partition@offset"
        ) from None
    time = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return RangeBound(epoch_ms=round(time.timestamp() * _MS))


def _place(text: str) -> tuple[Partition, int]:
    try:
        topic, partition, offset = parse_message_id(text)
    except ValueError as error:
        raise RangeError(str(error)) from None
    return Partition(topic, partition), offset
