"""Handlers for child processes; what they do stands in the record's value."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from consumers.record import Context, Record, Reject


def act(record: Record, context: Context) -> None:
    """Emit the own process id, then do as the record says."""
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
        case "sleep":
            time.sleep(60)
        case "raise":
            raise ValueError(f"attempt {context.attempt}")
        case "reject":
            raise Reject("never")
        case "unpicklable":
            context.send("totals", lambda: None)
        case "unreadable":
            context.send("totals", Unreadable())


async def act_async(record: Record, context: Context) -> None:
    """The same, awaited."""
    await asyncio.sleep(0)
    act(record, context)


class Unreadable:
    """Can be sent, and not received."""

    def __reduce__(self) -> tuple[type[Unreadable], tuple[int]]:
        """With an argument that its class does not take."""
        return Unreadable, (1,)


class Unwilling:
    """Cannot be started."""

    def __init__(self) -> None:
        raise RuntimeError("not today")


def die_at_import() -> None:
    """Never called."""


if os.environ.get("CHILD_HANDLERS_DIE"):
    os._exit(9)
