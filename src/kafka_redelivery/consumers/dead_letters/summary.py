"""A summary of the dead letters of one kind in one partition, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_redelivery.consumers.telemetry.observers import DeadLetterCount

MAX_SEGMENTS = 128
"""Segments of one summary. All figures are exact up to this number of dead letters, beyond it to within one segment."""

NEVER = 2**63
"""Expiration of a dead letter that never expires."""


@dataclass(slots=True)
class _Segment:
    """Dead letters with adjacent offsets."""

    first_offset: int
    last_offset: int
    number: int
    oldest_ms: int
    first_expiry_ms: int
    last_expiry_ms: int
    lifetime_ms: int
    """The longest time from append that one of these dead letters must be kept."""

    def absorb(self, later: _Segment) -> None:
        self.last_offset = later.last_offset
        self.number += later.number
        self.oldest_ms = min(self.oldest_ms, later.oldest_ms)
        self.first_expiry_ms = min(self.first_expiry_ms, later.first_expiry_ms)
        self.last_expiry_ms = max(self.last_expiry_ms, later.last_expiry_ms)
        self.lifetime_ms = max(self.lifetime_ms, later.lifetime_ms)

    def drop_before(self, start: int) -> None:
        """Drop the dead letters below the offset ``start``, as if offsets were spread evenly."""
        kept = -(-self.number * (self.last_offset - start + 1) // (self.last_offset - self.first_offset + 1))
        self.first_offset, self.number = start, max(1, kept)

    def expired(self, now_ms: int) -> int:
        """Return how many dead letters have expired, as if expirations were spread evenly."""
        if now_ms < self.first_expiry_ms:
            return 0
        if now_ms >= self.last_expiry_ms:
            return self.number
        if self.last_expiry_ms == NEVER:
            return 0  # the policy changed within this segment: some never expire, and their number is unknown
        return self.number * (now_ms - self.first_expiry_ms) // (self.last_expiry_ms - self.first_expiry_ms)


class DeadLetterSummary:
    """Grows at its end and is cut at its start, like the partition. The partition is never read again.

    The summary consists of segments of equal size. When there are too many, each two neighbours are merged and the
    size doubles, so the memory does not grow with the number of dead letters.
    """

    def __init__(self, *, moves_expired: bool = False) -> None:
        """Create an empty summary.

        Args:
            moves_expired: whether expired dead letters are moved elsewhere. Retention must then never delete them.
        """
        self._moves_expired = moves_expired
        self._segments: list[_Segment] = []
        self._segment_size = 1
        self._total: _Segment | None = None
        """All segments merged: the answer while no dead letter has expired. ``None`` = to be merged again."""

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._segments)

    def add(self, offset: int, timestamp_ms: int, expires_ms: int, max_segments: int = MAX_SEGMENTS) -> None:
        """Add a dead letter behind all others.

        Args:
            offset: its offset.
            timestamp_ms: its append time (epoch ms).
            expires_ms: its expiration (epoch ms), or :data:`NEVER`.
            max_segments: the number of segments that the summary may have.
        """
        lifetime_ms = NEVER if self._moves_expired or expires_ms == NEVER else expires_ms - timestamp_ms
        added = _Segment(offset, offset, 1, timestamp_ms, expires_ms, expires_ms, lifetime_ms)
        segments = self._segments
        if self._total is not None:
            self._total.absorb(added)
        if segments and segments[-1].number < self._segment_size:
            segments[-1].absorb(added)
        else:
            segments.append(added)
        while len(segments) > max_segments:
            self._segment_size *= 2
            for left, right in zip(segments[::2], segments[1::2], strict=False):
                left.absorb(right)
            self._segments = segments = segments[::2]

    def drop_before(self, start: int) -> None:
        """Drop the dead letters below the offset ``start``, because they were deleted."""
        segments = self._segments
        dropped = 0
        while dropped < len(segments) and segments[dropped].last_offset < start:
            dropped += 1
        del segments[:dropped]
        if segments and segments[0].first_offset < start:
            segments[0].drop_before(start)
        if not segments:
            self._segment_size = 1
        self._total = None

    def count(self, now_ms: int) -> DeadLetterCount:
        """Count the dead letters as of ``now_ms`` (epoch ms)."""
        total = self._merged()
        if total is not None and now_ms < total.first_expiry_ms:
            return DeadLetterCount(total.number, 0, total.oldest_ms)
        depth = expired = 0
        oldest_ms: int | None = None
        for segment in self._segments:
            gone = segment.expired(now_ms)
            expired += gone
            if gone < segment.number:
                depth += segment.number - gone
                oldest_ms = segment.oldest_ms if oldest_ms is None else min(oldest_ms, segment.oldest_ms)
        return DeadLetterCount(depth, expired, oldest_ms)

    def loss_ms(self, now_ms: int, retention_ms: int) -> int | None:
        """When retention may first delete a dead letter that must be kept longer (epoch ms), ``None`` = never.

        Args:
            now_ms: epoch ms; dead letters that have expired by then need not be kept.
            retention_ms: the retention time of the topic.
        """
        total = self._merged()
        if total is None or total.lifetime_ms <= retention_ms:
            return None
        endangered = [
            segment.oldest_ms
            for segment in self._segments
            if segment.lifetime_ms > retention_ms and segment.expired(now_ms) < segment.number
        ]
        return min(endangered) + retention_ms if endangered else None

    def _merged(self) -> _Segment | None:
        if self._total is None and self._segments:
            self._total = replace(self._segments[0])
            for segment in self._segments[1:]:
                self._total.absorb(segment)
        return self._total
