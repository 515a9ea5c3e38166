"""The handlers under test. Each record carries a script that says what its handler does at each attempt.

A value is the JSON object ``{"n": 7, "do": ["raise", "ok"]}``: raise at the first attempt, succeed at the second and
all later ones. Steps: see :func:`_act`. Every call is noted in the delivery log before and after it acts.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Self

from kafka_redelivery import Batch, Context, Record, Redeliver, Reject
from kafka_redelivery.topology.durations import parse_duration
from tests.scenarios.deliveries import LOG, first_of, note
from tests.scenarios.waiting import LOOK_S

OUTPUT = "SCENARIO_OUTPUT"
"""The environment variable with the topic that successes are emitted to."""

CLOSED = "connections-closed"
"""A file of this name beside the delivery log has a line for each connection that was closed."""

AWAY = "database-away"
"""A file of this name beside the delivery log means that the database is away."""


BATCHES = "batches.jsonl"
"""A file of this name beside the delivery log has a line with the numbers of the records in each batch."""


class BatchError(Exception):
    """Raised by a call with a batch without a word about one of its records."""


BANK_AWAY, BANK_CALLS, BANK_PROBES = "bank-away", "bank-calls", "bank-probes"
"""Files beside the delivery log: the bank is away; a line for each call of it, and for each call of its probe."""


class BankDownError(Exception):
    """Listed as what means that the bank is away."""


class BrokenPromiseError(Exception):
    """Listed in the configuration's ``notRetryable``."""


class MoreBrokenPromiseError(BrokenPromiseError):
    """A subclass of a listed exception, which makes it not retryable, too."""


def scripted(record: Record, context: Context) -> None:
    """Run the script in a thread."""
    verb, argument = _step(record, context)
    note("began", record, context)
    if verb in {"sleep", "stall"}:
        time.sleep(float(argument))
    while verb == "wait" and not Path(argument).exists():
        time.sleep(LOOK_S)
    _act(verb, argument, record, context)
    note("ended", record, context)


def _look_for_database() -> None:
    if (Path(os.environ[LOG]).parent / AWAY).exists():
        raise ConnectionError("the database is away")


class Needing:
    """Runs the script in a process that needs a database at its start."""

    def __init__(self) -> None:
        _look_for_database()

    def __call__(self, record: Record, context: Context) -> None:
        """See :func:`scripted`."""
        scripted(record, context)


def scripted_batch(batch: Batch) -> None:
    """Run the script of each record in one call, which raises only for ``nameless``. Note the numbers of the batch."""
    numbers = [record.value["n"] for record in batch]
    with (Path(os.environ[LOG]).parent / BATCHES).open("a") as file:
        file.write(f"{json.dumps(numbers)}\n")
    for record in batch:
        context = batch.context(record)
        if _step(record, context)[0] == "nameless":
            raise BatchError(f"in a batch of {len(batch)}")
        try:
            scripted(record, context)
        except Exception as error:  # noqa: BLE001 - whatever the script asks for
            batch.fail(record, error)


async def scripted_async(record: Record, context: Context) -> None:
    """Run the script in an event loop."""
    verb, argument = _step(record, context)
    note("began", record, context)
    if verb in {"sleep", "stall"}:
        await asyncio.sleep(float(argument))
    if verb == "gather":
        await asyncio.gather(_exit(), asyncio.sleep(0))
    if verb == "group":
        async with asyncio.TaskGroup() as group:
            group.create_task(_exit())
    _act(verb, argument, record, context)
    note("ended", record, context)


async def _exit() -> None:
    sys.exit(3)


class Connected:
    """Runs the script with a connection that is opened, used and closed on one event loop, in one task group.

    It fails the record if the connection is not usable. A line beside the delivery log says when it was closed.
    """

    async def __aenter__(self) -> Self:
        _look_for_database()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._turn = asyncio.Lock()
        self._server = await asyncio.start_server(self._echo, "127.0.0.1", 0)
        self._reader, self._writer = await asyncio.open_connection(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()
        self._server.close()
        await self._group.__aexit__(None, None, None)
        with (Path(os.environ[LOG]).parent / CLOSED).open("a") as closed:
            closed.write(f"{time.time()}\n")

    async def __call__(self, record: Record, context: Context) -> None:
        """See :func:`scripted_async`."""
        async with self._turn, asyncio.timeout(20):
            self._writer.write(b"ping\n")
            assert await self._reader.readline() == b"ping\n"
        await scripted_async(record, context)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def echo() -> None:
            while line := await reader.readline():
                writer.write(line)
            writer.close()

        await self._group.create_task(echo())


def _step(record: Record, context: Context) -> tuple[str, str]:
    script: list[str] = record.value["do"]
    verb, _, argument = script[min(context.attempt, len(script)) - 1].partition(" ")
    if verb in {"stall", "memory"} and not first_of(record):
        return "ok", ""
    return verb, argument


def _act(verb: str, argument: str, record: Record, context: Context) -> None:  # noqa: C901 - a case for each step
    """Do one step.

    * ``ok``: emit ``n``, succeed. ``sleep SECONDS``: sleep first, then do the same. ``wait PATH``: in a thread, wait
      until the file exists, then do the same.
    * ``stall SECONDS``, ``memory``: sleep, or run out of memory, at the very first delivery; ``ok`` at later ones,
      also if the first was not counted.
    * ``big BYTES``: emit ``BYTES`` bytes that cannot be compressed, succeed. ``quiet``: succeed without an output.
    * ``to TOPIC``: emit to that topic instead, succeed. ``number TOPIC``: emit ``n`` there as an int, succeed.
    * ``raise``, ``broken`` (an exception named as not retryable), ``reject``: emit ``n``, then fail in that way.
    * ``until PATH``: like ``raise`` until the file exists, then like ``ok``.
    * ``bank PATH``: note a call of the bank; like ``ok`` until the file exists, and then the bank is away.
    * ``after DURATION``: emit ``n``, ask to be redelivered after ``DURATION``.
    * ``leave``: emit ``n``, return without acknowledging. ``ack``: emit and acknowledge. ``recover``: emit and recover
      the session.
    * ``kill``, ``exit``: end the process immediately, by SIGKILL or by ``os._exit``. ``sys.exit``: call that;
      ``gather``, ``group``: call it in a task of the handler's own, in an event loop.
    """
    if verb == "quiet":
        return
    _end_here(verb)
    n: Any = record.value["n"]
    value: Any = os.urandom(int(argument)) if verb == "big" else n if verb == "number" else b"%d" % n
    context.send(argument if verb in {"to", "number"} else os.environ[OUTPUT], value, key=record.raw_key)
    match verb:
        case "ok" | "sleep" | "wait" | "stall" | "big" | "leave" | "to" | "number":
            return
        case "ack" | "recover":
            record.acknowledge() if verb == "ack" else context.recover()
        case "until" if Path(argument).exists():
            return
        case "bank":
            _call_bank(Path(argument))
        case "raise" | "until":
            raise ValueError(f"attempt {context.attempt} of {n}")
        case "broken":
            raise MoreBrokenPromiseError("never again")
        case "reject":
            raise Reject("not this one")
        case "memory":
            raise MemoryError("all of it")
        case "after":
            raise Redeliver("not yet", after=parse_duration(argument))
        case _:
            raise AssertionError(f"unknown step: {verb}")


def _call_bank(away: Path) -> None:
    """Note a call beside the file that means that the bank is away, and whether it was."""
    gone = away.exists()
    with away.with_name(BANK_CALLS).open("a") as calls:
        calls.write(f"{time.time()} {int(gone)}\n")
    if gone:
        raise BankDownError("no route to the bank")


def bank_answers() -> bool:
    """The probe: note its call, and say whether the bank is there."""
    away = Path(os.environ[LOG]).with_name(BANK_AWAY)
    with away.with_name(BANK_PROBES).open("a") as calls:
        calls.write(f"{time.time()}\n")
    return not away.exists()


def _end_here(verb: str) -> None:
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "exit":
        os._exit(3)
    if verb == "sys.exit":
        sys.exit(3)


def refuse_all(record: Record) -> None:
    """Reject every record, whatever its value."""
    raise Reject("value is null" if record.value is None else "value is empty")


def telling(record: Record) -> None:
    """Fail with an exception that quotes the record's key, and was caused by one that does, too."""
    text = (record.raw_key or b"").decode()
    raise ValueError(f"cannot charge {text}") from KeyError(text)


def passing_on(record: Record, context: Context) -> None:
    """Emit the decoded value as it is."""
    context.send(os.environ[OUTPUT], record.value, key=record.raw_key)
