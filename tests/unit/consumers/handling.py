"""Handlers and codecs that go wrong in one way each, and a processor to put them through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from consumers.handler import as_handler
from consumers.processor import Processor
from consumers.record import Record
from consumers.unit import Assigned, Unit
from serdes.codec import Codec
from tests.unit.consumers.records import NOW, Fetched, source, unit
from topology.decision import Failure


def run(
    handler: Callable[..., Any],
    *messages: Fetched,
    of: Assigned | None = None,
    outputs: dict[str, tuple[Codec, Codec]] | None = None,
    not_retryable: tuple[type[BaseException], ...] = (),
    deadline: timedelta | None = None,
) -> Unit:
    """Hand some records of one partition to a handler, as it wants to be called, and return their unit."""
    given = unit(source() if of is None else of, messages)
    understood = as_handler(handler, not_retryable)
    processor = Processor(understood, {} if outputs is None else outputs, lambda: NOW, deadline)
    if understood.asynchronous:
        asyncio.run(processor.run_async(given))
    else:
        processor.run(given)
    return given


def only_failure(given: Unit) -> Failure:
    """The failure of a unit with one record."""
    [(index, failure)] = given.failures
    assert index == 0
    assert given.position == 1
    return failure


def raising(error: BaseException) -> Callable[[Record], None]:
    """A handler that raises."""

    def handle(_: Record) -> None:
        raise error

    return handle


def never_called(_: Record) -> None:
    """A handler for records that must not reach one."""
    raise AssertionError("the handler was called")


class SpeechlessError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Fussy:
    """A codec that raises what it is told to, both ways."""

    name = "fussy"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def decode(self, data: bytes | None) -> Any:  # noqa: ANN401, ARG002 - as the protocol has it
        """Raise it."""
        raise self.error

    def encode(self, value: object) -> bytes | None:  # noqa: ARG002 - as the protocol has it
        """Raise it."""
        raise self.error
