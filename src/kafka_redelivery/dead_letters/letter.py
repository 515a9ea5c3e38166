"""A dead letter as people select it: where it is, where it came from, why it died, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_redelivery.topology.policy.decision import place_of
from kafka_redelivery.topology.policy.fingerprint import kind_of
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_COUNT,
    FAILURE_CAUSE,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    REDRIVE,
    Headers,
    RedriveMark,
    parse_mark,
    read_failure_cause,
    read_letter_expiration,
)

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import LetterRow
    from kafka_redelivery.dead_letters.where.where import (
        Where,  # with a parser, which takes a tenth of a second to import
    )


class LetterState(StrEnum):
    """The state of a dead letter; ``DISCARDED`` also of one that a person has set aside."""

    WAITING = "waiting"
    """No job has it."""

    IN_JOB = "in_job"
    """A job has it and has not sent it yet."""

    SENT = "sent"
    """It was sent, and its outcome is not known yet. Or the records of its slice contradict each other, or one of them
    cannot be read."""

    RECOVERED = "recovered"
    DEAD_AGAIN = "dead_again"
    DISCARDED = "discarded"
    EXPIRED = "expired"
    PARKED = "parked"
    REFUSED = "refused"
    """It could not be sent."""

    GONE = "gone"
    """The job did not find it: it was deleted before it could be sent. A later job may have it if it is there."""


UNKNOWN_OUTCOME = frozenset({LetterState.SENT, LetterState.GONE})
"""States in which a letter may stay for ever: no one reports what became of it. A person may set it aside."""


FREE = frozenset({LetterState.WAITING, LetterState.REFUSED})
"""States in which a new job may have a letter that was never sent."""


class Standing(NamedTuple):
    """The state of a letter, by the last job that has or had it."""

    state: LetterState = LetterState.WAITING
    job: str | None = None
    sends: int = 0
    """How often it was sent."""

    reason: str = ""
    """Why it was refused."""

    def may_be_sent(self, *, again: bool) -> bool:
        """Whether a new job may have it. ``again``: also if it was sent before, set aside, or not found."""
        if again:
            return self.state is not LetterState.IN_JOB
        return self.state in FREE and not self.sends


class Letter(NamedTuple):
    """A dead letter. What its headers do not say is empty."""

    topic: str
    partition: int
    offset: int
    died_ms: int
    key: bytes | None
    headers: Mapping[str, bytes | None]
    """Of a name that is given twice, the last."""

    group: str
    origin: str
    source_id: str
    """``topic-partition@offset`` of the source record."""

    deliveries: str
    reason: str
    exception: str
    message: str
    expiration_ms: int
    mark: RedriveMark | None
    """Of a record that was sent again before."""

    class_only: bool = False
    """Whether its fingerprint is that of class and place alone, as with ``failureDetails: class-only``."""

    no_content: bool = False
    """Whether another system has written it without what it had read. Our own letters always have that."""

    system: str | None = None
    """The other system that has written it; empty if it is not recognised, and several names if several claim it."""

    frames: tuple[str, ...] | None = None
    """The last frames of the user's code, as in :class:`FailureCause`."""

    @property
    def place(self) -> str | None:
        """The place in the code that failed, ``module.function``; ``None`` if its header names no frames."""
        return None if self.frames is None else place_of(self.frames)

    @property
    def id(self) -> str:
        """``topic-partition@offset`` of the dead letter itself."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def redrives(self) -> int:
        """How often the record had been sent again when it died."""
        return self.mark.number if self.mark else 0

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the failure, as archive and report have it; empty if the headers have no cause."""
        if not (self.reason or self.exception or self.message):
            return ""
        return kind_of(self.exception, "" if self.class_only else self.message, self.place)[1]


def letter_document(letter: Letter | LetterRow, standing: Standing | LetterRow, key: str | None) -> dict[str, Any]:
    """Return a letter as plain data for JSON, without its value.

    Args:
        letter: the letter.
        standing: where it stands.
        key: its key, as far as it is shown.
    """
    return {
        "id": letter.id,
        "sourceId": letter.source_id or "",
        "group": letter.group or "",
        "origin": letter.origin or "",
        **({} if letter.system is None else {"system": letter.system}),
        "diedMs": letter.died_ms,
        "key": key,
        "reason": letter.reason or "",
        "exception": letter.exception or "",
        "message": letter.message or "",
        "place": letter.place or None,
        "fingerprint": letter.fingerprint or "",
        "deliveries": letter.deliveries or "",
        "expiresMs": letter.expiration_ms or None,
        "redrives": letter.redrives,
        "state": standing.state,
        "job": standing.job,
        "sends": standing.sends,
    }


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
    cause = read_failure_cause(values.get(FAILURE_CAUSE))
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
        cause.reason,
        cause.exception,
        cause.message,
        read_letter_expiration(headers, cause.reason),
        parse_mark(_text(values.get(REDRIVE))),
        class_only,
        frames=cause.frames,
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

    @property
    def asks_for_values(self) -> bool:
        """Whether values are compared with something."""
        return self.where is not None and "value" in self.where.columns

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


class By(StrEnum):
    """What letters are grouped by."""

    ORIGIN = "origin"
    REASON = "reason"
    EXCEPTION = "exception"
    FINGERPRINT = "fingerprint"
    STATE = "state"
    GROUP = "group"
    TOPIC = "topic"
    ATTEMPTS = "attempts"
    JOB = "job"


DEFAULT_BY: Final = (By.ORIGIN, By.REASON, By.FINGERPRINT)
