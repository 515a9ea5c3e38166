"""Any other system: a person says which header has what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import (
    Failure,
    System,
    Values,
    binary_number,
    having,
    number,
    partition_of,
    text,
)

FIELDS: Final = ("topic", "partition", "offset", "group", "attempts", "reason", "exception", "message")
"""What can be mapped."""


def mapped(headers: Mapping[str, str]) -> System:
    """Return the system whose letters have these headers.

    Numbers are decimal, or big-endian.

    Args:
        headers: the header of each field of :data:`FIELDS` that there is.
    """

    def value(values: Values, field: str) -> bytes | None:
        return values.get(headers.get(field, ""))

    def whole(values: Values, field: str) -> int | None:
        found = number(value(values, field))
        return binary_number(value(values, field)) if found is None else found

    def read(values: Values) -> Failure:
        return Failure(
            topic=text(value(values, "topic")),
            partition=partition_of(whole(values, "partition")),
            offset=whole(values, "offset"),
            group=text(value(values, "group")),
            attempts=whole(values, "attempts"),
            reason=text(value(values, "reason")),
            exception=text(value(values, "exception")),
            message=text(value(values, "message")),
        )

    return System(name="mapped", recognises=having(), read=read, removed=tuple(headers.values()))
