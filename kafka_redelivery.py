"""Redelivery and dead letters for Kafka consumers: what a handler needs.

A handler is a plain function, ``handle(record)`` or ``handle(record, context)``, sync or async. It
returns when the record is done, raises to have it redelivered by the policy, raises :class:`Reject`
to have it dead-lettered at once, or :class:`Redeliver` to name a delay of its own.
:class:`HandlerKit` tests it without Kafka; each :class:`Delivery` of its story ends in :class:`Ack`,
:class:`Retry`, :class:`DeadLetter`, :class:`Discard` or :class:`Halt`.
"""

from typing import TYPE_CHECKING

from consumers.record import Context, Record, Redeliver, Reject
from consumers.testkit import Delivery, HandlerKit
from serdes.codec import JsonCodec, RawCodec, StringCodec
from topology.decision import Ack, DeadLetter, Discard, Halt, Retry
from topology.policy import DeadLetterStrategy, RedeliveryPolicy

if TYPE_CHECKING:
    from pipeline.batch_context import BatchContext

__all__ = [
    "Ack",
    "BatchContext",
    "Context",
    "DeadLetter",
    "DeadLetterStrategy",
    "Delivery",
    "Discard",
    "Halt",
    "HandlerKit",
    "JsonCodec",
    "RawCodec",
    "Record",
    "Redeliver",
    "RedeliveryPolicy",
    "Reject",
    "Retry",
    "StringCodec",
]


def __getattr__(name: str) -> object:
    """What only vectorised handlers need, since it needs Arrow."""
    if name != "BatchContext":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline.batch_context import BatchContext  # noqa: PLC0415 - an optional dependency

    return BatchContext
