"""Handlers for child processes. The value of the record says what they do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Self

from opentelemetry import trace

from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.record import Context, Record, Reject


def act(record: Record, context: Context) -> None:
    """Emit the process id, then do what the value of the record says."""
    context.send("totals", b"%d" % os.getpid())
    match record.value:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fork and kill":
            if not os.fork():
                time.sleep(60)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "nap" | "sleep":
            time.sleep(0.5 if record.value == "nap" else 60)
        case "raise" | "sys.exit":
            raise ValueError(f"attempt {context.attempt}") if record.value == "raise" else SystemExit(7)
        case "reject":
            raise Reject("never")
        case "unpicklable":
            context.send("totals", lambda: None)
        case "unreadable":
            context.send("totals", Unreadable())


def log(_: Record) -> None:
    """Log a line."""
    logging.getLogger("shop").warning("charged")


async def log_async(record: Record) -> None:
    """Log a line in a task of the call."""
    await asyncio.create_task(asyncio.to_thread(log, record))


def act_together(batch: Batch) -> None:
    """Do what the values of the records say; ``raise for all`` names no record."""
    for record in batch:
        if record.value == "raise for all":
            raise ValueError("all")
        try:
            act(record, batch.context(record))
        except Exception as error:  # noqa: BLE001 - whatever the value asks for
            batch.fail(record, error)


async def act_together_async(batch: Batch) -> None:
    """The same as a coroutine function."""
    await asyncio.sleep(0)
    act_together(batch)


def tell_attempts(batch: Batch) -> None:
    """Emit the attempt of each record."""
    for record in batch:
        batch.send(record, "totals", b"%d" % batch.attempt(record))


def emit_text(_: Record, context: Context) -> None:
    """Emit a record that needs a codec."""
    context.send("totals", "text")


async def act_async(record: Record, context: Context) -> None:
    """The same as a coroutine function."""
    await asyncio.sleep(0)
    if record.value == "gather":
        await asyncio.gather(_exit(), asyncio.sleep(0))
    act(record, context)


async def _exit() -> None:
    sys.exit(7)


class Connected:
    """A handler with a task that answers, in a group that one task must enter and exit. It writes when it is left."""

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._questions: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
        self._answering = self._group.create_task(self._answer())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._answering.cancel()
        await self._group.__aexit__(None, None, None)
        Path(os.environ["CHILD_HANDLERS_LEFT"]).touch()  # noqa: ASYNC240 - nothing else runs here

    async def __call__(self, _: Record, context: Context) -> None:
        """Emit an answer."""
        question: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._questions.put_nowait(question)
        context.send("totals", b"%d" % await question)

    async def _answer(self) -> None:
        number = 0
        while True:
            number += 1
            (await self._questions.get()).set_result(number)


class Unreadable:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self) -> tuple[type[Unreadable], tuple[int]]:
        """Pickle with an argument that the class does not take."""
        return Unreadable, (1,)


class Needing:
    """A handler that needs a database at its start. The file says what is the matter with it; no file: nothing."""

    def __init__(self) -> None:
        file = Path(os.environ["CHILD_HANDLERS_DATABASE"])
        match file.read_text("utf-8") if file.exists() else "":
            case "hangs":
                time.sleep(60)
            case "away":
                raise ConnectionError("the database is away")

    def __call__(self, record: Record, context: Context) -> None:
        """See :func:`act`."""
        act(record, context)


class NeedingOnly(Needing):
    """The same, but it emits nothing, so that nobody asks Kafka for its topic."""

    def __call__(self, record: Record) -> None:  # type: ignore[override]
        """Die if the value says so."""
        if record.raw_value == b"exit":
            os._exit(7)


class Unwilling:
    """A handler that cannot be constructed."""

    def __init__(self) -> None:
        raise RuntimeError("not today")


def die_at_import() -> None:
    """Never called: the process dies when it imports this module."""


if os.environ.get("CHILD_HANDLERS_DIE"):
    os._exit(9)


def trace_once(_: Record) -> None:
    """Make a span of the user."""
    with trace.get_tracer("shop").start_as_current_span("charge"):
        pass
