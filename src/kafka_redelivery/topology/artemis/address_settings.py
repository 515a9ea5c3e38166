"""The settings of an Artemis address, each under its own name.

:mod:`topology.policy.entry` defines how deliveries and redeliveries are counted. ``max-delivery-attempts`` counts
*deliveries*, where Classic counts redeliveries. All delays are whole milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from kafka_redelivery.topology.java.numbers import to_long

NOT_SET = -1
"""The value of ``expiry-delay``, ``min-expiry-delay`` and ``max-expiry-delay`` that changes nothing."""

_LONG_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressSettings:
    """The settings of one address after all matching address settings are merged.

    A record is delivered at most ``max_delivery_attempts`` times; 0 or less means no limit. The delay before
    redelivery ``k`` is, in ms::

        delay(k) = redelivery_delay * redelivery_delay_multiplier ** (k - 1)
        delay(k) = delay(k) + delay(k) * redelivery_collision_avoidance_factor * draw
        delay(k) = min(delay(k), max_redelivery_delay)

    ``draw`` is uniform in (-1, 1). Each delay is computed from the first one and cut to a whole number once, unlike
    Classic's, where each starts from the one before it. The maximum is applied last, so the random part can only
    shorten a delay that is capped. A ``redelivery_delay`` of 0 or less means that every redelivery is immediate.

    Like the broker, the class accepts negative delays and attempts. An address of ``None`` means that there is none.

    Source: the getters and defaults of ``AddressSettings`` 2.40.0, and ``QueueImpl.calculateRedeliveryDelay``.
    """

    max_delivery_attempts: int = 10
    redelivery_delay: int = 0
    redelivery_delay_multiplier: float = 1.0
    redelivery_collision_avoidance_factor: float = 0.0
    max_redelivery_delay: int = 0
    dead_letter_address: str | None = None
    expiry_address: str | None = None
    expiry_delay: int = NOT_SET
    min_expiry_delay: int = NOT_SET
    max_expiry_delay: int = NOT_SET
    no_expiry: bool = False
    auto_create_dead_letter_resources: bool = False
    dead_letter_queue_prefix: str = "DLQ."
    dead_letter_queue_suffix: str = ""
    auto_create_expiry_resources: bool = False
    expiry_queue_prefix: str = "EXP."
    expiry_queue_suffix: str = ""
    send_to_dla_on_no_route: bool = False

    @property
    def scheduled(self) -> bool:
        """Whether redeliveries are delayed at all; if not, each one is immediate."""
        return self.redelivery_delay > 0

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.scheduled and self.redelivery_collision_avoidance_factor > 0

    @property
    def max_deliveries(self) -> int | None:
        """How often a record that always fails is delivered; ``None`` if there is no limit."""
        return self.max_delivery_attempts if self.max_delivery_attempts > 0 else None

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record that was delivered ``deliveries`` times may not be delivered again.

        Source: ``QueueImpl.checkRedelivery``.
        """
        return 0 < self.max_delivery_attempts <= deliveries

    def delay_ms(self, redelivery: int, jitter: Iterable[float]) -> int:
        """Return the delay in ms (0 or more) before redelivery number ``redelivery``, counted from 1.

        Args:
            redelivery: the number of the redelivery.
            jitter: draws from [-1, 1); a randomised policy uses the first one.

        Raises:
            ValueError: ``redelivery`` is below 1, or a randomised policy has no draw.
        """
        if redelivery < 1:
            raise ValueError(f"redeliveries count from 1, got {redelivery}")
        if not self.scheduled:
            return 0
        draw = 0.0
        if self.randomised:
            first = next(iter(jitter), None)
            if first is None:
                raise ValueError("a randomised delay needs a draw")
            draw = first
        return max(0, self.calculated_delay_ms(redelivery, draw))

    def calculated_delay_ms(self, deliveries: int, draw: float = 0.0) -> int:
        """Return the delay in ms that the broker calculates after failed delivery number ``deliveries``.

        The result can be negative, and it does not take into account whether redeliveries are delayed at all.

        Args:
            deliveries: deliveries made so far; below 1 counts as 1.
            draw: a number from (-1, 1) for the random part.

        Source: ``QueueImpl.calculateRedeliveryDelay``.
        """
        delay = to_long(self.redelivery_delay * _power(self.redelivery_delay_multiplier, max(deliveries, 1) - 1))
        if self.redelivery_collision_avoidance_factor > 0:
            delay = to_long(delay + delay * (self.redelivery_collision_avoidance_factor * draw))
        return min(delay, self.max_redelivery_delay)

    def delays_ms(self) -> Iterator[int]:
        """Yield the delays in ms without their random part, without end; they may be negative."""
        for redelivery in count(1):
            yield self.calculated_delay_ms(redelivery) if self.scheduled else 0

    def delay_range_ms(self, redelivery: int) -> tuple[int, int]:
        """Return the shortest and the longest delay in ms that a redelivery can have; both may be negative."""
        if not self.scheduled:
            return 0, 0
        ends = [self.calculated_delay_ms(redelivery, draw) for draw in (-1.0, 1.0)]
        return min(ends), max(ends)

    def longest_delay_ms(self, horizon: int) -> int:
        """Return the longest delay in ms before the first ``horizon`` redeliveries, 0 if there is none."""
        limit = self.max_deliveries
        redeliveries = horizon if limit is None else min(limit - 1, horizon)
        return max((self.delay_range_ms(redelivery)[1] for redelivery in range(1, redeliveries + 1)), default=0)

    def expiration_ms(self, expiration_ms: int, now_ms: int) -> int:
        """Return when a record expires (epoch ms, 0 = never).

        Args:
            expiration_ms: the record's own expiration (epoch ms, 0 = never).
            now_ms: when the record was sent (epoch ms).

        Source: ``PostOfficeImpl.applyExpiryDelay``.
        """
        if self.no_expiry:
            return 0
        lowest, highest = self.min_expiry_delay, self.max_expiry_delay
        if expiration_ms == 0:
            if self.expiry_delay >= 0:
                return now_ms + self.expiry_delay
            given = lowest if highest == NOT_SET else highest
            return 0 if given == NOT_SET else now_ms + given
        if self.expiry_delay >= 0:
            return expiration_ms
        if highest != NOT_SET and expiration_ms > now_ms + highest:
            return now_ms + highest
        if lowest != NOT_SET and expiration_ms < now_ms + lowest:
            return now_ms + lowest
        return expiration_ms


SETTING_NAMES = {field.name.replace("_", "-"): field.name for field in fields(AddressSettings)}
"""The name of each setting in ``broker.xml``, and of the field here."""


def merged(layers: list[dict[str, Any]]) -> AddressSettings:
    """Merge the address settings that match an address, field by field.

    The default of ``max-redelivery-delay`` follows the merged ``redelivery-delay``: ten times as much.

    Args:
        layers: the settings by their names in ``broker.xml``, the most specific match first. A setting that a layer
            does not contain is taken from the next layer.
    """
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values |= layer
    if "max-redelivery-delay" not in values:
        values["max-redelivery-delay"] = _long(10 * int(values.get("redelivery-delay", 0)))
    return AddressSettings(**{SETTING_NAMES[name]: value for name, value in values.items()})


def _power(base: float, exponent: int) -> float:
    """``Math.pow``: a result that is too large is infinite."""
    try:
        return float(base) ** exponent  # a whole number would be raised to a whole number of any length
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 else math.inf


def _long(value: int) -> int:
    """Java's ``long``: a value that does not fit wraps around."""
    half = 1 << (_LONG_BITS - 1)
    return (value + half) % (2 * half) - half
