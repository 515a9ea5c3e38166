"""Karafka: the enhanced dead letter queue, which adds headers. The plain one adds none.

=========================  =====================================================
header                     content, all text
=========================  =====================================================
``source_topic``           the topic that the consumer reads
``source_partition``       a decimal number
``source_offset``          a decimal number
``source_consumer_group``  the consumer group
``source_attempts``        a decimal number: deliveries so far
``source_trace_id``        an id in Karafka's own logs
=========================  =====================================================

Before Karafka 2.5 the names began with ``original_``. The headers do not say why a record died.

Source: https://karafka.io/docs/Pro-Enhanced-Dead-Letter-Queue, https://karafka.io/docs/Upgrades-2.5
"""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import (
    FAILED,
    Failure,
    System,
    Values,
    having,
    number,
    partition_of,
    text,
)

_NAMES: Final = ("topic", "partition", "offset", "consumer_group", "attempts", "trace_id", "key")


def _read(values: Values, prefix: str) -> Failure:
    return Failure(
        topic=text(values.get(f"{prefix}topic")),
        partition=partition_of(number(values.get(f"{prefix}partition"))),
        offset=number(values.get(f"{prefix}offset")),
        group=text(values.get(f"{prefix}consumer_group")),
        attempts=number(values.get(f"{prefix}attempts")),
        reason=FAILED,
    )


def _system(prefix: str) -> System:
    return System(
        name="karafka",
        recognises=having(*(f"{prefix}{name}" for name in ("topic", "partition", "offset", "consumer_group"))),
        read=lambda values: _read(values, prefix),
        removed=tuple(f"{prefix}{name}" for name in _NAMES),
        keeps_content=True,
    )


KARAFKA: Final = _system("source_")
KARAFKA_BEFORE_2_5: Final = _system("original_")
