"""Handlers and codecs that fail in one way each, and a processor to run them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.serdes.codec import Codec
from kafka_redelivery.topology.policy.decision import Failure
from tests.unit.consumers.records import NOW, Fetched, item, source


def run(
    handler: Callable[..., Any],
    *messages: Fetched,
    of: AssignedPartition | None = None,
    outputs: dict[str, tuple[Codec, Codec]] | None = None,
    not_retryable: tuple[type[BaseException], ...] = (),
    deadline: timedelta | None = None,
) -> WorkItem:
    """Handle records of one partition and return their work item."""
    given = item(source() if of is None else of, messages)
    loaded = as_handler(handler, not_retryable)
    processor = Processor(loaded, {} if outputs is None else outputs, lambda: NOW, deadline)
    if loaded.asynchronous:
        asyncio.run(processor.run_async(given))
    else:
        processor.run(given)
    return given


def only_failure(given: WorkItem) -> Failure:
    """The failure of a work item with one record."""
    [(index, failure)] = given.failures
    assert index == 0
    assert given.position == 1
    return failure


def raising(error: BaseException) -> Callable[[Record], None]:
    """A handler that raises an error."""

    def handle(_: Record) -> None:
        raise error

    return handle


def never_called(_: Record) -> None:
    """A handler for records that must not reach a handler."""
    raise AssertionError("the handler was called")


class UnprintableError(Exception):
    """An exception whose message cannot be formatted."""

    def __str__(self) -> str:
        raise ValueError("no words")


class ForeignError(BaseException):
    """An exception of a library that no ``except Exception`` catches."""


class RaisingCodec:
    """A codec that raises an error when it encodes or decodes."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401, ARG002 - as the protocol has it
        """Raise the error."""
        raise self.error

    def encode(self, value: object) -> bytes | None:  # noqa: ARG002 - as the protocol has it
        """Raise the error."""
        raise self.error
