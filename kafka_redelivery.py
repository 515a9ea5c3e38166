"""Redelivery and dead letters for Kafka consumers: what a handler needs.

A handler is a plain function, ``handle(record)`` or ``handle(record, context)``, sync or async. It
returns when the record is done, raises to have it redelivered by the policy, raises :class:`Reject`
to have it dead-lettered at once, or :class:`Redeliver` to name a delay of its own.
:class:`HandlerKit` tests it without Kafka.
"""

from consumers.record import Context, Record, Redeliver, Reject
from consumers.testkit import HandlerKit
from serdes.codec import JsonCodec, RawCodec, StringCodec
from topology.policy import DeadLetterStrategy, RedeliveryPolicy

__all__ = [
    "Context",
    "DeadLetterStrategy",
    "HandlerKit",
    "JsonCodec",
    "RawCodec",
    "Record",
    "Redeliver",
    "RedeliveryPolicy",
    "Reject",
    "StringCodec",
]
