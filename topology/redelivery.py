"""When a redelivery comes, in whichever dialect it is configured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice
from typing import assert_never

from topology import backoff as classic
from topology.artemis import delays as artemis
from topology.classic.policy import NO_MAXIMUM
from topology.policy import AddressSettings, LayeredRedelivery, Redelivery, RedeliveryPolicy

UNLIMITED = -1
"""Of deliveries."""


def redelivery_delay(policy: Redelivery, redelivery: int, jitter: Iterable[float]) -> int:
    """The delay in ms (never negative) before redelivery number ``redelivery``, counted from 1.

    Args:
        policy: of the record's destination.
        redelivery: its number, which is that of the delivery that failed.
        jitter: draws from [-1, 1) for a randomised policy.

    Raises:
        ValueError: ``redelivery`` is below 1, or there were too few draws.
    """
    match policy:
        case RedeliveryPolicy():
            return classic.redelivery_delay(policy, redelivery, jitter)
        case LayeredRedelivery():
            hop = policy.hop(redelivery)
            return 0 if hop is None else classic.redelivery_delay(hop.policy, hop.redelivery, jitter)
        case AddressSettings():
            return artemis.redelivery_delay(policy, redelivery, jitter)
        case _:
            assert_never(policy)


def fixed_delays(policy: Redelivery) -> Iterator[int]:
    """The delays one after the other without their random part, as the broker computes them.

    They may be negative, and go on beyond the last redelivery of a policy of one layer.
    """
    match policy:
        case RedeliveryPolicy():
            yield from classic.delays(replace(policy, use_collision_avoidance=False), ())
        case LayeredRedelivery():
            for redelivery in count(1):
                hop = policy.hop(redelivery)
                if hop is None:
                    return
                yield next(islice(fixed_delays(hop.policy), hop.redelivery - 1, None))
        case AddressSettings():
            for redelivery in count(1):
                yield artemis.calculated_delay(policy, redelivery) if policy.scheduled else 0
        case _:
            assert_never(policy)


def delay_range(policy: Redelivery, redelivery: int) -> tuple[int, int]:
    """The shortest and the longest delay (ms, as :func:`fixed_delays`) that redelivery can have."""
    match policy:
        case RedeliveryPolicy():
            return classic.delay_range(policy, redelivery)
        case LayeredRedelivery():
            hop = policy.hop(redelivery)
            return (0, 0) if hop is None else classic.delay_range(hop.policy, hop.redelivery)
        case AddressSettings():
            if not policy.scheduled:
                return 0, 0
            ends = [artemis.calculated_delay(policy, redelivery, draw) for draw in (-1.0, 1.0)]
            return min(ends), max(ends)
        case _:
            assert_never(policy)


def most_deliveries(policy: Redelivery) -> int:
    """How often a record that always fails is delivered; :data:`UNLIMITED` if there is no limit."""
    match policy:
        case RedeliveryPolicy():
            most = policy.maximum_redeliveries
            if most == NO_MAXIMUM:
                return UNLIMITED
            return max(most + 1, 0 if policy.pre_dispatch_check else 1)
        case LayeredRedelivery():
            return _most_of_layers(policy)
        case AddressSettings():
            return policy.max_delivery_attempts if policy.max_delivery_attempts > 0 else UNLIMITED
        case _:
            assert_never(policy)


def _most_of_layers(policy: LayeredRedelivery) -> int:
    client, broker = policy.client.maximum_redeliveries, policy.broker.maximum_redeliveries
    if NO_MAXIMUM in {client, broker}:
        return UNLIMITED
    rounds, longest = max(broker, 0) + 1, max(client, 0) + 1
    falling = min(rounds, longest)
    # The rounds have longest, longest - 1, ... deliveries, and one each from then on.
    return falling * longest - falling * (falling - 1) // 2 + (rounds - falling)
