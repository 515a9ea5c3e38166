"""How long Artemis waits before each redelivery."""

from __future__ import annotations

import math
from collections.abc import Iterable

from topology.artemis.address_settings import AddressSettings
from topology.java_numbers import to_long


def calculated_delay(settings: AddressSettings, deliveries: int, draw: float = 0.0) -> int:
    """The delay in ms after delivery number ``deliveries`` failed; may be negative, as the broker's may.

    Base times multiplier to the power of the redeliveries before, cut to whole milliseconds once and not
    from delay to delay; then the random part; then the maximum, so a capped delay can only be shortened.

    Args:
        settings: of the record's address.
        deliveries: made so far; below 1 counts as 1.
        draw: from (-1, 1), how far the random part goes.

    Source: ``QueueImpl.calculateRedeliveryDelay``.
    """
    delay = to_long(settings.redelivery_delay * _power(settings.redelivery_delay_multiplier, max(deliveries, 1) - 1))
    if settings.redelivery_collision_avoidance_factor > 0:
        delay = to_long(delay + delay * (settings.redelivery_collision_avoidance_factor * draw))
    return min(delay, settings.max_redelivery_delay)


def redelivery_delay(settings: AddressSettings, redelivery: int, jitter: Iterable[float]) -> int:
    """The delay in ms (never negative) before redelivery number ``redelivery``, counted from 1.

    Raises:
        ValueError: ``redelivery`` is below 1, or the settings are random and there is no draw.
    """
    if redelivery < 1:
        raise ValueError(f"redeliveries count from 1, got {redelivery}")
    if not settings.scheduled:
        return 0
    draw = 0.0
    if settings.randomised:
        found = next(iter(jitter), None)
        if found is None:
            raise ValueError("a randomised delay needs a draw")
        draw = found
    return max(0, calculated_delay(settings, redelivery, draw))


def _power(base: float, exponent: int) -> float:
    """As Java computes it: too large is infinite."""
    try:
        return float(base**exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 else math.inf
