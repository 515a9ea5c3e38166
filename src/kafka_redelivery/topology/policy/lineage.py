"""The identity of a record, and how often it has been delivered."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafka_redelivery.topology.java.numbers import LONG_MAX

_match_message_id: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,10})@([0-9]{1,19})").fullmatch
_MAX_PARTITION: Final = 2**31 - 1

IMPORTED_OFFSETS: Final = 2**62
"""An imported message of ActiveMQ has no offset in a source. It gets one from here on, as no record of Kafka ever will.
"""


class Lineage(NamedTuple):
    """Where a record comes from and how often it was delivered; the same in source, retry and dead-letter records.

    ``address``, ``partition`` and ``offset`` identify the source record; ``address`` is its topic. ``timestamp_ms`` is
    the source record's timestamp (epoch ms). ``deliveries`` is the number of deliveries made, 0 before the first.
    ``expiration_ms`` is ``JMSExpiration`` (epoch ms, 0 = never). ``persistent`` is false if the header
    ``JMSDeliveryMode`` says that the record may be lost. ``redrive`` is the mark of a record that was sent again from a
    dead-letter topic, empty on any other.
    """

    address: str
    partition: int
    offset: int
    timestamp_ms: int
    deliveries: int = 0
    expiration_ms: int = 0
    persistent: bool = True
    redrive: str = ""

    @property
    def message_id(self) -> str:
        """``topic-partition@offset`` of the source record."""
        return f"{self.address}-{self.partition}@{self.offset}"

    def delivered(self, deliveries: int) -> Lineage:
        """Return the lineage of the same record after ``deliveries`` deliveries."""
        # _replace takes twice as long
        address, partition, offset, timestamp_ms, _, expiration_ms, persistent, redrive = self
        return Lineage(address, partition, offset, timestamp_ms, deliveries, expiration_ms, persistent, redrive)


def parse_message_id(message_id: str) -> tuple[str, int, int]:
    """Parse ``topic-partition@offset`` into the three of them.

    Topic, partition and offset are such as Kafka allows. So a header that another program has written makes neither a
    dead letter nor a journal record larger than its topic takes.

    Raises:
        ValueError: the text does not have that form.
    """
    found = _match_message_id(message_id)
    if found is not None:
        address, number, place = found.groups()
        partition, offset = int(number), int(place)
        if partition <= _MAX_PARTITION and offset <= LONG_MAX:
            return address, partition, offset
    raise ValueError(f"not a message id of the form topic-partition@offset: {message_id[:300]!r}")
