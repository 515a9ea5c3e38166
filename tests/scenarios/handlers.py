"""The handlers under test. What they do with a record stands in the record: a script, one step for each attempt.

A value is the JSON object ``{"n": 7, "do": ["raise", "ok"]}``: raise at the first attempt, succeed at the second and
all later ones. Steps: see :func:`_act`. Every call is noted in the delivery log before and after it acts.
"""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from kafka_redelivery import Context, Record, Redeliver, Reject
from tests.scenarios.deliveries import first_of, note
from topology.durations import parse_duration

OUTPUT = "SCENARIO_OUTPUT"
"""The environment variable with the topic that successes are emitted to."""


class BrokenPromiseError(Exception):
    """For the configuration's ``notRetryable``."""


class MoreBrokenPromiseError(BrokenPromiseError):
    """A subclass of what is named is not retryable, either."""


def scripted(record: Record, context: Context) -> None:
    """The script, in a thread."""
    verb, argument = _step(record, context)
    note("began", record, context)
    if verb in {"sleep", "stall"}:
        time.sleep(float(argument))
    _act(verb, argument, record, context)
    note("ended", record, context)


async def scripted_async(record: Record, context: Context) -> None:
    """The script, in an event loop."""
    verb, argument = _step(record, context)
    note("began", record, context)
    if verb in {"sleep", "stall"}:
        await asyncio.sleep(float(argument))
    _act(verb, argument, record, context)
    note("ended", record, context)


def _step(record: Record, context: Context) -> tuple[str, str]:
    script: list[str] = record.value["do"]
    verb, _, argument = script[min(context.attempt, len(script)) - 1].partition(" ")
    if verb in {"stall", "memory"} and not first_of(record):
        return "ok", ""
    return verb, argument


def _act(verb: str, argument: str, record: Record, context: Context) -> None:
    """One step.

    * ``ok``: emit ``n``, succeed. ``sleep SECONDS``: the same, after so long.
    * ``stall SECONDS``, ``memory``: sleep, or run out of memory, the very first time; ``ok`` at later deliveries,
      also if the first was not counted.
    * ``big BYTES``: emit so many bytes that cannot be compressed, succeed. ``quiet``: succeed without an output.
    * ``raise``, ``broken`` (an exception named as not retryable), ``reject``: emit ``n``, then fail so.
    * ``until PATH``: like ``raise`` as long as there is no such file, then like ``ok``.
    * ``after DURATION``: emit ``n``, ask to be redelivered after so long.
    * ``leave``: emit ``n``, return without a word. ``ack``: the same, acknowledged; ``recover``: the session recovered.
    * ``kill``, ``exit``: the process ends here and now, by SIGKILL or by ``os._exit``.
    """
    if verb == "quiet":
        return
    _end_here(verb)
    n: Any = record.value["n"]
    value = os.urandom(int(argument)) if verb == "big" else b"%d" % n
    context.send(os.environ[OUTPUT], value, key=record.raw_key)
    match verb:
        case "ok" | "sleep" | "stall" | "big" | "leave":
            return
        case "ack" | "recover":
            record.acknowledge() if verb == "ack" else context.recover()
        case "until" if Path(argument).exists():
            return
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
            raise AssertionError(f"no such step: {verb}")


def _end_here(verb: str) -> None:
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "exit":
        os._exit(3)


def refuse_all(record: Record) -> None:
    """Rejects every record, whatever it holds."""
    raise Reject("value is null" if record.value is None else "value is empty")
