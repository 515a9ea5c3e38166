"""Where a record comes from and how often it has been delivered."""

from __future__ import annotations

from typing import NamedTuple


class Lineage(NamedTuple):
    """The identity of a record across all its hops.

    ``address``, ``partition`` and ``offset`` name the source record; ``timestamp_ms`` is that record's
    own timestamp (epoch ms). ``deliveries`` counts deliveries made, from 0. ``expiration_ms`` is
    ``JMSExpiration`` (epoch ms, 0 = never). ``persistent`` is false for a record that says by its header
    ``JMSDeliveryMode`` that it may be lost.
    """

    address: str
    partition: int
    offset: int
    timestamp_ms: int
    deliveries: int = 0
    expiration_ms: int = 0
    persistent: bool = True

    @property
    def message_id(self) -> str:
        """``topic-partition@offset`` of the first delivery."""
        return f"{self.address}-{self.partition}@{self.offset}"

    def delivered(self, deliveries: int) -> Lineage:
        """The same record with ``deliveries`` made."""
        return self._replace(deliveries=deliveries)


def parse_message_id(message_id: str) -> tuple[str, int, int]:
    """Take ``topic-partition@offset`` apart.

    Raises:
        ValueError: it does not have that form, or a number is negative.
    """
    place, at, offset = message_id.rpartition("@")
    address, dash, partition = place.rpartition("-")
    if not (
        at
        and dash
        and address
        and partition.isascii()
        and partition.isdigit()
        and offset.isascii()
        and offset.isdigit()
    ):
        msg = f"not a message id of the form topic-partition@offset: {message_id[:300]!r}"
        raise ValueError(msg)
    return address, int(partition), int(offset)
