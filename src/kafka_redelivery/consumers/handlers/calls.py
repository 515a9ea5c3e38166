"""The program of a child in a :class:`ChildProcessPool`: it calls the handler with one record or batch at a time.

There is a child for each slot. So this imports neither the Kafka client nor the configuration: they would more than
double the memory and the time that a child needs at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.child import SharedPosition, receive, send
from kafka_redelivery.consumers.handlers.dependencies import Declared
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler, not_run
from kafka_redelivery.consumers.handlers.record import Context, Output
from kafka_redelivery.consumers.handlers.tracing import NOT_TRACED, continuing
from kafka_redelivery.consumers.handlers.values import DeclaredValues
from kafka_redelivery.consumers.telemetry.logs import handled
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails


class Formats(NamedTuple):
    """What the configuration says about the formats of the values that a handler gets and emits."""

    undecoded: str = ""
    """A source of the handler whose values are bytes or text without fields; empty = none."""

    json_outputs: Mapping[str, tuple[bool, bool]] = {}
    """Whether key and value are written as JSON, for each output topic with codecs."""


class CallArguments(NamedTuple):
    """What a child needs to know."""

    target: str
    not_retryable: Sequence[str]
    value: str | None
    details: FailureDetails
    formats: Formats
    needs: Declared
    batch: bool = False
    """Whether the handler gets batches."""

    traced: bool = False
    """Whether a call is a span in the parent, which the child continues."""


class Given(NamedTuple):
    """What a child is called with."""

    records: Any
    """A record, or the list of those of a batch."""

    deliveries: Any
    """The number of deliveries before this one; of a batch a list."""

    group: str

    carrier: Mapping[str, str] = NOT_TRACED
    """What the child needs to continue the span of the call."""


class CallResult(NamedTuple):
    """How a call in a child ended."""

    failure: Failure | None
    """Why it failed; ``None`` for a batch of which each record has its own outcome."""

    outputs: Mapping[int, Sequence[Output]]
    """What was emitted for each record, by its index."""

    failures: Mapping[int, Failure] = {}
    """Why single records of the batch failed, by index."""


def load_calls(
    arguments: CallArguments,
    pipe: Connection,
    positions: Sequence[SharedPosition],
    stack: ExitStack,
) -> Callable[[], None]:
    """Load the handler in a child, see :attr:`Setup.load`."""
    batch = arguments.batch
    in_span = continuing(stack) if arguments.traced else nullcontext
    handler = load_handler(
        arguments.target,
        arguments.not_retryable,
        stack,
        arguments.details,
        values=DeclaredValues(arguments.value, arguments.formats.undecoded, "batch" if batch else "record"),
        needs=arguments.needs,
    )
    if handler.batch and not batch:  # the parent has not seen its annotation
        problem = "takes a Batch, which with isolation: process the configuration has to say"
        raise HandlerLoadError(arguments.target, problem, "add batch: {} to the handler; a Spark query has no batches")
    del positions  # the parent knows which record the child has

    def turn() -> None:
        given: Given = receive(pipe)
        handled.set(None if batch else (given.records, given.deliveries + 1))
        with in_span(given.carrier):
            result = _handle_batch(handler, given) if batch else _handle(handler, given)
        try:
            outputs = {
                index: [_without_objects(each, arguments.formats) for each in emitted]
                for index, emitted in result.outputs.items()
            }
            send(pipe, result._replace(outputs=outputs))
        except (EOFError, BrokenPipeError):
            raise
        except BaseException as error:  # noqa: BLE001 - the outputs cannot leave this process
            send(pipe, CallResult(handler.failure(error), {}))

    return turn


def _handle(handler: Handler, given: Given) -> CallResult:
    context = Context(given.deliveries, [], given.records, given.group)
    failure = _failure(handler, (context.record, context) if handler.takes_context else (context.record,))
    return CallResult(failure, {} if failure else {0: context.outputs})


def _handle_batch(handler: Handler, given: Given) -> CallResult:
    records, deliveries, group, _ = given
    found = ((index, handler.convert(record)) for index, record in enumerate(records))
    failures = {index: failure for index, failure in found if failure is not None}
    places = [index for index in range(len(records)) if index not in failures]
    batch: Batch = Batch([records[index] for index in places], [deliveries[index] for index in places], group)
    failure = _failure(handler, (batch,)) if places else None
    if failure is not None:
        if len(places) > 1:
            return CallResult(failure, {})
        failures[places[0]] = failure
        return CallResult(None, {}, failures)
    failures |= {places[number]: handler.failure(error) for number, error in batch.errors.items()}
    outputs = {places[number]: context.outputs for number, context in batch.contexts.items()}
    return CallResult(None, {index: each for index, each in outputs.items() if index not in failures}, failures)


def _failure(handler: Handler, arguments: tuple[object, ...]) -> Failure | None:
    try:
        result = handler.call(*arguments)
        if handler.asynchronous:
            result = handler.loop.run(result)
    except BaseException as error:  # noqa: BLE001 - whatever the handler raises is the failure of this call
        return handler.failure(error)
    return None if result is None else not_run(result)


def _without_objects(output: Output, formats: Formats) -> Output:
    """Replace objects of the user's classes, so that the parent need not import these."""
    key, value = formats.json_outputs.get(output.topic, (False, False))
    return replace(output, key=plain(output.key, as_json=key), value=plain(output.value, as_json=value))
