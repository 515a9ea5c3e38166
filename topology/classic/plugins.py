"""The broker plugins that act on dead letters.

Each wraps those listed before it, so the last in the list sees a dead letter first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from topology.classic.choice import Choice, choose
from topology.classic.destination import Destination
from topology.classic.java_regex import java_pattern
from topology.classic.policy import RedeliveryPolicy
from topology.errors import MatchError
from topology.foreign_pattern import LONGEST, ForeignPattern

SHORTEST_BROKER_DELAY_MS = 1000
"""Below it the broker refuses to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPlugin:
    """``redeliveryPlugin``: redelivers what a client gave up, before it becomes a dead letter.

    ``fallback_to_dead_letter`` says what happens to a destination without a policy here,
    ``send_to_dlq_if_max_retries_exceeded`` to a message after its last redelivery; false drops it.
    """

    entries: tuple[tuple[Destination, RedeliveryPolicy], ...] = ()
    default_entry: RedeliveryPolicy | None = None
    fallback_to_dead_letter: bool = True
    send_to_dlq_if_max_retries_exceeded: bool = True

    def choice(self, destination: Destination) -> Choice:
        """Which of its entries apply."""
        return choose([pattern for pattern, _ in self.entries], destination)

    def policy(self, choice: Choice) -> RedeliveryPolicy | None:
        """The policy that a choice leads to."""
        return self.default_entry if choice.winner is None else self.entries[choice.winner][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingPlugin:
    """``discardingDLQBrokerPlugin``: drops dead letters by the name they were sent to.

    ``drop_only`` holds regular expressions, parted by blanks, for the whole name. ``report_interval`` is
    after how many dropped ones the broker writes a line; 0 = never.
    """

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: str | None = None
    report_interval: int = 1000

    def drops(self, destination: Destination) -> str | None:
        """The property that drops a destination's dead letters, ``None`` if they are kept.

        Raises:
            MatchError: a pattern of ``drop_only`` is no regular expression, or takes too long.
        """
        patterns = self.patterns()
        if self.drop_all:
            return "dropAll"
        if destination.kind.is_temporary:
            if self.drop_temporary_topics and not destination.kind.is_queue:
                return "dropTemporaryTopics"
            if self.drop_temporary_queues and destination.kind.is_queue:
                return "dropTemporaryQueues"
        return "dropOnly" if any(pattern.matches(destination.name) for pattern in patterns) else None

    def patterns(self) -> tuple[ForeignPattern, ...]:
        """The patterns of ``drop_only``.

        Raises:
            MatchError: one of them is no regular expression.
        """
        return _patterns(self.drop_only or "")


@lru_cache(maxsize=16)
def _patterns(texts: str) -> tuple[ForeignPattern, ...]:
    """Kept, since every source asks for them."""
    if len(texts) > LONGEST:
        raise MatchError(f"{texts[:60]}...", "is longer than can be meant")
    found = []
    for text in texts.split(" "):
        if text.strip():
            try:
                found.append(java_pattern(text))
            except re.error as error:
                raise MatchError(text, f"is no regular expression: {error}") from None
    return tuple(found)


Plugin = RedeliveryPlugin | DiscardingPlugin
