"""Redelivery by a Classic client and, once the client has given up, by the broker's redelivery plugin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import isqrt
from typing import NamedTuple

from kafka_redelivery.topology.classic.policy import NO_MAXIMUM, RedeliveryPolicy


class Redelivery(NamedTuple):
    """One redelivery: the policy that sets its delay, and its number (from 1) within that policy."""

    policy: RedeliveryPolicy
    number: int


@dataclass(frozen=True, slots=True)
class LayeredRedelivery:
    """The client's and the broker's policy, with their counts interleaved as in Classic.

    The client redelivers until its own limit, then the broker's plugin sends the record back to the client, up to the
    broker's limit. The client goes on counting from the count in the message, so each round is one delivery shorter
    than the one before: client 3 and broker 2 make 4 + 3 + 2 deliveries. A client without a limit never hands over.

    Source: ``ActiveMQMessageConsumer.rollback``, ``RedeliveryPlugin.sendToDeadLetterQueue``.
    """

    client: RedeliveryPolicy
    broker: RedeliveryPolicy

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.client.randomised or self.broker.randomised

    @property
    def layers(self) -> tuple[RedeliveryPolicy, ...]:
        """The policies of which redeliveries can happen."""
        never_hands_over = self.client.maximum_redeliveries == NO_MAXIMUM
        return (self.client,) if never_hands_over else (self.client, self.broker)

    @property
    def max_deliveries(self) -> int | None:
        """How often a record that always fails is delivered; ``None`` if there is no limit."""
        client, broker = self.client.maximum_redeliveries, self.broker.maximum_redeliveries
        if NO_MAXIMUM in {client, broker}:
            return None
        rounds, longest = max(broker, 0) + 1, max(client, 0) + 1
        shrinking = min(rounds, longest)
        # The rounds have longest, longest - 1, ... deliveries down to one, and one each from then on.
        return shrinking * longest - shrinking * (shrinking - 1) // 2 + (rounds - shrinking)

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record that was delivered ``deliveries`` times (0 or more) may not be delivered again."""
        return deliveries > 0 and self.redelivery_after(deliveries) is None

    def redelivery_after(self, deliveries: int) -> Redelivery | None:
        """Return the redelivery that follows failed delivery number ``deliveries``; ``None`` if none does.

        Raises:
            ValueError: ``deliveries`` is below 1.
        """
        if deliveries < 1:
            raise ValueError(f"deliveries count from 1, got {deliveries}")
        limit = self.client.maximum_redeliveries
        if limit == NO_MAXIMUM:
            return Redelivery(self.client, deliveries)
        longest = max(limit, -1) + 1
        shrinking = longest * (longest + 1) // 2
        left = shrinking - deliveries
        if left < 0:  # each round is a single delivery
            return self._broker_redelivery(longest - left - 1)
        # The rounds after one of length n have n - 1, n - 2, ... 1 deliveries: n * (n - 1) / 2 in all.
        length = (1 + isqrt(1 + 8 * left)) // 2
        rounds = longest - length
        if rounds and self.broker.exceeded(rounds):
            return None
        left_in_round = left - length * (length - 1) // 2
        return Redelivery(self.client, limit - left_in_round + 1) if left_in_round else self._broker_redelivery(rounds)

    def delay_ms(self, redelivery: int, jitter: Iterable[float]) -> int:
        """Return the delay in ms (0 or more) before a redelivery, counted from 1; 0 after the last one.

        Raises:
            ValueError: ``redelivery`` is below 1, or there are too few draws.
        """
        found = self.redelivery_after(redelivery)
        return 0 if found is None else found.policy.delay_ms(found.number, jitter)

    def delays_ms(self) -> Iterator[int]:
        """Yield the delays in ms without their random part, up to the last redelivery; they may be negative."""
        for redelivery in count(1):
            found = self.redelivery_after(redelivery)
            if found is None:
                return
            yield found.policy.nominal_delay_ms(found.number)

    def delay_range_ms(self, redelivery: int) -> tuple[int, int]:
        """Return the shortest and the longest delay in ms that a redelivery can have; both may be negative."""
        found = self.redelivery_after(redelivery)
        return (0, 0) if found is None else found.policy.delay_range_ms(found.number)

    def longest_delay_ms(self, horizon: int) -> int:
        """Return an upper bound in ms of the delays before the first ``horizon`` redeliveries of either layer."""
        return max(layer.longest_delay_ms(horizon) for layer in self.layers)

    def _broker_redelivery(self, rounds: int) -> Redelivery | None:
        return None if self.broker.exceeded(rounds + 1) else Redelivery(self.broker, rounds + 1)
