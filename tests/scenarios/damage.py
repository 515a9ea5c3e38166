"""Damage to the records that a broker has stored."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

Damage = Literal["value", "length", "offset"]

_LENGTH_AT = 8
_LAST_OFFSET_DELTA_AT = 23
_PREFIX = 12
"""Bytes of a batch that its length does not count."""


@contextmanager
def damaged(kafka: EmbeddedKafka, topic: str, number: int, offset: int, what: Damage) -> Iterator[None]:
    """Damage the batch that holds an offset while the block runs: the last byte of its records, or its length.

    With ``offset``, its first offset is damaged as well, which its checksum does not cover: it is higher by two.

    A broker neither keeps records in memory nor verifies them when they are fetched, so it need not be restarted.
    """
    log = kafka.log.parent / "data" / f"{topic}-{number}" / f"{0:020}.log"
    stored = log.read_bytes()
    start = 0
    while True:
        (base,) = struct.unpack_from(">q", stored, start)
        (length,) = struct.unpack_from(">i", stored, start + _LENGTH_AT)
        (delta,) = struct.unpack_from(">i", stored, start + _LAST_OFFSET_DELTA_AT)
        end = start + _PREFIX + length
        if base + delta >= offset:
            break
        start = end
    changes = {start + _LENGTH_AT: bytes(4)} if what == "length" else {end - 1: bytes([stored[end - 1] ^ 1])}
    if what == "offset":
        changes[start] = struct.pack(">q", base + 2)
    with log.open("r+b", buffering=0) as segment:

        def write(bytes_at: Mapping[int, bytes]) -> None:
            for at, new in bytes_at.items():
                segment.seek(at)
                segment.write(new)

        write(changes)
        try:
            yield
        finally:
            write({at: stored[at : at + len(new)] for at, new in changes.items()})
