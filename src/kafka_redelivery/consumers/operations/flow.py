"""What moves, what waits and what is stuck: the group's status, and how fast it changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_redelivery.consumers.operations.status import GroupStatus, StatusReader, TopicBacklog
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.pauses import PauseScope

_RATE_MS: Final = 10_000
"""Rates are those of the last ten seconds."""

_DEAD: Final = ""
"""Stands for all dead-letter topics."""

_STUCK_MS: Final = 20_000
"""What waits and does not move for this time is stuck."""


class Movement(NamedTuple):
    """How a topic changes."""

    arriving: float
    """Records in a second, at most: transaction markers count."""

    handled: float
    stuck: bool
    """Whether records wait, and none was handled for a while."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One look at a group."""

    status: GroupStatus
    movements: Mapping[str, Movement]
    paused: frozenset[str]
    """The topics that are paused by name."""

    all_paused: bool
    dying: float = 0.0
    """Records a second that come to the dead-letter topics, at most: transaction markers count."""

    def of(self, role: str) -> list[TopicBacklog]:
        """Return the topics of a role: tiers from the shortest delay to the longest, others by records, most first."""
        found = [each for each in self.status.backlogs if each.role == role]
        return sorted(found, key=lambda each: -each.records) if role != "tier" else found

    def waiting(self, role: str) -> int:
        """Return how many records wait in the topics of a role, at most."""
        return sum(each.records for each in self.of(role))

    def counts(self, role: str) -> bool:
        """Whether :meth:`waiting` is their number."""
        return all(each.exact for each in self.of(role))

    def handled(self, role: str) -> float:
        """Return how many records of a role's topics are handled in a second."""
        return sum(self.movements[each.topic].handled for each in self.of(role))

    def arriving(self, role: str) -> float:
        """Return how many records arrive in the topics of a role in a second."""
        return sum(self.movements[each.topic].arriving for each in self.of(role))

    @property
    def overdue_ms(self) -> int:
        """How long the first waiting record is overdue."""
        due = [each.first_due_ms for each in self.of("tier") if each.first_due_ms is not None]
        return max(0, self.status.at_ms - min(due)) if due else 0

    def members(self, *, schedulers: bool) -> int | None:
        """Return how many workers, or schedulers, the group has; ``None`` if Kafka does not list them."""
        if self.status.pausing.members is None:
            return None
        return sum((each.group != self.status.group) == schedulers for each in self.status.members)


@dataclass(slots=True)
class FlowWatch:
    """Looks at the group again and again, with the same clients until one fails. Not thread-safe."""

    settings: Settings
    _reader: StatusReader | None = None
    _looks: deque[tuple[int, dict[str, tuple[int, int]]]] = field(default_factory=lambda: deque(maxlen=60))
    _moved_ms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The sum of the finished offsets of a topic, and since when it is that."""

    def look(self) -> Flow:
        """Return how the group is now.

        Raises:
            TransportError: Kafka does not answer, or denies it.
        """
        if self._reader is None:
            self._reader = StatusReader(self.settings)
        try:
            found = self._reader.look()
        except Exception:
            self.close()
            raise
        sums = {each.topic: (each.finished, each.end) for each in found.backlogs} | {_DEAD: (0, found.dead_letters_end)}
        self._looks.append((found.at_ms, sums))
        while len(self._looks) > 2 and self._looks[1][0] < found.at_ms - _RATE_MS:  # noqa: PLR2004 - two make a rate
            self._looks.popleft()
        paused = {each.target.topic for each in found.pausing.pauses if each.target.topic}
        all_paused = any(each.target.scope is PauseScope.GROUP for each in found.pausing.pauses)
        movements = {each.topic: self._movement(each, found.at_ms) for each in found.backlogs}
        at_ms, before = self._looks[0][0], self._looks[0][1][_DEAD][1]
        dying = max(0.0, (found.dead_letters_end - before) * 1000 / max(1000, found.at_ms - at_ms))
        return Flow(found, movements, frozenset(paused), all_paused, dying)

    def close(self) -> None:
        """Release the clients; the next look opens others."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _movement(self, each: TopicBacklog, now_ms: int) -> Movement:
        at_ms, sums = self._looks[0]
        finished, end = sums.get(each.topic, (each.finished, each.end))
        seconds = max(1, now_ms - at_ms) / 1000
        before, since_ms = self._moved_ms.get(each.topic, (-1, now_ms))
        if before != each.finished or not each.records:
            since_ms = now_ms
        self._moved_ms[each.topic] = each.finished, since_ms
        waits = each.role != "tier" or (each.first_due_ms is not None and each.first_due_ms < now_ms - _STUCK_MS)
        return Movement(
            max(0.0, (each.end - end) / seconds),
            max(0.0, (each.finished - finished) / seconds),
            bool(each.records) and waits and now_ms - since_ms >= _STUCK_MS,
        )
