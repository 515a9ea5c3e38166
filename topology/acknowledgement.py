"""Acknowledgement modes, and what each way of not acknowledging leads to.

A *trigger* is what ended a delivery without success. What it leads to depends on the mode and differs between
the brokers; :func:`effect` is the table of it.

Source: recorded from ActiveMQ Classic 5.18.6 and Artemis 2.40.0; ``ActiveMQMessageConsumer`` and
``ServerConsumerImpl`` for the rules behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class AcknowledgementMode(StrEnum):
    """When a delivery counts as done."""

    TRANSACTED = "transacted"
    """With the commit of everything the handler did."""

    AUTO = "auto"
    """As the handler returns, one by one; with ``optimizeAcknowledge`` several at a time."""

    DUPS_OK = "dups_ok"
    """Lazily, several at a time."""

    CLIENT = "client"
    """When the handler says so, with everything delivered before."""

    INDIVIDUAL = "individual"
    """When the handler says so, that record alone."""

    @property
    def by_handler(self) -> bool:
        """Whether the handler says what is acknowledged."""
        return self in {AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL}


class Trigger(StrEnum):
    """What ended a delivery without success."""

    ROLLBACK = "rollback"
    RECOVER = "recover"
    RAISED = "raised"
    """The listener itself raised."""

    CLOSED = "closed"
    """Session, consumer or connection were closed before the commit or the acknowledgement."""

    RECEIVED = "received"
    """A plain receive under a mode that acknowledges by itself: what fails later does not matter any more."""


class Dialect(StrEnum):
    """Whose rules."""

    CLASSIC = "classic"
    ARTEMIS = "artemis"


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens to the record.

    ``redelivered``: it comes again, while the same session lives or in the next one. ``delayed``: after the
    policy's delay, else at once. ``limited``: its redeliveries end as the policy says, in a dead letter.
    ``kept``: it is still there if it is not redelivered.
    """

    redelivered: bool
    delayed: bool = False
    limited: bool = False
    kept: bool = True


_AGAIN = Effect(redelivered=True, delayed=True, limited=True)
_AT_ONCE = Effect(redelivered=True, limited=True)
_FOR_EVER = Effect(redelivered=True)
_LEFT = Effect(redelivered=False)
_DONE = Effect(redelivered=False, kept=False)


def effect(mode: AcknowledgementMode, trigger: Trigger, dialect: Dialect = Dialect.CLASSIC) -> Effect:
    """What a trigger leads to under a mode."""
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
            # Under the other modes there is nothing left to recover.
            return _AGAIN if mode in {AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL} else _DONE
        case Trigger.RAISED:
            # Client: acknowledged with the next record that is; transacted: stays until the session ends.
            return _LEFT if mode in {AcknowledgementMode.CLIENT, AcknowledgementMode.TRANSACTED} else _AGAIN
        case Trigger.CLOSED:
            # Only a transacted session says that it gave up; otherwise the broker cannot tell from a crash.
            return _AT_ONCE if mode is AcknowledgementMode.TRANSACTED else _FOR_EVER
        case Trigger.RECEIVED:
            return _DONE
        case _:
            assert_never(trigger)


def _artemis(mode: AcknowledgementMode, trigger: Trigger) -> Effect:
    """The broker counts itself, so a close counts as a failed delivery in every mode."""
    del mode
    match trigger:
        case Trigger.ROLLBACK | Trigger.RECOVER | Trigger.RAISED | Trigger.CLOSED:
            return _AGAIN
        case Trigger.RECEIVED:
            return _DONE
        case _:
            assert_never(trigger)


OPTIMIZED_SHARE = 0.65
"""Of the prefetch: with ``optimizeAcknowledge`` that many finished records are acknowledged together."""

LAZY_SHARE = 0.5
"""Of the prefetch: the same of records acknowledged lazily (``dups_ok``)."""


def acknowledge_now(
    mode: AcknowledgementMode,
    finished: int,
    prefetch: int,
    elapsed_ms: int,
    *,
    optimize: bool = False,
    optimize_timeout_ms: int = 300,
) -> bool:
    """Whether what is finished is acknowledged now, and not together with more of it later.

    Args:
        mode: ``client``, ``individual`` and ``transacted`` are for the handler or the commit to decide: never now.
        finished: records finished since the last acknowledgement, this one included.
        prefetch: how many records a consumer holds.
        elapsed_ms: since the last acknowledgement.
        optimize: ``optimizeAcknowledge``, of mode ``auto``.
        optimize_timeout_ms: ``optimizeAcknowledgeTimeOut``; 0 = no limit.

    Source: ``ActiveMQMessageConsumer.afterMessageIsConsumed`` and ``ackLater``. There the time limit is of
    ``optimizeAcknowledge`` alone; here it holds for ``dups_ok``, too, so that a quiet topic comes to its end.
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
    """Successes wait to be acknowledged together: ``dups_ok``, or ``auto`` with ``optimizeAcknowledge``.

    ``timeout_ms`` is how long they wait at most; 0 = no limit.
    """

    mode: AcknowledgementMode
    prefetch: int
    timeout_ms: int

    def now(self, finished: int, elapsed_ms: int) -> bool:
        """See :func:`acknowledge_now`."""
        return acknowledge_now(
            self.mode, finished, self.prefetch, elapsed_ms, optimize=True, optimize_timeout_ms=self.timeout_ms
        )

    def left_ms(self, elapsed_ms: int) -> int | None:
        """After how long the time limit is reached, 0 if it is; ``None`` if there is none."""
        return max(0, self.timeout_ms - elapsed_ms) if self.timeout_ms > 0 else None
