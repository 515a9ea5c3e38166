"""Growing pauses between the attempts of this process itself. The delays of records are those of their policy."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Backoff:
    """When to try again after failures: at once before the first, then after pauses that double up to a limit.

    With the defaults the pauses are 1, 2, 4, 8, 16, 30, 30 ... seconds. A success begins anew, with another object.
    """

    first_s: float = 1.0
    longest_s: float = 30.0
    pause_s: float = 0.0
    """The pause since the last failure; 0 before the first."""

    due_s: float = 0.0
    """When that pause ends, by the clock of :meth:`failed`."""

    def failed(self, now_s: float) -> Backoff:
        """Return the back-off after one more failure, at ``now_s`` (monotonic)."""
        pause_s = min(max(self.first_s, 2 * self.pause_s), self.longest_s)
        return replace(self, pause_s=pause_s, due_s=now_s + pause_s)

    def is_due(self, now_s: float) -> bool:
        """Whether the pause is over."""
        return now_s >= self.due_s
