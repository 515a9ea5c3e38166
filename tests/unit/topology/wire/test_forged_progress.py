"""Metadata with a right checksum that this project never writes: who may commit for the group can write it."""

import base64
import time
import zlib
from collections.abc import Iterable

import pytest

from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, WaitingRecord

LONG_MAX = 2**63 - 1


def _packed(numbers: Iterable[int]) -> bytes:
    packed = bytearray()
    for number in numbers:
        left = number
        while left > 0x7F:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)
    return bytes(packed)


def forged(end: int, waiting: Iterable[tuple[int, int, int]], runs: Iterable[int] = ()) -> str:
    """Return metadata.

    Args:
        end: how far the partition was read, from the committed offset.
        waiting: records that wait in place: distance, deliveries, due time.
        runs: distance and length of each run of outstanding offsets.
    """
    body = _packed(runs)
    packed = b"\0" + _packed([end, len(body)]) + body + _packed(number for record in waiting for number in record)
    return "p1:" + base64.b64encode(packed + zlib.crc32(packed).to_bytes(4, "big")).decode()


def test_the_largest_numbers_are_read() -> None:
    """A record may be due at any time that Kafka can say."""
    assert Progress.restore(7, forged(20, [(5, 3, LONG_MAX)])).waiting == {12: WaitingRecord(3, LONG_MAX)}


@pytest.mark.parametrize("place", range(4))
def test_a_number_beyond_those_of_kafka_is_refused(place: int) -> None:
    """It would end the process later, where a time or an offset is computed from it."""
    numbers = [20, 5, 3, 1]
    numbers[place] = 2**64
    with pytest.raises(ProgressError, match="damaged"):
        Progress.restore(7, forged(numbers[0], [(numbers[1], numbers[2], numbers[3])]))


def test_an_offset_beyond_the_last_one_of_kafka_is_refused() -> None:
    """No record can be there."""
    for text in (forged(LONG_MAX, []), forged(20, [], [LONG_MAX, 0])):
        with pytest.raises(ProgressError, match="damaged"):
            Progress.restore(7, text)


def test_a_text_longer_than_a_commit_is_refused_at_once() -> None:
    """A control record may have one of a megabyte, which would take a minute."""
    text = forged(2**40, ((distance, 1, 1) for distance in range(100_000)))
    assert len(text) > 100 * METADATA_LIMIT
    began = time.monotonic()
    with pytest.raises(ProgressError, match="damaged"):
        Progress.restore(7, text)
    assert time.monotonic() - began < 2
