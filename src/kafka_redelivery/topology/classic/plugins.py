"""The broker plugins that handle dead letters.

Each plugin wraps those listed before it, so the last one listed gets a dead letter first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kafka_redelivery.topology.classic.choice import Choice, choose
from kafka_redelivery.topology.classic.destination import Destination
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.java.regex import MAX_PATTERN_CHARACTERS, UntrustedPattern, java_pattern

SHORTEST_BROKER_DELAY_MS = 1000
"""The shortest delay of a redelivery plugin in ms; the broker does not start with a shorter one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPlugin:
    """``redeliveryPlugin``: redelivers messages that a client has given up, before they become dead letters.

    Two switches drop messages if they are false: ``fallback_to_dead_letter`` those of destinations without a policy
    here, and ``send_to_dlq_if_max_retries_exceeded`` those that have had their last redelivery.
    """

    entries: tuple[tuple[Destination, RedeliveryPolicy], ...] = ()
    default_entry: RedeliveryPolicy | None = None
    fallback_to_dead_letter: bool = True
    send_to_dlq_if_max_retries_exceeded: bool = True

    def choice(self, destination: Destination) -> Choice:
        """Choose among its entries for a destination."""
        return choose([pattern for pattern, _ in self.entries], destination)

    def policy(self, choice: Choice) -> RedeliveryPolicy | None:
        """Return the policy of a choice; the default entry if none matches."""
        return self.default_entry if choice.winner is None else self.entries[choice.winner][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingPlugin:
    """``discardingDLQBrokerPlugin``: drops the dead letters of some destinations.

    ``drop_only`` contains regular expressions, separated by blanks, that match the whole name of a destination. The
    broker logs a line after every ``report_interval`` dropped messages; 0 = never.
    """

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: str | None = None
    report_interval: int = 1000

    def drops(self, destination: Destination) -> str | None:
        """Return the property that drops the dead letters of a destination; ``None`` if they are kept.

        Raises:
            MatchError: a pattern of ``drop_only`` is not a regular expression, or matching takes too long.
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

    def patterns(self) -> tuple[UntrustedPattern, ...]:
        """Return the patterns of ``drop_only``.

        Raises:
            MatchError: one of them is not a regular expression.
        """
        return _patterns(self.drop_only or "")


@lru_cache(maxsize=16)
def _patterns(texts: str) -> tuple[UntrustedPattern, ...]:
    """Cached, because every source needs them."""
    if len(texts) > MAX_PATTERN_CHARACTERS:
        raise MatchError(f"{texts[:60]}...", "is too long")
    found = []
    for text in texts.split(" "):
        if text.strip():
            try:
                found.append(java_pattern(text))
            except re.error as error:
                raise MatchError(text, f"is not a regular expression: {error}") from None
    return tuple(found)


Plugin = RedeliveryPlugin | DiscardingPlugin
