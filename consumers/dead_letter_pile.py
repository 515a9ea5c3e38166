"""Dead letters of one kind in one partition, remembered in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from consumers.observer import DeadLetterStanding

MOST_RUNS = 128
"""Runs of one pile. Up to so many dead letters all figures are exact, beyond that to within one run."""

NEVER = 2**63
"""When a dead letter without an expiration expires."""


@dataclass(slots=True)
class _Run:
    """Dead letters that follow one another in their pile."""

    first: int
    last: int
    """Offsets."""

    number: int
    oldest_ms: int
    expires_from_ms: int
    expires_until_ms: int
    life_ms: int
    """The longest that one of them has to be kept."""

    def absorb(self, later: _Run) -> None:
        self.last = later.last
        self.number += later.number
        self.oldest_ms = min(self.oldest_ms, later.oldest_ms)
        self.expires_from_ms = min(self.expires_from_ms, later.expires_from_ms)
        self.expires_until_ms = max(self.expires_until_ms, later.expires_until_ms)
        self.life_ms = max(self.life_ms, later.life_ms)

    def cut(self, start: int) -> None:
        """Drop what lies before ``start``, as if the offsets were spread evenly."""
        kept = -(-self.number * (self.last - start + 1) // (self.last - self.first + 1))
        self.first, self.number = start, max(1, kept)

    def expired(self, now_ms: int) -> int:
        """How many of them have expired, as if that happened evenly."""
        if now_ms < self.expires_from_ms:
            return 0
        if now_ms >= self.expires_until_ms:
            return self.number
        if self.expires_until_ms == NEVER:
            return 0  # some never do, and it is not known how many: a changed policy, within one run
        return self.number * (now_ms - self.expires_from_ms) // (self.expires_until_ms - self.expires_from_ms)


class Pile:
    """Grows at its end, is cut at its start, and is never read again.

    It consists of runs of equal size. When there are too many, every two neighbours become one and the size doubles:
    memory stays the same, whatever the number of dead letters.
    """

    def __init__(self, *, moved: bool = False) -> None:
        """Make an empty one.

        Args:
            moved: whether those that have expired are to be moved elsewhere, so that they must not be gone by then.
        """
        self._moved = moved
        self._runs: list[_Run] = []
        self._size = 1
        self._whole: _Run | None = None
        """All runs as one: answers for the pile while nothing in it has expired. ``None`` = to be made again."""

    def __len__(self) -> int:
        """How many runs it consists of."""
        return len(self._runs)

    def add(self, offset: int, timestamp_ms: int, expires_ms: int, most: int = MOST_RUNS) -> None:
        """Add one, behind all others.

        Args:
            offset: its own.
            timestamp_ms: since when it is there (epoch ms).
            expires_ms: epoch ms, :data:`NEVER` if it does not.
            most: runs that the pile may consist of.
        """
        life_ms = NEVER if self._moved or expires_ms == NEVER else expires_ms - timestamp_ms
        run = _Run(offset, offset, 1, timestamp_ms, expires_ms, expires_ms, life_ms)
        runs = self._runs
        if self._whole is not None:
            self._whole.absorb(run)
        if runs and runs[-1].number < self._size:
            runs[-1].absorb(run)
        else:
            runs.append(run)
        while len(runs) > most:
            self._size *= 2
            for left, right in zip(runs[::2], runs[1::2], strict=False):
                left.absorb(right)
            self._runs = runs = runs[::2]

    def drop_before(self, start: int) -> None:
        """Forget those that were deleted: all below the offset ``start``."""
        runs = self._runs
        gone = 0
        while gone < len(runs) and runs[gone].last < start:
            gone += 1
        del runs[:gone]
        if runs and runs[0].first < start:
            runs[0].cut(start)
        if not runs:
            self._size = 1
        self._whole = None

    def standing(self, now_ms: int) -> DeadLetterStanding:
        """How it stands at that time (epoch ms)."""
        whole = self._all()
        if whole is not None and now_ms < whole.expires_from_ms:
            return DeadLetterStanding(whole.number, 0, whole.oldest_ms)
        depth = expired = 0
        oldest_ms: int | None = None
        for run in self._runs:
            over = run.expired(now_ms)
            expired += over
            if over < run.number:
                depth += run.number - over
                oldest_ms = run.oldest_ms if oldest_ms is None else min(oldest_ms, run.oldest_ms)
        return DeadLetterStanding(depth, expired, oldest_ms)

    def loss_ms(self, now_ms: int, retention_ms: int) -> int | None:
        """From when on retention may delete one that has to be kept longer (epoch ms), ``None`` if there is none.

        Args:
            now_ms: epoch ms; those that have expired by then are kept no longer.
            retention_ms: how long the topic keeps a record.
        """
        whole = self._all()
        if whole is None or whole.life_ms <= retention_ms:
            return None
        oldest = [
            run.oldest_ms for run in self._runs if run.life_ms > retention_ms and run.expired(now_ms) < run.number
        ]
        return min(oldest) + retention_ms if oldest else None

    def _all(self) -> _Run | None:
        if self._whole is None and self._runs:
            self._whole = replace(self._runs[0])
            for run in self._runs[1:]:
                self._whole.absorb(run)
        return self._whole
