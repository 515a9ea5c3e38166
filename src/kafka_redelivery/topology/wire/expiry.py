"""Expiration of records and dead letters, decided alike by workers, tools and the sweeper.

Tools hide a dead letter as soon as it :func:`has_expired`, wherever it is in its partition. The sweeper deletes it
later, once no record before it in the partition is kept, and by the stricter rules of :func:`fate_of`: hiding can be
undone, deleting cannot.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_redelivery.topology.wire.headers import ORIG_ADDRESS, ORIG_QUEUE, Headers, read_expiration


def has_expired(expiration_ms: int, now_ms: int) -> bool:
    """Whether a record with this ``JMSExpiration`` (epoch ms; 0 or less = never) has expired at ``now_ms``."""
    return 0 < expiration_ms <= now_ms


class Fate(NamedTuple):
    """What the sweeper does with one record of a dead-letter topic."""

    expires_ms: int
    """The time from which the record may be removed (epoch ms); 0 = never."""

    own_group: bool
    """Whether it is a dead letter of the sweeper's group; no other record may be removed."""

    source: str
    """The source topic in its headers, unchecked; empty if there is none."""


def fate_of(headers: Headers, group: str, appended_ms: int, newest_ms: int) -> Fate:
    """Decide what the sweeper does with one record of a dead-letter topic.

    A worker whose clock is slow gives a dead letter an expiration that is too early, and a timestamp that is too early
    by the same amount. A record before it with a later timestamp reveals this, and the difference is added to the
    expiration.

    Args:
        headers: the record's headers.
        group: the sweeper's consumer group.
        appended_ms: the record's timestamp (epoch ms), by the clock of the process that wrote it.
        newest_ms: the latest timestamp of the records before it in its partition (epoch ms); 0 if there are none. The
            caller leaves out timestamps in the future, which come from a fast clock.
    """
    values = dict(headers)
    expiration_ms = read_expiration(headers)
    behind_ms = max(0, newest_ms - appended_ms) if expiration_ms else 0
    return Fate(
        expires_ms=expiration_ms + behind_ms,
        own_group=values.get(ORIG_QUEUE) == group.encode(),
        source=(values.get(ORIG_ADDRESS) or b"").decode(errors="replace"),
    )
