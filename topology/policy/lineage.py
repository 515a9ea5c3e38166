"""The identity of a record, and how often it has been delivered."""

from __future__ import annotations

from typing import NamedTuple


class Lineage(NamedTuple):
    """Where a record comes from and how often it was delivered; the same in source, retry and dead-letter records.

    ``address``, ``partition`` and ``offset`` identify the source record; ``address`` is its topic. ``timestamp_ms`` is
    the source record's timestamp (epoch ms). ``deliveries`` is the number of deliveries made, 0 before the first.
    ``expiration_ms`` is ``JMSExpiration`` (epoch ms, 0 = never). ``persistent`` is false if the header
    ``JMSDeliveryMode`` says that the record may be lost.
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
        """``topic-partition@offset`` of the source record."""
        return f"{self.address}-{self.partition}@{self.offset}"

    def delivered(self, deliveries: int) -> Lineage:
        """Return the lineage of the same record after ``deliveries`` deliveries."""
        address, partition, offset, timestamp_ms, _, expiration_ms, persistent = self  # _replace takes twice as long
        return Lineage(address, partition, offset, timestamp_ms, deliveries, expiration_ms, persistent)


def parse_message_id(message_id: str) -> tuple[str, int, int]:
    """Parse ``topic-partition@offset`` into the three of them.

    Raises:
        ValueError: the text does not have that form, or a number is negative.
    """
    topic_partition, at, offset = message_id.rpartition("@")
    address, dash, partition = topic_partition.rpartition("-")
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
