"""ActiveMQ's redelivery policies and dead-letter strategies for Kafka consumers.

A handler is a function ``handle(record)`` or ``handle(record, context)``, sync or async, or a class that is called so.
A batch handler ``handle(batch)`` gets many records in one call, see :class:`Batch`::

    from kafka_redelivery import Context, Record, Redeliver, Reject

    def charge(record: Record, context: Context) -> None:
        if record.value["amount"] < 0:
            raise Reject("negative amount")
        receipt = bank.charge(record.value)
        context.send("receipts", receipt, key=record.key)

If the first parameter is annotated with a dataclass, a pydantic model, a ``TypedDict`` or a msgspec struct, it gets the
value; in ``Record[Order]`` the record has an ``Order`` as value. A value that does not fit is dead-lettered without a
call, see :class:`InvalidValueError`.

The end of a call decides what happens to the record:

- The handler returns: the record is acknowledged.
- It raises :class:`Reject`: the record is dead-lettered without a redelivery.
- It raises :class:`Redeliver`: the record is redelivered, after a delay that the handler may choose.
- It raises :class:`Unavailable`: something that it depends on is away, and the record waits, uncounted.
- It raises any other exception: the record is redelivered as the redelivery policy says, and dead-lettered after the
  last redelivery. ``SystemExit``, which libraries raise for bad input, is such an exception; ``MemoryError`` and
  ``KeyboardInterrupt`` halt the worker instead.

In the acknowledgement modes ``client`` and ``individual`` the handler acknowledges records itself, see
:meth:`Record.acknowledge`.

:class:`HandlerKit` tests a handler without Kafka. It returns one :class:`Delivery` per call, whose decision is an
:class:`Ack`, :class:`Retry`, :class:`DeadLetter`, :class:`Discard`, :class:`Halt` or :class:`Wait`.
:class:`BatchContext` is the context of a vectorised handler on Spark. :class:`DeliveryFilter`
lets the lines of a log say which record they are about.

:class:`App` holds handlers and settings, and runs in a process of its own or within another program.

Each name is imported on its first use, so that importing a subpackage does not import the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_redelivery.consumers.app import App
    from kafka_redelivery.consumers.errors import InvalidValueError
    from kafka_redelivery.consumers.handlers.batch import Batch
    from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject, Unavailable
    from kafka_redelivery.consumers.telemetry.logs import DeliveryFilter
    from kafka_redelivery.consumers.testkit import Delivery, HandlerKit, Wait
    from kafka_redelivery.pipeline.handler.vectorized import BatchContext as BatchContext
    from kafka_redelivery.serdes.avro import AvroCodec
    from kafka_redelivery.serdes.codec import JsonCodec, RawCodec, StringCodec
    from kafka_redelivery.serdes.json_schema import JsonSchemaCodec as JsonSchemaCodec
    from kafka_redelivery.serdes.protobuf import ProtobufCodec as ProtobufCodec
    from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
    from kafka_redelivery.topology.policy.decision import Ack, DeadLetter, Discard, Halt, Retry
    from kafka_redelivery.topology.policy.entry import DeadLetterStrategy

_HOMES: Final = {
    "Ack": "topology.policy.decision",
    "App": "consumers.app",
    "AvroCodec": "serdes.avro",
    "Batch": "consumers.handlers.batch",
    "BatchContext": "pipeline.handler.vectorized",
    "Context": "consumers.handlers.record",
    "DeadLetter": "topology.policy.decision",
    "DeadLetterStrategy": "topology.policy.entry",
    "Delivery": "consumers.testkit",
    "DeliveryFilter": "consumers.telemetry.logs",
    "Discard": "topology.policy.decision",
    "Halt": "topology.policy.decision",
    "HandlerKit": "consumers.testkit",
    "InvalidValueError": "consumers.errors",
    "JsonCodec": "serdes.codec",
    "JsonSchemaCodec": "serdes.json_schema",
    "ProtobufCodec": "serdes.protobuf",
    "RawCodec": "serdes.codec",
    "Record": "consumers.handlers.record",
    "Redeliver": "consumers.handlers.record",
    "RedeliveryPolicy": "topology.classic.policy",
    "Reject": "consumers.handlers.record",
    "Retry": "topology.policy.decision",
    "StringCodec": "serdes.codec",
    "Unavailable": "consumers.handlers.record",
    "Wait": "consumers.testkit",
}
"""The module that defines each public name, relative to this package."""

__all__ = [  # without those that need an extra: import * imports each of them
    "Ack",
    "App",
    "AvroCodec",
    "Batch",
    "Context",
    "DeadLetter",
    "DeadLetterStrategy",
    "Delivery",
    "DeliveryFilter",
    "Discard",
    "Halt",
    "HandlerKit",
    "InvalidValueError",
    "JsonCodec",
    "RawCodec",
    "Record",
    "Redeliver",
    "RedeliveryPolicy",
    "Reject",
    "Retry",
    "StringCodec",
    "Unavailable",
    "Wait",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is used for the first time (PEP 562).

    Raises:
        AttributeError: the package has no such name.
        ModuleNotFoundError: ``BatchContext`` is used without the extra ``spark``, ``ProtobufCodec`` without
            ``protobuf``, or ``JsonSchemaCodec`` without ``jsonschema``.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    """Return all names, also those that are not imported yet, so that editors and notebooks complete them."""
    return sorted({*globals(), *__all__})
