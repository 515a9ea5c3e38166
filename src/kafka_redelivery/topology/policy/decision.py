"""What happens to a record after a delivery: acknowledge, retry, dead-letter, discard or halt.

Workers, schedulers and the test kit all call :func:`decide`. It is a pure function: clock and randomness are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, assert_never

from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.policy.lineage import Lineage


class FailureKind(StrEnum):
    """Why a delivery failed."""

    RAISED = "raised"
    """The handler raised an exception. ActiveMQ calls this a rollback."""

    REDELIVER = "redeliver"
    """The handler raised ``Redeliver``. ActiveMQ calls this a recover."""

    DEADLINE = "deadline"
    """The handler did not return before its deadline. ActiveMQ calls this a client time-out."""

    CLOSED = "closed"
    """The worker died or closed before it committed the record."""

    DIED = "died"
    """The process that runs the handler died; the worker did not."""

    EXPIRED = "expired"
    """The record had expired (``JMSExpiration``) before the delivery."""

    UNDECODABLE = "undecodable"
    """The codec could not decode the record, so no handler got it."""

    INVALID_VALUE = "invalid_value"
    """The decoded value does not fit the type that the handler takes, so no handler got it."""

    REJECTED = "rejected"
    """Not retryable: the handler raised ``Reject``, or an exception of a class that is not retried."""

    EXHAUSTED = "exhausted"
    """The record had already had its last delivery when it was fetched."""

    BAD_HEADERS = "bad_headers"
    """The record's headers cannot be read: a name is not UTF-8, or the lineage of a retry record is damaged."""

    UNDELIVERABLE = "undeliverable"
    """The retry record can be written nowhere.

    The broker refuses it permanently (too large, no such partition), or its source is not configured and has no ready
    topic.
    """

    OPERATOR = "operator"
    """An operator has taken the record out of a tier; see `redelivery waiting dead-letter`."""

    FILTERED = "filtered"
    """A transformation of DataFrames has left no row of the record, and such records are to be discarded."""

    UNAVAILABLE = "unavailable"
    """Something that the handler depends on is away. The record waits, uncounted; nothing is decided about it."""

    CRITICAL = "critical"
    """The worker cannot go on, and not because of the record: out of memory, ``SystemExit``, an error in the slot."""


NOT_DELIVERED = frozenset(
    {
        FailureKind.EXPIRED,
        FailureKind.EXHAUSTED,
        FailureKind.UNDECODABLE,
        FailureKind.INVALID_VALUE,
        FailureKind.BAD_HEADERS,
        FailureKind.UNDELIVERABLE,
        FailureKind.OPERATOR,
        FailureKind.UNAVAILABLE,
    }
)
"""Failures that do not count as deliveries.

The handler was not called, except before ``UNDELIVERABLE``: there the broker refused the retry record of a delivery.
"""


class AckType(IntEnum):
    """ActiveMQ's acknowledgement types, used as labels of decisions and metrics.

    Source: the constants of ``org.apache.activemq.command.MessageAck``.
    """

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class Reason(StrEnum):
    """Why a record was dead-lettered or discarded; part of the wire format."""

    REDELIVERIES_EXCEEDED = "redeliveries_exceeded"
    REJECTED = "rejected"
    UNDECODABLE = "undecodable"
    INVALID_VALUE = "invalid_value"
    """Its value does not fit the type that the handler takes."""

    EXPIRED = "expired"
    UNDELIVERABLE = "undeliverable"
    """Its retry record could not be written: refused by the broker, or its source is not configured and has no ready
    topic."""

    BAD_HEADERS = "bad_headers"
    """Its headers cannot be read: a name is not UTF-8, or the lineage of a retry record is damaged."""

    OPERATOR = "operator"
    """An operator did not let it wait for its next delivery. ActiveMQ has no such reason."""

    CLIENT_DIED = "client_died"
    """Its last delivery killed the worker or the process that ran the handler."""

    DUPLICATE = "duplicate"
    """Discarded because it has been dead-lettered before (``enableAudit``)."""

    FILTERED = "filtered"
    """Discarded because a transformation of DataFrames has left no row of it (``on_missing="discard"``)."""


NEVER_DEAD: Final = frozenset({Reason.DUPLICATE, Reason.FILTERED})
"""The reasons of which no dead letter has one."""


class Raised(NamedTuple):
    """An exception in a chain: the name of its class, its text, and file, line and function of each frame."""

    exception: str
    message: str
    frames: tuple[tuple[str, int, str], ...]


class Failure(NamedTuple):
    """A failed delivery.

    ``exception`` is the name of the exception's class and ``message`` its text. ``after_ms`` is the delay in ms that
    the handler asked for; ``None`` = the policy's delay. ``dependency`` is what is away, and ``key_only`` whether only
    records of the same key need it. ``frames`` are the last ones of the user's own code, ``module.function:line``, the
    innermost last. ``trace`` is file, line and function of all frames, and ``causes`` are the exceptions that
    led to it. ``span`` is the OpenTelemetry span of the call, in the form of W3C's ``traceparent``; empty if there is
    none.
    """

    kind: FailureKind
    exception: str = ""
    message: str = ""
    after_ms: int | None = None
    dependency: str = ""
    key_only: bool = False
    frames: tuple[str, ...] = ()
    trace: tuple[tuple[str, int, str], ...] = ()
    causes: tuple[Raised, ...] = ()
    span: str = ""

    @property
    def chain(self) -> tuple[Raised, ...]:
        """The exception and those that led to it, the outermost first; empty without a traceback."""
        return (Raised(self.exception, self.message, self.trace), *self.causes) if self.trace or self.causes else ()

    def __eq__(self, other: object) -> bool:
        """Whether both mean the same. Where they were raised does not count."""
        return isinstance(other, Failure) and self[:_MEANING] == other[:_MEANING]

    def __ne__(self, other: object) -> bool:
        """See ``==``."""
        return not self == other

    def __hash__(self) -> int:
        """See ``==``."""
        return hash(self[:_MEANING])

    @property
    def place(self) -> str:
        """The place in the code: ``module.function`` of the innermost frame; empty if there is none."""
        return place_of(self.frames)

    @property
    def cause(self) -> str:
        """Exception and message, for logs and errors."""
        return f"{self.exception}: {self.message}" if self.message else self.exception


_MEANING: Final = Failure._fields.index("frames")


def place_of(frames: Sequence[str]) -> str:
    """Return the innermost of frames, ``module.function:line``, without its line; empty if there is none."""
    return frames[-1].partition(":")[0] if frames else ""


@dataclass(frozen=True, slots=True)
class Ack:
    """The record is done: commit the offset after it."""

    ack_type: AckType = AckType.STANDARD


class Retry(NamedTuple):
    """Redeliver the record after ``delay_ms`` (0 or more), that is at ``due_ms`` (epoch ms)."""

    delay_ms: int
    due_ms: int
    ack_type: AckType = AckType.REDELIVERED


class DeadLetter(NamedTuple):
    """Write the record to the dead-letter topic; the dead letter expires at ``expiration_ms`` (epoch ms, 0 = never)."""

    reason: Reason
    failure: Failure
    expiration_ms: int = 0
    ack_type: AckType = AckType.POISON


class Discard(NamedTuple):
    """Drop the record and count it under ``reason``."""

    reason: Reason
    failure: Failure
    ack_type: AckType = AckType.POISON


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop; neither the record's offset nor any after it is committed."""

    failure: Failure


Decision = Ack | Retry | DeadLetter | Discard | Halt


_NO_RETRY = {
    FailureKind.EXHAUSTED: Reason.REDELIVERIES_EXCEEDED,
    FailureKind.UNDECODABLE: Reason.UNDECODABLE,
    FailureKind.INVALID_VALUE: Reason.INVALID_VALUE,
    FailureKind.REJECTED: Reason.REJECTED,
    FailureKind.BAD_HEADERS: Reason.BAD_HEADERS,
    FailureKind.UNDELIVERABLE: Reason.UNDELIVERABLE,
    FailureKind.OPERATOR: Reason.OPERATOR,
    FailureKind.EXPIRED: Reason.EXPIRED,
}
"""The failures that no redelivery can fix, and the reason that each of them gives the dead letter."""


def decide(
    failure: Failure | None,
    lineage: Lineage,
    entry: PolicyEntry,
    now_ms: int,
    jitter: Iterable[float] = (),
) -> Decision:
    """Decide what happens to a record whose delivery has just ended.

    * Success is acknowledged.
    * A failure of the handler is retried after the policy's delay until the policy's limit is reached; then the record
      is dead-lettered. Where the entry sets ``maximum_handler_delay``, a delay that the handler asked for replaces the
      policy's, up to that maximum.
    * A record whose worker closed or died is retried immediately, with the same limit.
    * A failure that no redelivery can fix is dead-lettered immediately.
    * The dead-letter strategy can turn a dead letter into a discard.
    * A record that a transformation has filtered away is discarded.
    * A critical failure halts.

    Args:
        failure: why the delivery failed; ``None`` = it succeeded.
        lineage: where the record comes from; ``lineage.deliveries`` includes the delivery that has just ended.
        entry: the policy entry of the record's destination.
        now_ms: the time (epoch ms) from which due times and expirations count.
        jitter: draws from [-1, 1), at least ``lineage.deliveries`` of them; only a randomised policy uses them.

    Raises:
        ValueError: a randomised policy has too few draws.
    """
    if failure is None:
        return Ack()
    match failure.kind:
        case FailureKind.RAISED | FailureKind.DEADLINE | FailureKind.REDELIVER | FailureKind.DIED:
            return _retry_or_dead_letter(failure, lineage, entry, now_ms, jitter)
        case FailureKind.CLOSED:
            if entry.redelivery_policy.exceeded(lineage.deliveries):
                return _dead_letter(Reason.CLIENT_DIED, failure, lineage, entry, now_ms)
            return Retry(0, now_ms)
        case (
            FailureKind.EXHAUSTED
            | FailureKind.UNDECODABLE
            | FailureKind.INVALID_VALUE
            | FailureKind.REJECTED
            | FailureKind.BAD_HEADERS
            | FailureKind.UNDELIVERABLE
            | FailureKind.OPERATOR
            | FailureKind.EXPIRED
        ):
            return _dead_letter(_NO_RETRY[failure.kind], failure, lineage, entry, now_ms)
        case FailureKind.FILTERED:
            return Discard(Reason.FILTERED, failure, AckType.UNMATCHED)
        case FailureKind.UNAVAILABLE:  # only for records of its key: it waits in place
            return Retry(failure.after_ms or 0, now_ms + (failure.after_ms or 0))
        case FailureKind.CRITICAL:
            return Halt(failure)
        case _:
            assert_never(failure.kind)


def suppressed(decision: DeadLetter) -> Discard:
    """Return the decision that replaces a dead letter that has been written before."""
    return Discard(Reason.DUPLICATE, decision.failure, decision.ack_type)


def _retry_or_dead_letter(
    failure: Failure, lineage: Lineage, entry: PolicyEntry, now_ms: int, jitter: Iterable[float]
) -> Decision:
    if entry.redelivery_policy.exceeded(lineage.deliveries):
        reason = Reason.CLIENT_DIED if failure.kind is FailureKind.DIED else Reason.REDELIVERIES_EXCEEDED
        return _dead_letter(reason, failure, lineage, entry, now_ms)
    longest_ms = entry.maximum_handler_delay
    if failure.after_ms is not None and longest_ms is not None:
        delay_ms = min(max(0, failure.after_ms), longest_ms)
    else:
        delay_ms = entry.redelivery_policy.delay_ms(max(1, lineage.deliveries), jitter)
    return Retry(delay_ms, min(now_ms + delay_ms, LONG_MAX))


def _dead_letter(
    reason: Reason, failure: Failure, lineage: Lineage, entry: PolicyEntry, now_ms: int
) -> DeadLetter | Discard:
    """Dead-letter the record, or discard it if the strategy does not accept it.

    As in the broker, the strategy treats a record that failed for good as expired if its expiration has passed by now.
    A record in an expiry topic does not expire again.
    """
    strategy = entry.dead_letter_strategy
    ack_type = AckType.EXPIRED if reason is Reason.EXPIRED else AckType.POISON
    expired = reason is Reason.EXPIRED or 0 < lineage.expiration_ms < now_ms
    processed = reason is Reason.EXPIRED or strategy.process_poison
    if not (processed and strategy.accepts(persistent=lineage.persistent, expired=expired)):
        return Discard(reason, failure, ack_type)
    never_expires = strategy.expiration <= 0 or (reason is Reason.EXPIRED and strategy.expiry_topic is not None)
    return DeadLetter(reason, failure, 0 if never_expires else now_ms + strategy.expiration, ack_type)


_TEXT_OF_OURS = frozenset(
    {
        FailureKind.DEADLINE,
        FailureKind.CLOSED,
        FailureKind.DIED,
        FailureKind.EXPIRED,
        FailureKind.EXHAUSTED,
        FailureKind.INVALID_VALUE,
        FailureKind.UNDELIVERABLE,
        FailureKind.OPERATOR,
    }
)
"""Failures whose text this project writes. It has nothing of key or value; that of an invalid value has it only if
these details are ``full``."""


class FailureDetails(StrEnum):
    """What is written down about a failed record."""

    FULL = "full"
    """The class of the exception, its text and the record's key."""

    CLASS_ONLY = "class-only"
    """The class of the exception and its place in the code: its text and the key may have personal data."""

    @property
    def class_only(self) -> bool:
        """Whether texts of exceptions and keys of records are left out."""
        return self is FailureDetails.CLASS_ONLY

    def of(self, failure: Failure) -> Failure:
        """Return what may be written down about a failure."""
        if self is FailureDetails.FULL or failure.kind in _TEXT_OF_OURS:
            return failure
        place = failure.place
        causes = tuple(each._replace(message="") for each in failure.causes)
        return failure._replace(message="", frames=(place,) if place else (), causes=causes)
