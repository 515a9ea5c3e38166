"""ActiveMQ Classic's redelivery policy.

Counting is said in :mod:`topology.policy`. All delays are whole milliseconds, as on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    pre_dispatch_check: bool = True
    """Whether a record whose redeliveries are exceeded is dead-lettered without being delivered once more."""

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

        A maximum below -1 is exceeded before the first delivery, as in Classic, but without ``pre_dispatch_check``.
        """
        if self.maximum_redeliveries == NO_MAXIMUM or (deliveries == 0 and not self.pre_dispatch_check):
            return False
        return deliveries > self.maximum_redeliveries
