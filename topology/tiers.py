"""Which retry tiers a group needs, and where a waiting record goes next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import assert_never

from topology.policy import (
    NO_MAXIMUM,
    AddressSettings,
    BackOffAlgorithm,
    LayeredRedelivery,
    PolicyEntry,
    Redelivery,
    RedeliveryPolicy,
)
from topology.redelivery import UNLIMITED, delay_range, fixed_delays, most_deliveries

SMALLEST_RUNG_MS = 1000
"""The ladder's smallest tier; what has less left waits in the mixed topic."""

LONGEST_RUNG_MS = 86_400_000
"""The ladder's largest tier: a longer delay takes it more than once."""

MOST_EXACT_TIERS = 16
"""A policy with more distinct delays gets the ladder instead of a topic for each."""

_HORIZON = 200
"""How far an endless chain of delays is followed to find its distinct ones."""


@dataclass(frozen=True, slots=True)
class TierSet:
    """The tiers a group has: ``delays_ms`` ascending and positive, and whether there is a mixed topic."""

    delays_ms: tuple[int, ...]
    mixed: bool

    def place(self, remaining_ms: int) -> int | None:
        """The tier (by its delay) for a record with so much left; ``None`` = the mixed topic.

        With a mixed topic, the largest tier not above what remains: the rest is waited for further
        down, as in a hierarchical timing wheel. Without one a tier of exactly this delay exists
        unless the policy has changed since; then the next longer tier, which the record leaves when
        it is due, else the longest.

        Raises:
            ValueError: nothing remains, so the record belongs into the ready topic.
        """
        if remaining_ms <= 0:
            msg = f"nothing remains to be waited for: {remaining_ms} ms"
            raise ValueError(msg)
        if self.mixed:
            index = bisect_right(self.delays_ms, remaining_ms)
            tier = self.delays_ms[index - 1] if index else None
            # A short tier of a policy's own serves that delay alone: a remainder would go through it again and again.
            return tier if tier is not None and (tier >= SMALLEST_RUNG_MS or tier == remaining_ms) else None
        index = bisect_left(self.delays_ms, remaining_ms)
        return self.delays_ms[min(index, len(self.delays_ms) - 1)]


def tier_set(entries: Iterable[PolicyEntry]) -> TierSet:
    """The tiers that the policies of a group need.

    A policy whose delays are few and known gets a tier for each of them. Where delays between tiers
    can occur (collision avoidance, a handler's own delays, too many distinct ones), a ladder of tiers
    with ratio 2 up to the longest delay and the mixed topic are added.
    """
    exact: set[int] = set()
    longest: int | None = None
    for entry in entries:
        found = exact_delays(entry.redelivery_policy)
        if found is None:
            longest = max(longest or 0, longest_delay(entry.redelivery_policy))
        else:
            exact |= found
        if entry.maximum_handler_delay is not None and entry.maximum_handler_delay > 0:
            longest = max(longest or 0, entry.maximum_handler_delay)
    if len(exact) > MOST_EXACT_TIERS:
        longest = max(longest or 0, *exact)
        exact = set()
    if longest is None:
        return TierSet(tuple(sorted(exact)), mixed=False)
    return TierSet(tuple(sorted(exact | set(_ladder(longest)))), mixed=True)


def exact_delays(policy: Redelivery) -> set[int] | None:
    """The distinct positive delays of a policy, ``None`` if they are random or too many."""
    if policy.randomised:
        return None
    found: set[int] = set()
    previous: int | None = None
    for delay in islice(fixed_delays(policy), _redeliveries(policy)):
        if delay == previous and isinstance(policy, RedeliveryPolicy):
            break  # each of Classic's delays follows from the one before it
        previous = delay
        if delay > 0:
            found.add(delay)
        if len(found) > MOST_EXACT_TIERS:
            return None
    return found


def longest_delay(policy: Redelivery) -> int:
    """An upper bound of a policy's delays in ms, at most :data:`LONGEST_RUNG_MS`."""
    match policy:
        case RedeliveryPolicy():
            return _longest_of_classic(policy)
        case LayeredRedelivery():
            return max(_longest_of_classic(policy.client), _longest_of_classic(policy.broker))
        case AddressSettings():
            ranges = (delay_range(policy, redelivery) for redelivery in range(1, _redeliveries(policy) + 1))
            return min(LONGEST_RUNG_MS, max((highest for _, highest in ranges), default=0))
        case _:
            assert_never(policy)


def _redeliveries(policy: Redelivery) -> int:
    """How many redeliveries are looked at."""
    most = most_deliveries(policy)
    endless = most == UNLIMITED or (most > _HORIZON and not isinstance(policy, RedeliveryPolicy))
    return _HORIZON if endless else max(0, most - 1)


def _longest_of_classic(policy: RedeliveryPolicy) -> int:
    """An upper bound for one layer.

    Whatever was drawn before, a delay is either the redelivery delay or the one before it multiplied,
    capped, and then drawn; a negative one can be drawn to the other side.
    """
    redeliveries = policy.maximum_redeliveries
    horizon = _HORIZON if redeliveries == NO_MAXIMUM else min(max(0, redeliveries), _HORIZON)
    if horizon == 0:
        return 0
    spread = 1 + (abs(policy.collision_avoidance_factor) if policy.randomised else 0.0)
    floor = abs(policy.redelivery_delay)
    previous: float = abs(policy.initial_redelivery_delay)
    longest = previous
    for _ in range(horizon - 1):
        following = previous if policy.algorithm is BackOffAlgorithm.ACTIVEMQ_5_8 else 0.0
        if policy.use_exponential_back_off and policy.back_off_multiplier > 1:
            following = previous * policy.back_off_multiplier
            if policy.maximum_redelivery_delay != NO_MAXIMUM:
                following = min(following, max(policy.maximum_redelivery_delay, floor))
        previous = max(following, floor) * spread
        longest = max(longest, previous)
        if longest >= LONGEST_RUNG_MS:
            return LONGEST_RUNG_MS
    return min(LONGEST_RUNG_MS, ceil(longest))


def _ladder(longest_ms: int) -> Iterable[int]:
    rung = SMALLEST_RUNG_MS
    while rung <= longest_ms and rung <= LONGEST_RUNG_MS:
        yield rung
        rung *= 2
