"""Redelivery by a client and, when the client gave up, by the broker's plugin."""

from __future__ import annotations

from dataclasses import dataclass

from topology.classic.policy import NO_MAXIMUM, RedeliveryPolicy


@dataclass(frozen=True, slots=True)
class Hop:
    """Whose policy says how long to wait, and its how many-th redelivery (from 1) this is."""

    policy: RedeliveryPolicy
    redelivery: int


@dataclass(frozen=True, slots=True)
class LayeredRedelivery:
    """Both layers with their counts as they interleave.

    The client counts on from what the broker wrote into the message, so each round of the broker is
    shorter: client 3 and broker 2 make 4 + 3 + 2 deliveries.

    Source: ``ActiveMQMessageConsumer.rollback``, ``RedeliveryPlugin.sendToDeadLetterQueue``.
    """

    client: RedeliveryPolicy
    broker: RedeliveryPolicy

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.client.randomised or self.broker.randomised

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record delivered ``deliveries`` times may not be delivered again."""
        return deliveries > 0 and self.hop(deliveries) is None

    def hop(self, deliveries: int) -> Hop | None:
        """What follows when delivery number ``deliveries`` (from 1) failed; ``None`` if nothing does."""
        most = self.client.maximum_redeliveries
        if most == NO_MAXIMUM:
            return Hop(self.client, deliveries)
        left, rounds = deliveries, 0
        while rounds <= most:
            length = most - rounds + 1
            if left < length:
                return Hop(self.client, rounds + left)
            if left == length:
                return self._broker(rounds)
            left -= length
            rounds += 1
            if self.broker.exceeded(rounds):
                return None
        # From here on the client gives up after each single delivery.
        return self._broker(rounds + left - 1)

    def _broker(self, rounds: int) -> Hop | None:
        return None if self.broker.exceeded(rounds + 1) else Hop(self.broker, rounds + 1)
