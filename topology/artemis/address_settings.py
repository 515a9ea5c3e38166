"""What is configured for an address: Artemis's settings, every one under its own name.

Counting is as in :mod:`topology.policy`; ``max-delivery-attempts`` counts *deliveries*, where Classic
counts redeliveries. Delays are whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

NOT_SET = -1
"""``expiry-delay``, ``min-expiry-delay`` and ``max-expiry-delay``: they change nothing."""

_LONG_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressSettings:
    """The settings of one address, all layers merged. ``None`` for an address is: none.

    Values are taken as the broker takes them: it accepts negative delays and attempts.

    Source: the getters and defaults of ``AddressSettings`` 2.40.0.
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
        """Whether redeliveries wait at all; if not, every one comes at once."""
        return self.redelivery_delay > 0

    @property
    def randomised(self) -> bool:
        """Whether two records that fail alike can get different delays."""
        return self.scheduled and self.redelivery_collision_avoidance_factor > 0

    def exceeded(self, deliveries: int) -> bool:
        """Whether a record delivered ``deliveries`` times may not be delivered again.

        0 and every negative number of attempts mean no limit.

        Source: ``QueueImpl.checkRedelivery``.
        """
        return 0 < self.max_delivery_attempts <= deliveries

    def expiration_ms(self, expiration_ms: int, now_ms: int) -> int:
        """When a record expires (epoch ms, 0 = never) that itself says ``expiration_ms``.

        Source: ``PostOfficeImpl.applyExpiryDelay``; ``now_ms`` is when the record was sent.
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
"""The names of ``broker.xml`` -> the fields here."""


def merged(layers: list[dict[str, Any]]) -> AddressSettings:
    """The settings that layers give together, the most specific one first: field by field.

    Args:
        layers: by the names of ``broker.xml``; what a layer does not set is absent there.

    The default of ``max-redelivery-delay`` follows the merged ``redelivery-delay``: ten times as much.
    """
    found: dict[str, Any] = {}
    for layer in reversed(layers):
        found |= layer
    if "max-redelivery-delay" not in found:
        found["max-redelivery-delay"] = _long(10 * int(found.get("redelivery-delay", 0)))
    return AddressSettings(**{SETTING_NAMES[name]: value for name, value in found.items()})


def _long(value: int) -> int:
    """Java's ``long``: what does not fit goes round."""
    half = 1 << (_LONG_BITS - 1)
    return (value + half) % (2 * half) - half
