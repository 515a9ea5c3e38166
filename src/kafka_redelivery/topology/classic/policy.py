"""ActiveMQ Classic's redelivery policy.

:mod:`topology.policy.entry` defines how deliveries and redeliveries are counted. All delays are whole milliseconds,
as on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import ceil

from kafka_redelivery.topology.java.numbers import LONG_MAX, to_long

NO_MAXIMUM = -1
"""The value of ``maximumRedeliveries`` and ``maximumRedeliveryDelay`` that means "no limit"."""

LAST_DISTINCT_REDELIVERY = 1000
"""The delay of a later redelivery is computed as for this one.

Each delay starts from the one before it, and the number of the redelivery comes from a header of the record, which any
program can write. Without this limit a number of twelve digits would take hours.
"""


class BackOffAlgorithm(StrEnum):
    """The versions of Classic's back-off algorithm."""

    CURRENT = "current"
    """5.9 and later: without back-off, every delay after the first is ``redeliveryDelay``."""

    ACTIVEMQ_5_8 = "activemq-5.8"
    """5.5 to 5.8, as older articles print it: without back-off, every delay repeats the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """ActiveMQ Classic's ``RedeliveryPolicy``: every property under its own name, with Classic's default.

    A record is delivered at most ``maximum_redeliveries + 1`` times. The delay before redelivery ``k`` is, in ms::

        delay(1) = initial_redelivery_delay
        delay(k) = delay(k - 1) * back_off_multiplier           with exponential back-off
                   redelivery_delay                             without
        delay(k) = min(delay(k), maximum_redelivery_delay)      with exponential back-off, from k = 2
        delay(k) = delay(k) + delay(k) * collision_avoidance_factor * draw    with collision avoidance, from k = 2

    ``draw`` is uniform in [-1, 1). The first delay is neither capped nor randomised. Each delay starts from the one
    before it, random part included, so randomness compounds under exponential back-off, and a randomised delay may
    exceed the maximum by the factor. The delay of a redelivery after number :data:`LAST_DISTINCT_REDELIVERY` is
    computed as for that one. A multiplier of 1 or less means no back-off. A maximum below ``redelivery_delay`` is
    raised to it. Every result is cut to a whole 64-bit number, as Java cuts it.

    Like the broker, the class accepts negative delays, multipliers and factors. A negative delay means: immediately.

    Source: the setters and defaults of ``org.apache.activemq.RedeliveryPolicy`` 5.18.6, its
    ``getNextRedeliveryDelay``, and ``ActiveMQMessageConsumer.rollback``.
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
        """The factor as a whole percentage, as Classic's getter returns it."""
        return round(self.collision_avoidance_factor * 100)

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.use_collision_avoidance and self.collision_avoidance_factor != 0

    @property
    def max_deliveries(self) -> int | None:
        """How often a record that always fails is delivered; ``None`` if there is no limit."""
        if self.maximum_redeliveries == NO_MAXIMUM:
            return None
        return max(self.maximum_redeliveries + 1, 0 if self.pre_dispatch_check else 1)

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record that was delivered ``deliveries`` times (0 or more) may not be delivered again.

        As in Classic, a maximum below -1 is exceeded before the first delivery, unless ``pre_dispatch_check`` is off.
        """
        if self.maximum_redeliveries == NO_MAXIMUM or (deliveries == 0 and not self.pre_dispatch_check):
            return False
        return deliveries > self.maximum_redeliveries

    def delay_ms(self, redelivery: int, jitter: Iterable[float]) -> int:
        """Return the delay in ms (0 or more) before redelivery number ``redelivery``, counted from 1.

        Args:
            redelivery: the number of the redelivery.
            jitter: draws from [-1, 1), one for each redelivery from the second on, at most
                ``LAST_DISTINCT_REDELIVERY - 1``; only a randomised policy uses them.

        Raises:
            ValueError: ``redelivery`` is below 1, or there are too few draws.
        """
        if redelivery < 1:
            raise ValueError(f"redeliveries count from 1, got {redelivery}")
        if not self.randomised:
            return max(0, self.nominal_delay_ms(redelivery))
        steps = _steps_to(redelivery)
        for delay in islice(self.delays_ms(jitter), steps, None):
            return max(0, delay)
        raise ValueError(f"redelivery {redelivery} needs {steps} draws")

    def delays_ms(self, jitter: Iterable[float] | None = None) -> Iterator[int]:
        """Yield the delays in ms before redelivery 1, 2, 3, ... without end, beyond the last redelivery too.

        Args:
            jitter: draws for the random part of a randomised policy, as in :meth:`delay_ms`; the delays end where the
                draws do. ``None`` leaves the random part out.

        Yields:
            the delays as Classic computes them, which may be negative.
        """
        delay = self.initial_redelivery_delay
        yield delay
        draws = iter(jitter) if jitter is not None and self.randomised else None
        while True:
            delay = self._step(delay)
            if draws is not None:
                draw = next(draws, None)
                if draw is None:
                    return
                delay = to_long(delay + delay * (self.collision_avoidance_factor * draw))
            yield delay

    def nominal_delay_ms(self, redelivery: int) -> int:
        """Return the delay in ms without its random part; it may be negative."""
        delay = self.initial_redelivery_delay
        for _ in range(_steps_to(redelivery)):
            following = self._step(delay)
            if following == delay:
                break
            delay = following
        return delay

    def delay_range_ms(self, redelivery: int) -> tuple[int, int]:
        """Return the shortest and the longest delay in ms that a redelivery can have; both may be negative.

        Randomness compounds, so the range widens with the number of the redelivery.
        """
        lowest = highest = self.initial_redelivery_delay
        spread = abs(self.collision_avoidance_factor) if self.randomised else 0.0
        for _ in range(_steps_to(redelivery)):
            # A step grows with the delay before it, but starts anew after a delay of 0 or less.
            before = {lowest, highest} | ({0, 1} if lowest <= 0 < highest else set())
            steps = [self._step(delay) for delay in before]
            ends = [to_long(step * (1 + sign * spread)) for step in steps for sign in (-1, 1)]
            following = min(ends), max(ends)
            if following == (lowest, highest):
                break
            lowest, highest = following
        return lowest, highest

    def longest_delay_ms(self, horizon: int) -> int:
        """Return an upper bound in ms of the delays before the first ``horizon`` redeliveries.

        Whatever was drawn before, a delay is either the redelivery delay or the delay before it, multiplied and
        capped; then it is drawn. A draw can make a negative delay positive.
        """
        redeliveries = self.maximum_redeliveries
        length = horizon if redeliveries == NO_MAXIMUM else min(redeliveries, horizon)
        if length <= 0:
            return 0
        spread = 1 + (abs(self.collision_avoidance_factor) if self.randomised else 0.0)
        floor = abs(self.redelivery_delay)
        previous: float = abs(self.initial_redelivery_delay)
        longest = previous
        for _ in range(length - 1):
            following = previous if self.algorithm is BackOffAlgorithm.ACTIVEMQ_5_8 else 0.0
            if self.use_exponential_back_off and self.back_off_multiplier > 1:
                following = previous * self.back_off_multiplier
                if self.maximum_redelivery_delay != NO_MAXIMUM:
                    following = min(following, max(self.maximum_redelivery_delay, floor))
            previous = max(following, floor) * spread
            longest = max(longest, previous)
            if longest >= LONG_MAX:
                return LONG_MAX
        return ceil(longest)

    def _step(self, previous: int) -> int:
        """``getNextRedeliveryDelay`` without its random part."""
        if self.algorithm is BackOffAlgorithm.ACTIVEMQ_5_8:
            if previous == 0:
                return self.redelivery_delay
            multiply, otherwise = True, previous
        else:
            multiply, otherwise = previous > 0, self.redelivery_delay
        if not (multiply and self.use_exponential_back_off and self.back_off_multiplier > 1):
            return otherwise
        following = to_long(previous * float(self.back_off_multiplier))
        maximum = self.maximum_redelivery_delay
        if maximum != NO_MAXIMUM and following > maximum:
            return max(maximum, self.redelivery_delay)
        return following


def _steps_to(redelivery: int) -> int:
    """Return how many steps lead from the first delay to that of a redelivery."""
    return min(redelivery, LAST_DISTINCT_REDELIVERY) - 1
