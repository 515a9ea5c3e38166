"""The program of a child process in a :class:`ChildProcessPool`: it receives one record and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import NamedTuple

from kafka_redelivery.consumers.handlers.child_process import serve
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler, not_run
from kafka_redelivery.consumers.handlers.record import Context, Output, Record
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.policy.failure_details import FailureDetails


class ChildSetup(NamedTuple):
    """The first message to a child."""

    target: str
    not_retryable: Sequence[str]
    log_level: int
    log_format: str
    details: FailureDetails


class HandlerResult(NamedTuple):
    """The result of one handler call, as the child returns it."""

    failure: Failure | None
    outputs: Sequence[Output]


def main(descriptor: int) -> None:
    """Run the child.

    Args:
        descriptor: file descriptor of the pipe to the parent.
    """
    pipe = Connection(descriptor)
    setup: ChildSetup = pipe.recv()

    def load(stack: ExitStack) -> Callable[[], None]:
        handler = load_handler(setup.target, setup.not_retryable, stack, setup.details)
        return lambda: _answer(pipe, handler)

    serve(pipe, load, log_level=setup.log_level, log_format=setup.log_format)


def _answer(pipe: Connection, handler: Handler) -> None:
    record, deliveries = pipe.recv()
    result = _handle(handler, record, Context(deliveries, []))
    try:
        pipe.send(result)
    except (EOFError, BrokenPipeError):
        raise
    except BaseException as error:  # noqa: BLE001 - any error of pickling: the outputs cannot leave this process
        pipe.send(HandlerResult(handler.failure(error), ()))


def _handle(handler: Handler, record: Record, context: Context) -> HandlerResult:
    arguments = (record, context) if handler.takes_context else (record,)
    try:
        result = handler.call(*arguments)
        if handler.asynchronous:
            result = handler.loop.run(result)
    except BaseException as error:  # noqa: BLE001 - whatever the handler raises is the failure of this record
        return HandlerResult(handler.failure(error), ())
    return HandlerResult(None if result is None else not_run(result), context.outputs)
