"""Handlers for child processes. The value of the record says what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

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
        case "raise":
            raise ValueError(f"attempt {context.attempt}")
        case "reject":
            raise Reject("never")
        case "unpicklable":
            context.send("totals", lambda: None)
        case "unreadable":
            context.send("totals", Unreadable())


def emit_text(_: Record, context: Context) -> None:
    """Emit a record that needs a codec."""
    context.send("totals", "text")


async def act_async(record: Record, context: Context) -> None:
    """The same as a coroutine function."""
    await asyncio.sleep(0)
    act(record, context)


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
