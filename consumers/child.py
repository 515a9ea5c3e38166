"""The inside of a child process that runs the handler: one record in, its outcome out.

It ends when its pipe does, or its standard input, which its parent holds open and never writes to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

from consumers.errors import HandlerLoadError
from consumers.handler import Handler, load_handler, not_run
from consumers.logs import log_to_stderr
from consumers.record import Context, Output, Record
from topology.decision import Failure


class Program(NamedTuple):
    """What a child runs."""

    target: str
    not_retryable: Sequence[str]
    search_path: Sequence[str]
    """Where its modules are found, as in the parent."""

    log_level: int
    log_format: str


class Outcome(NamedTuple):
    """What became of one record."""

    failure: Failure | None
    outputs: Sequence[Output]


def main(descriptor: int) -> None:
    """Be such a process, at the end of a pipe."""
    pipe = Connection(descriptor)
    program: Program = pipe.recv()
    serve(program, pipe)


def serve(program: Program, pipe: Connection) -> None:
    """Load the handler, say so, and run it for each record that comes.

    The first message is ``None``, or why the handler cannot be loaded and how to mend it; then there is one outcome
    for each record.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log_to_stderr(program.log_level, program.log_format)
    sys.path[:] = program.search_path
    with ExitStack() as stack, suppress(EOFError, BrokenPipeError):
        try:
            handler = load_handler(program.target, program.not_retryable, stack)
        except HandlerLoadError as error:
            pipe.send((error.problem, error.mend))
            return
        pipe.send(None)
        runner = stack.enter_context(asyncio.Runner()) if handler.asynchronous else None
        while True:
            record, deliveries = pipe.recv()
            outcome = _handle(handler, runner, record, Context(deliveries, []))
            try:
                pipe.send(outcome)
            except (EOFError, BrokenPipeError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever pickling raises: the outputs cannot leave this process
                pipe.send(Outcome(handler.failure(error), ()))


def _handle(handler: Handler, runner: asyncio.Runner | None, record: Record, context: Context) -> Outcome:
    arguments = (record, context) if handler.takes_context else (record,)
    try:
        result = handler.call(*arguments)
        if runner is not None:
            result = runner.run(result)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is this record's outcome
        return Outcome(handler.failure(error), ())
    return Outcome(None if result is None else not_run(result), context.outputs)


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)
