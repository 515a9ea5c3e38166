"""How long ActiveMQ Classic waits before each redelivery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from topology.classic.policy import NO_MAXIMUM, BackOffAlgorithm, RedeliveryPolicy
from topology.java_numbers import to_long


def delays(policy: RedeliveryPolicy, jitter: Iterable[float]) -> Iterator[int]:
    """Yield the delay before redelivery 1, 2, 3, ... in ms, for as long as it is asked.

    The chain always starts from the initial delay, and each later delay is computed from the one
    before it, random part included, so randomness compounds under exponential back-off. The first
    delay is neither randomised nor capped. Results may be negative where the policy makes them so
    (a negative delay means: at once).

    Args:
        policy: the policy of the record's destination.
        jitter: draws from [-1, 1), one for each redelivery after the first; only consumed by a
            randomised policy, and the chain ends when they do.

    Source: ``ActiveMQMessageConsumer.rollback`` and ``RedeliveryPolicy.getNextRedeliveryDelay``.
    """
    delay = policy.initial_redelivery_delay
    yield delay
    draws = iter(jitter)
    while True:
        delay = _step(policy, delay)
        if policy.randomised:
            draw = next(draws, None)
            if draw is None:
                return
            delay = to_long(delay + delay * (policy.collision_avoidance_factor * draw))
        yield delay


def redelivery_delay(policy: RedeliveryPolicy, redelivery: int, jitter: Iterable[float]) -> int:
    """The delay in ms (never negative) before redelivery number ``redelivery``, counted from 1.

    Raises:
        ValueError: ``redelivery`` is below 1, or the draws ended before the chain got there.
    """
    if redelivery < 1:
        msg = f"redeliveries count from 1, got {redelivery}"
        raise ValueError(msg)
    if not policy.randomised:
        return max(0, _fixed_delay(policy, redelivery))
    for delay in islice(delays(policy, jitter), redelivery - 1, None):
        return max(0, delay)
    msg = f"redelivery {redelivery} needs {redelivery - 1} draws"
    raise ValueError(msg)


def _fixed_delay(policy: RedeliveryPolicy, redelivery: int) -> int:
    """The same without randomness; stops at the fixed point, so attempt 1,000,000 costs no more than 60."""
    delay = policy.initial_redelivery_delay
    for _ in range(redelivery - 1):
        following = _step(policy, delay)
        if following == delay:
            break
        delay = following
    return delay


def _step(policy: RedeliveryPolicy, previous: int) -> int:
    """``getNextRedeliveryDelay`` without its random part."""
    if policy.algorithm is BackOffAlgorithm.ACTIVEMQ_5_8:
        if previous == 0:
            return policy.redelivery_delay
        multiply, otherwise = True, previous
    else:
        multiply, otherwise = previous > 0, policy.redelivery_delay
    if not (multiply and policy.use_exponential_back_off and policy.back_off_multiplier > 1):
        return otherwise
    following = to_long(previous * float(policy.back_off_multiplier))
    maximum = policy.maximum_redelivery_delay
    if maximum != NO_MAXIMUM and following > maximum:
        return max(maximum, policy.redelivery_delay)
    return following


def delay_range(policy: RedeliveryPolicy, redelivery: int) -> tuple[int, int]:
    """The shortest and the longest delay in ms before redelivery number ``redelivery``, from 1.

    Randomness compounds, so the range widens with the redeliveries. As :func:`delays`, it may be negative.
    """
    lowest = highest = policy.initial_redelivery_delay
    spread = abs(policy.collision_avoidance_factor) if policy.randomised else 0.0
    for _ in range(redelivery - 1):
        # A step rises with the delay before it, but begins anew after one that is not above 0.
        before = {lowest, highest} | ({0, 1} if lowest <= 0 < highest else set())
        steps = [_step(policy, delay) for delay in before]
        ends = [to_long(step * (1 + sign * spread)) for step in steps for sign in (-1, 1)]
        following = min(ends), max(ends)
        if following == (lowest, highest):
            break
        lowest, highest = following
    return lowest, highest
