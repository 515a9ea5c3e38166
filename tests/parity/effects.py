"""What happens to a record that was delivered but not acknowledged, in each acknowledgement mode of each broker.

A *trigger* ends a delivery without success. :func:`effect` is the table that the recordings are compared with.

Source: recorded from ActiveMQ Classic 5.18.6 and Artemis 2.40.0. The rules are in ``ActiveMQMessageConsumer`` and
``ServerConsumerImpl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode


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
