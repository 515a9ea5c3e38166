"""Which partition Java clients choose for a key."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among ``partitions``.

    Source: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``.
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    found = (_SEED ^ len(data)) & _MASK
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        word = ((word ^ (word >> 24)) * _M) & _MASK
        found = ((found * _M) & _MASK) ^ word
    if rest := data[whole:]:
        found = ((found ^ int.from_bytes(rest, "little")) * _M) & _MASK
    found = ((found ^ (found >> 13)) * _M) & _MASK
    return found ^ (found >> 15)
