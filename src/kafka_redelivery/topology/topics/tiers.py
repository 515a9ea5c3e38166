"""The retry tiers that a group needs, and the tier in which a record waits next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.errors import NoTierError
from kafka_redelivery.topology.policy.entry import PolicyEntry, RetryPolicy

SHORTEST_LADDER_TIER_MS = 1000
"""Delay of the shortest tier of the ladder; shorter remainders wait in the mixed topic."""

LONGEST_LADDER_TIER_MS = 86_400_000
"""Delay of the longest tier of the ladder; a record with a longer delay passes through it more than once."""

MAX_EXACT_TIERS = 16
"""A group whose policies have more distinct delays gets the ladder instead of one topic per delay."""

_HORIZON = 200
"""How many redeliveries of a policy, or of a layer of it, are examined for distinct delays."""


@dataclass(frozen=True, slots=True)
class TierSet:
    """The retry tiers of a group.

    ``delays_ms`` holds the delay of each tier, ascending and positive. ``mixed`` is whether there is a mixed topic,
    in which records with different remaining delays wait.
    """

    delays_ms: tuple[int, ...]
    mixed: bool

    def tier_for(self, remaining_ms: int) -> int | None:
        """Return the delay of the tier in which a record waits next; ``None`` for the mixed topic.

        With a mixed topic, that is the longest tier whose delay is at most ``remaining_ms``. The record waits for the
        remainder in shorter tiers, as in a hierarchical timing wheel, and never leaves a tier late.

        Without one, there is a tier of exactly this delay, unless the policy has changed since the delay was set.
        Then it is the next longer tier, which the record leaves when it is due; else the longest tier.

        Raises:
            ValueError: ``remaining_ms`` is 0 or less, so the record belongs into the ready topic.
            NoTierError: there is no tier.
        """
        if remaining_ms <= 0:
            raise ValueError(f"nothing remains to be waited for: {remaining_ms} ms")
        if not (self.mixed or self.delays_ms):
            raise NoTierError("there is no tier in which a record could wait")
        if self.mixed:
            index = bisect_right(self.delays_ms, remaining_ms)
            tier = self.delays_ms[index - 1] if index else None
            # A tier below the ladder only takes records with exactly its delay: a remainder would pass through it
            # again and again.
            return tier if tier is not None and (tier >= SHORTEST_LADDER_TIER_MS or tier == remaining_ms) else None
        index = bisect_left(self.delays_ms, remaining_ms)
        return self.delays_ms[min(index, len(self.delays_ms) - 1)]


def tier_set(entries: Iterable[PolicyEntry]) -> TierSet:
    """Return the tiers that the policies of a group need.

    A policy with few, known delays gets one tier for each of them. Where other delays can occur (collision avoidance,
    delays that a handler chooses, too many distinct delays), the group gets a ladder of tiers, each twice as long as
    the one before, up to the longest delay, and the mixed topic.
    """
    exact: set[int] = set()
    longest: int | None = None
    for entry in entries:
        delays = exact_delays(entry.redelivery_policy)
        if delays is None:
            longest = max(longest or 0, longest_delay(entry.redelivery_policy))
        else:
            exact |= delays
        if entry.maximum_handler_delay is not None and entry.maximum_handler_delay > 0:
            longest = max(longest or 0, entry.maximum_handler_delay)
    if len(exact) > MAX_EXACT_TIERS:
        longest = max(longest or 0, *exact)
        exact = set()
    if longest is None:
        return TierSet(tuple(sorted(exact)), mixed=False)
    return TierSet(tuple(sorted(exact | set(_ladder(longest)))), mixed=True)


def tiers_to_fill(needed: TierSet, existing: TierSet) -> TierSet:
    """Return the existing tiers to which a scheduler moves records.

    These are the needed ones: a retired tier is to become empty, and is deleted then. But while the ladder itself is
    retired, its records stay on it: tiers of exact delays would release them late. The same is true of the longer part
    of a ladder that has become shorter: its records would pass the longest needed tier hundreds of times.

    Args:
        needed: the tiers that the policies of the group need.
        existing: all tiers of the group.
    """
    mixed = needed.mixed and existing.mixed
    longest = max(needed.delays_ms, default=0)
    delays_ms = tuple(delay for delay in existing.delays_ms if delay in needed.delays_ms or (mixed and delay > longest))
    found = TierSet(delays_ms, mixed=mixed)
    return found if found.mixed or (delays_ms and not existing.mixed) else existing


def exact_delays(policy: RetryPolicy) -> set[int] | None:
    """Return the distinct positive delays of a policy in ms; ``None`` if they are random or too many."""
    if policy.randomised:
        return None
    delays: set[int] = set()
    # Of two layers the broker's first redelivery may come after hundreds of the client.
    for layer in policy.layers if isinstance(policy, LayeredRedelivery) else (policy,):
        limit = layer.max_deliveries
        redeliveries = _HORIZON if limit is None else max(0, min(limit - 1, _HORIZON))
        delays |= {delay for delay in islice(layer.delays_ms(), redeliveries) if delay > 0}
    return delays if len(delays) <= MAX_EXACT_TIERS else None


def longest_delay(policy: RetryPolicy) -> int:
    """Return an upper bound of a policy's delays in ms, at most :data:`LONGEST_LADDER_TIER_MS`."""
    return min(LONGEST_LADDER_TIER_MS, policy.longest_delay_ms(_HORIZON))


def _ladder(longest_ms: int) -> Iterable[int]:
    delay_ms = SHORTEST_LADDER_TIER_MS
    while delay_ms <= min(longest_ms, LONGEST_LADDER_TIER_MS):
        yield delay_ms
        delay_ms *= 2
