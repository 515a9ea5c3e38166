"""The one decision about a record: what happens after a delivery, as a value.

Worker, scheduler and test kit call :func:`decide`; it is a function of its arguments alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, assert_never

from topology.java_numbers import LONG_MAX
from topology.lineage import Lineage
from topology.policy import PolicyEntry
from topology.redelivery import redelivery_delay


class FailureKind(StrEnum):
    """Why a delivery did not end in success."""

    RAISED = "raised"
    """The handler raised: a rollback."""

    REDELIVER = "redeliver"
    """The handler asked for a redelivery: a recover."""

    DEADLINE = "deadline"
    """The handler did not return in time: a client time-out."""

    CLOSED = "closed"
    """The worker died or closed before the commit."""

    DIED = "died"
    """The process that the handler runs in died, and not the worker with it."""

    EXPIRED = "expired"
    """``JMSExpiration`` had passed before the delivery."""

    UNDECODABLE = "undecodable"
    """The codec could not read the record: poison before any handler saw it."""

    REJECTED = "rejected"
    """Not retryable, by the handler's word or by the class of its exception."""

    EXHAUSTED = "exhausted"
    """The record had its last delivery already when it arrived."""

    BAD_HEADERS = "bad_headers"
    """A ready record whose own headers cannot be read."""

    UNDELIVERABLE = "undeliverable"
    """The broker refuses a copy of it for good: too large, no such partition."""

    CRITICAL = "critical"
    """Not the record's fault and not survivable: out of memory, no free slot, a refused write."""


NOT_DELIVERED = frozenset(
    {
        FailureKind.EXPIRED,
        FailureKind.EXHAUSTED,
        FailureKind.UNDECODABLE,
        FailureKind.BAD_HEADERS,
        FailureKind.UNDELIVERABLE,
    }
)
"""Found before a handler was called: there is no delivery to count."""


class AckType(IntEnum):
    """ActiveMQ's acknowledgement types; they label decisions and metrics.

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
    """The machine-readable reason code of a dead letter or a discarded record."""

    REDELIVERIES_EXCEEDED = "redeliveries_exceeded"
    REJECTED = "rejected"
    UNDECODABLE = "undecodable"
    EXPIRED = "expired"
    UNDELIVERABLE = "undeliverable"
    """It could not be written to where it had to wait or be ready: too large, no such partition."""

    BAD_HEADERS = "bad_headers"
    """A retry or ready record whose own headers cannot be read."""

    CLIENT_DIED = "client_died"
    """Its last delivery killed the worker, or the process that the handler ran in."""

    DUPLICATE = "duplicate"
    """Discarded: another copy of it was dead-lettered before (``enableAudit``)."""


class Failure(NamedTuple):
    """One failed delivery.

    ``exception`` is a class name, ``message`` its text, ``after_ms`` the delay that the handler asked
    for (``None`` = the policy's).
    """

    kind: FailureKind
    exception: str = ""
    message: str = ""
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """Done: commit past it."""

    ack_type: AckType = AckType.STANDARD


class Retry(NamedTuple):
    """Deliver again ``delay_ms`` (0 or more) from now, at ``due_ms`` (epoch ms)."""

    delay_ms: int
    due_ms: int
    ack_type: AckType = AckType.REDELIVERED


class DeadLetter(NamedTuple):
    """Move to the dead-letter topic; ``expiration_ms`` (epoch ms, 0 = never) goes with it."""

    reason: Reason
    failure: Failure
    expiration_ms: int = 0
    ack_type: AckType = AckType.POISON


class Discard(NamedTuple):
    """Drop it, counted under ``reason``."""

    reason: Reason
    failure: Failure
    ack_type: AckType = AckType.POISON


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop; nothing is committed past the record."""

    failure: Failure


Decision = Ack | Retry | DeadLetter | Discard | Halt


_AT_ONCE = {
    FailureKind.EXHAUSTED: Reason.REDELIVERIES_EXCEEDED,
    FailureKind.UNDECODABLE: Reason.UNDECODABLE,
    FailureKind.REJECTED: Reason.REJECTED,
    FailureKind.BAD_HEADERS: Reason.BAD_HEADERS,
    FailureKind.UNDELIVERABLE: Reason.UNDELIVERABLE,
}
"""Failures that no redelivery could mend."""


def decide(
    failure: Failure | None,
    lineage: Lineage,
    policy: PolicyEntry,
    now_ms: int,
    jitter: Iterable[float] = (),
) -> Decision:
    """Decide about a record whose delivery just ended.

    Args:
        failure: what went wrong, ``None`` for success.
        lineage: where the record comes from; ``lineage.deliveries`` counts the delivery that just ended.
        policy: what is configured for its destination.
        now_ms: epoch ms by the deciding worker's clock; due times and expirations count from it.
        jitter: draws from [-1, 1) for a randomised policy, at least ``lineage.deliveries`` of them.

    Returns:
        exactly one decision, whatever the failure.

    Raises:
        ValueError: a randomised policy was given too few draws.
    """
    if failure is None:
        return Ack()
    match failure.kind:
        case FailureKind.RAISED | FailureKind.DEADLINE | FailureKind.REDELIVER | FailureKind.DIED:
            return _retry_or_bury(failure, lineage, policy, now_ms, jitter)
        case FailureKind.CLOSED:
            if policy.redelivery_policy.exceeded(lineage.deliveries):
                return _bury(Reason.CLIENT_DIED, failure, lineage, policy, now_ms)
            return Retry(0, now_ms)
        case (
            FailureKind.EXHAUSTED
            | FailureKind.UNDECODABLE
            | FailureKind.REJECTED
            | FailureKind.BAD_HEADERS
            | FailureKind.UNDELIVERABLE
        ):
            return _bury(_AT_ONCE[failure.kind], failure, lineage, policy, now_ms)
        case FailureKind.EXPIRED:
            return _bury(Reason.EXPIRED, failure, lineage, policy, now_ms)
        case FailureKind.CRITICAL:
            return Halt(failure)
        case _:
            assert_never(failure.kind)


def suppressed(decision: DeadLetter) -> Discard:
    """Instead of a dead letter that is there already."""
    return Discard(Reason.DUPLICATE, decision.failure, decision.ack_type)


def _retry_or_bury(
    failure: Failure, lineage: Lineage, policy: PolicyEntry, now_ms: int, jitter: Iterable[float]
) -> Decision:
    if policy.redelivery_policy.exceeded(lineage.deliveries):
        reason = Reason.CLIENT_DIED if failure.kind is FailureKind.DIED else Reason.REDELIVERIES_EXCEEDED
        return _bury(reason, failure, lineage, policy, now_ms)
    longest = policy.maximum_handler_delay
    if failure.after_ms is not None and longest is not None:
        delay = min(max(0, failure.after_ms), longest)
    else:
        delay = redelivery_delay(policy.redelivery_policy, max(1, lineage.deliveries), jitter)
    return Retry(delay, min(now_ms + delay, LONG_MAX))


def _bury(reason: Reason, failure: Failure, lineage: Lineage, policy: PolicyEntry, now_ms: int) -> DeadLetter | Discard:
    """A dead letter, if the strategy takes such a record.

    As in the broker, what failed for good counts as expired, too, if its time is over by now. What goes to an
    expiry topic does not expire again.
    """
    strategy = policy.dead_letter_strategy
    ack_type = AckType.EXPIRED if reason is Reason.EXPIRED else AckType.POISON
    expired = reason is Reason.EXPIRED or 0 < lineage.expiration_ms < now_ms
    kept = reason is Reason.EXPIRED or strategy.process_poison
    if not (kept and strategy.accepts(persistent=lineage.persistent, expired=expired)):
        return Discard(reason, failure, ack_type)
    forever = strategy.expiration <= 0 or (reason is Reason.EXPIRED and strategy.expiry_topic is not None)
    return DeadLetter(reason, failure, 0 if forever else now_ms + strategy.expiration, ack_type)
