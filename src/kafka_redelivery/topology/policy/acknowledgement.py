"""Acknowledgement modes, and what happens to a record that was delivered but not acknowledged.

A *trigger* ends a delivery without success. Its effect depends on the acknowledgement mode and on the broker;
:func:`effect` is the table.

Source: recorded from ActiveMQ Classic 5.18.6 and Artemis 2.40.0. The rules are in ``ActiveMQMessageConsumer`` and
``ServerConsumerImpl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class AcknowledgementMode(StrEnum):
    """When a delivered record is acknowledged."""

    TRANSACTED = "transacted"
    """In the transaction that commits everything the handler did."""

    AUTO = "auto"
    """When the handler returns, one by one; with ``optimizeAcknowledge`` several together."""

    DUPS_OK = "dups_ok"
    """Lazily, several together."""

    CLIENT = "client"
    """When the handler acknowledges it, together with all records delivered before."""

    INDIVIDUAL = "individual"
    """When the handler acknowledges it; other records are not affected."""

    @property
    def by_handler(self) -> bool:
        """Whether the handler itself acknowledges records."""
        return self in {AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL}


class Trigger(StrEnum):
    """An event that ends a delivery without success."""

    ROLLBACK = "rollback"
    RECOVER = "recover"
    RAISED = "raised"
    """The listener raised an exception."""

    CLOSED = "closed"
    """The session, consumer or connection was closed before the commit or the acknowledgement."""

    RECEIVED = "received"
    """A synchronous receive in a mode that acknowledges by itself; later failures have no effect."""


class Dialect(StrEnum):
    """The broker whose rules apply."""

    CLASSIC = "classic"
    ARTEMIS = "artemis"


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens to a record after a trigger.

    ``redelivered``: it is delivered again, in the same session or in the next one. ``delayed``: after the policy's
    delay, rather than immediately. ``limited``: the policy limits its redeliveries, and it becomes a dead letter after
    the last one. ``kept``: if it is not redelivered, it remains on the broker.
    """

    redelivered: bool
    delayed: bool = False
    limited: bool = False
    kept: bool = True


_AGAIN = Effect(redelivered=True, delayed=True, limited=True)
_IMMEDIATELY = Effect(redelivered=True, limited=True)
_UNLIMITED = Effect(redelivered=True)
_LEFT = Effect(redelivered=False)
_DONE = Effect(redelivered=False, kept=False)


def effect(mode: AcknowledgementMode, trigger: Trigger, dialect: Dialect = Dialect.CLASSIC) -> Effect:
    """Return the effect of a trigger in an acknowledgement mode."""
    match dialect:
        case Dialect.CLASSIC:
            return _classic(mode, trigger)
        case Dialect.ARTEMIS:
            return _artemis(mode, trigger)
        case _:
            assert_never(dialect)


def _classic(mode: AcknowledgementMode, trigger: Trigger) -> Effect:
    match trigger:
        case Trigger.ROLLBACK:
            return _AGAIN
        case Trigger.RECOVER:
            # In the other modes every delivered record is acknowledged already.
            return _AGAIN if mode in {AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL} else _DONE
        case Trigger.RAISED:
            # Client: acknowledged together with a later record. Transacted: stays until the session ends.
            return _LEFT if mode in {AcknowledgementMode.CLIENT, AcknowledgementMode.TRANSACTED} else _AGAIN
        case Trigger.CLOSED:
            # Only a transacted session reports the failure; in other modes a close looks like a crash to the broker.
            return _IMMEDIATELY if mode is AcknowledgementMode.TRANSACTED else _UNLIMITED
        case Trigger.RECEIVED:
            return _DONE
        case _:
            assert_never(trigger)


def _artemis(mode: AcknowledgementMode, trigger: Trigger) -> Effect:
    """Artemis counts deliveries on the broker, so a close counts as a failed delivery in every mode."""
    del mode
    match trigger:
        case Trigger.ROLLBACK | Trigger.RECOVER | Trigger.RAISED | Trigger.CLOSED:
            return _AGAIN
        case Trigger.RECEIVED:
            return _DONE
        case _:
            assert_never(trigger)


OPTIMIZED_SHARE = 0.65
"""With ``optimizeAcknowledge``, records are acknowledged together when this share of the prefetch is finished."""

LAZY_SHARE = 0.5
"""The same share for records that are acknowledged lazily (``dups_ok``)."""


def acknowledge_now(
    mode: AcknowledgementMode,
    finished: int,
    prefetch: int,
    elapsed_ms: int,
    *,
    optimize: bool = False,
    optimize_timeout_ms: int = 300,
) -> bool:
    """Whether the finished records are acknowledged now, rather than later together with more of them.

    Args:
        mode: always false for ``client``, ``individual`` and ``transacted``: the handler or the commit acknowledges.
        finished: number of records finished since the last acknowledgement, this one included.
        prefetch: number of records that a consumer prefetches.
        elapsed_ms: time since the last acknowledgement.
        optimize: ``optimizeAcknowledge``, for mode ``auto``.
        optimize_timeout_ms: ``optimizeAcknowledgeTimeOut``; 0 = no limit.

    Source: ``ActiveMQMessageConsumer.afterMessageIsConsumed`` and ``ackLater``. There, the time limit
    only applies to ``optimizeAcknowledge``; here, it also applies to ``dups_ok``, so that the last records of a quiet
    topic are acknowledged.
    """
    late = 0 < optimize_timeout_ms <= elapsed_ms
    match mode:
        case AcknowledgementMode.AUTO:
            return not optimize or late or finished >= prefetch * OPTIMIZED_SHARE
        case AcknowledgementMode.DUPS_OK:
            return late or finished >= prefetch * LAZY_SHARE
        case AcknowledgementMode.TRANSACTED | AcknowledgementMode.CLIENT | AcknowledgementMode.INDIVIDUAL:
            return False
        case _:
            assert_never(mode)


@dataclass(frozen=True, slots=True)
class LazyAcknowledgement:
    """Acknowledges finished records together: ``dups_ok``, or ``auto`` with ``optimizeAcknowledge``.

    They wait at most ``timeout_ms``; 0 = no limit.
    """

    mode: AcknowledgementMode
    prefetch: int
    timeout_ms: int

    def now(self, finished: int, elapsed_ms: int) -> bool:
        """Whether the finished records are acknowledged now; see :func:`acknowledge_now`."""
        return acknowledge_now(
            self.mode, finished, self.prefetch, elapsed_ms, optimize=True, optimize_timeout_ms=self.timeout_ms
        )

    def left_ms(self, elapsed_ms: int) -> int | None:
        """Return the time in ms until the limit is reached, 0 if it has been; ``None`` if there is no limit."""
        return max(0, self.timeout_ms - elapsed_ms) if self.timeout_ms > 0 else None
