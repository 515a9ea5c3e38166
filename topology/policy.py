"""What is configured for a destination: how often and when it is redelivered, and what becomes of the rest.

Counting is said once, here. *Deliveries* (and *attempts*) count from 1: the first time a handler sees
a record is delivery 1. *Redeliveries* count from 0: redelivery ``k`` is delivery ``k + 1``, so
Classic's ``maximumRedeliveries`` = N allows N + 1 deliveries. All delays are whole milliseconds, as on the
wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from topology.artemis.address_settings import AddressSettings
from topology.classic.layers import LayeredRedelivery
from topology.classic.policy import NO_MAXIMUM, BackOffAlgorithm, RedeliveryPolicy

__all__ = [
    "NO_MAXIMUM",
    "AddressSettings",
    "BackOffAlgorithm",
    "DeadLetterKind",
    "DeadLetterStrategy",
    "LayeredRedelivery",
    "PolicyEntry",
    "Redelivery",
    "RedeliveryPolicy",
]

Redelivery = RedeliveryPolicy | LayeredRedelivery | AddressSettings
"""Of either dialect: Classic's policy (of one layer, or of client and broker), or Artemis's settings."""


class DeadLetterKind(StrEnum):
    """Where dead letters go."""

    INDIVIDUAL = "individual"
    """A dead-letter topic for each source topic."""

    SHARED = "shared"
    """One dead-letter topic for all."""

    DISCARDING = "discarding"
    """Nowhere: what would be dead-lettered is counted and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStrategy:
    """What becomes of one destination's dead letters, whatever dialect it was written in.

    ``topic`` is a template: ``{topic}`` and ``{group}`` are replaced; so is ``expiry_topic``, where expired
    records go instead if it is given. ``expiration`` is how long a dead letter lives, in milliseconds;
    0 = for ever. What is not processed is dropped and counted: expired records, non-persistent ones,
    and with ``process_poison`` false all that failed for good.
    """

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str = "DLQ.{topic}"
    expiry_topic: str | None = None
    process_expired: bool = True
    process_non_persistent: bool = True
    process_poison: bool = True
    expiration: int = 0
    enable_audit: bool = True
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64
    poison_report_interval: int = 0
    """After how many the discarding plugin that drops these writes a line; 0 = there is none, or never."""

    expired_report_interval: int = 0

    def report_interval(self, *, expired: bool) -> int:
        """Of the plugin that drops such a record; 0 or less = nothing is written."""
        return self.expired_report_interval if expired else self.poison_report_interval

    @property
    def templates(self) -> tuple[str, ...]:
        """Of all topics that dead letters can go to."""
        if self.kind is DeadLetterKind.DISCARDING:
            return ()
        return (self.topic,) if self.expiry_topic is None else (self.topic, self.expiry_topic)

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Whether such a record becomes a dead letter."""
        return (
            self.kind is not DeadLetterKind.DISCARDING
            and (persistent or self.process_non_persistent)
            and (not expired or self.process_expired)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """Everything that decides about a failing record of one destination."""

    redelivery_policy: Redelivery = field(default_factory=RedeliveryPolicy)
    dead_letter_strategy: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """The longest delay (ms) a handler may ask for itself; ``None`` = it may not."""

    def expiration_ms(self, own_ms: int, sent_ms: int) -> int:
        """When a record expires (epoch ms, 0 = never) that says ``own_ms`` itself and was sent at ``sent_ms``."""
        policy = self.redelivery_policy
        if not isinstance(policy, AddressSettings) or sent_ms < 0:
            return own_ms  # a record without a timestamp says nothing of its age
        return policy.expiration_ms(own_ms, sent_ms)
