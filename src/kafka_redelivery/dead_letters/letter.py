"""A dead letter as people select it: where it is, where it came from, and why it died."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.topology.policy.fingerprint import fingerprint, normalise
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_COUNT,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    REDRIVE,
    Headers,
    read_expiration,
    read_failure_cause,
)
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark, parse_mark

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.where.where import (
        Where,  # with a parser, which takes a tenth of a second to import
    )


class Letter(NamedTuple):
    """A dead letter. What its headers do not say is empty."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: Mapping[str, bytes | None]
    """Of a name that is given twice, the last."""

    group: str
    origin: str
    message_id: str
    """``topic-partition@offset`` of the source record."""

    deliveries: str
    reason: str
    exception: str
    message: str
    expiration_ms: int
    mark: RedriveMark | None
    """Of a record that was sent again before."""

    class_only: bool = False
    """Whether its fingerprint is that of the exception's class alone, as with ``failureDetails: class-only``."""

    no_content: bool = False
    """Whether another system has written it without what it had read. Our own letters always have that."""

    @property
    def id(self) -> str:
        """``topic-partition@offset`` of the dead letter itself."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the failure, as archive and report have it; empty if the headers have no cause."""
        if not (self.reason or self.exception or self.message):
            return ""
        return fingerprint(self.exception, "" if self.class_only else normalise(self.message))


def letter_of(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    headers: Headers,
    *,
    class_only: bool = False,
) -> Letter:
    """Return a record of a dead-letter topic as a letter."""
    values = dict(headers)
    return Letter(
        topic,
        partition,
        offset,
        timestamp_ms,
        key,
        values,
        _text(values.get(ORIG_QUEUE)),
        _text(values.get(ORIG_ADDRESS)),
        _text(values.get(ORIG_MESSAGE_ID)),
        _text(values.get(DELIVERY_COUNT)),
        *read_failure_cause(values.get(FAILURE_CAUSE)),
        read_expiration(headers),
        parse_mark(_text(values.get(REDRIVE))),
        class_only,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which dead letters are meant: those that meet everything that is given. Patterns may have ``*`` and ``?``."""

    origins: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    states: tuple[LetterState, ...] = ()
    ids: frozenset[str] = frozenset()
    """Of the letters themselves, or of their source records."""

    letters_only: bool = False
    """Whether ``ids`` are those of letters alone."""

    where: Where | None = None

    def document(self) -> dict[str, Any]:
        """Return what was given as plain data for JSON, without keys, header values and constants of ``where``.

        These may be personal data.
        """
        given = {
            "origin": list(self.origins),
            "reason": list(self.reasons),
            "exception": list(self.exceptions),
            "fingerprint": list(self.fingerprints),
            "keys": len(self.keys),
            "header": [name for name, _ in self.headers],
            "sinceMs": self.since_ms,
            "untilMs": self.until_ms,
            "state": list(self.states),
            "ids": len(self.ids),
            "where": [] if self.where is None else sorted(self.where.columns) or ["no column"],
        }
        return {name: value for name, value in given.items() if value not in (None, [], 0)}


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
