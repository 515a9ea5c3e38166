"""When something has expired: the one answer that workers, tools and the sweeper share.

A dead letter that has expired is hidden from everybody who asks :func:`has_expired`, wherever it stands in its
partition. It is removed later, when nothing that is kept stands before it, and under stricter rules
(:func:`fate_of`): hiding can be undone, removing cannot.
"""

from __future__ import annotations

from typing import NamedTuple

from topology.headers import ORIG_ADDRESS, ORIG_QUEUE, Headers, read_expiration


def has_expired(expiration_ms: int, now_ms: int) -> bool:
    """Whether a record with this ``JMSExpiration`` (epoch ms; 0 or less = never) has expired at ``now_ms``."""
    return 0 < expiration_ms <= now_ms


class Fate(NamedTuple):
    """What is to become of one record of a dead-letter topic."""

    expires_ms: int
    """From when on it may be removed (epoch ms); 0 = never."""

    ours: bool
    """Whether it is a dead letter of the group that asks; only those may be removed."""

    source: str
    """Its source topic as its headers have it, which is not checked; empty if they have none."""


def fate_of(headers: Headers, group: str, appended_ms: int, newest_ms: int) -> Fate:
    """Judge one record of a dead-letter topic.

    A worker whose clock is behind gives a dead letter too early an expiration, and too early an append time with it.
    That shows where a record with a later append time stands before it: the difference is added.

    Args:
        headers: of the record.
        group: the consumer group that asks.
        appended_ms: the record's own append time, by the clock of whoever wrote it.
        newest_ms: the latest append time among the records before it in its partition, 0 if there are none. The
            caller leaves out times that are still to come: they prove a fast clock, not a slow one.
    """
    values = dict(headers)
    expiration_ms = read_expiration(headers)
    behind_ms = max(0, newest_ms - appended_ms) if expiration_ms else 0
    return Fate(
        expires_ms=expiration_ms + behind_ms,
        ours=values.get(ORIG_QUEUE) == group.encode(),
        source=(values.get(ORIG_ADDRESS) or b"").decode(errors="replace"),
    )
