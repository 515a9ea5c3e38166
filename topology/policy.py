"""What is configured for a destination: ActiveMQ's redelivery policy and dead-letter strategy.

Counting is said once, here. *Deliveries* (and *attempts*) count from 1: the first time a handler sees
a record is delivery 1. *Redeliveries* count from 0: redelivery ``k`` is delivery ``k + 1``, so
``maximumRedeliveries`` = N allows N + 1 deliveries. All delays are whole milliseconds, as on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

NO_MAXIMUM = -1
"""``maximumRedeliveries`` and ``maximumRedeliveryDelay``: there is no limit."""


class BackOffAlgorithm(StrEnum):
    """Which generation of Classic's algorithm computes the chain of delays."""

    CURRENT = "current"
    """5.9 and later: without back-off every later delay is ``redeliveryDelay``."""

    ACTIVEMQ_5_8 = "activemq-5.8"
    """5.5 to 5.8, as older articles print it: without back-off the previous delay is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """ActiveMQ Classic's ``RedeliveryPolicy``: every property under its own name, with its own default.

    Values are taken as the broker takes them: it accepts negative delays, multipliers and percentages,
    so does this class; what they then do is in :mod:`topology.backoff`. Delays are in milliseconds.

    Source: the setters and defaults of ``org.apache.activemq.RedeliveryPolicy`` 5.18.6.
    """

    maximum_redeliveries: int = 6
    initial_redelivery_delay: int = 1000
    redelivery_delay: int = 1000
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    maximum_redelivery_delay: int = NO_MAXIMUM
    use_collision_avoidance: bool = False
    collision_avoidance_factor: float = 0.15
    algorithm: BackOffAlgorithm = BackOffAlgorithm.CURRENT

    @property
    def collision_avoidance_percent(self) -> int:
        """The factor as the whole percentage that Classic's getter answers."""
        return round(self.collision_avoidance_factor * 100)

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.use_collision_avoidance and self.collision_avoidance_factor != 0

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record delivered ``deliveries`` times (0 = never yet) may not be delivered again.

        A maximum below -1 is exceeded before the first delivery, as in Classic.
        """
        return self.maximum_redeliveries != NO_MAXIMUM and deliveries > self.maximum_redeliveries


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
    """ActiveMQ's dead-letter strategy, as far as one record's decision needs it.

    ``expiration`` is how long a dead letter lives, in milliseconds; 0 = for ever.
    ``topic`` is a template: ``{topic}`` and ``{group}`` are replaced.
    """

    kind: DeadLetterKind = DeadLetterKind.INDIVIDUAL
    topic: str = "DLQ.{topic}"
    process_expired: bool = True
    expiration: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """Everything that decides about a failing record of one destination."""

    redelivery_policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    dead_letter_strategy: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """The longest delay (ms) a handler may ask for itself; ``None`` = it may not."""
