"""The handlers under test. As in ``tests/scenarios/handlers.py`` a record says what is to be done with it.

They run in processes that a session's first test has started, so nothing is told to them but by records: a value is the
JSON object ``{"n": 7, "do": ["raise", "ok"]}``, and what succeeds is emitted to the topic of the group's outputs.
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafka_redelivery import BatchContext, Context, Record, Redeliver, Reject, Unavailable


def output_of(source: str) -> str:
    """The topic of the outputs of a group, by its source."""
    return source.removesuffix(".in") + ".out"


def scripted(record: Record, context: Context) -> None:
    """One step for each attempt; the last one for all that follow."""
    script: list[str] = record.value["do"]
    verb, _, argument = script[min(context.attempt, len(script)) - 1].partition(" ")
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "exit":
        os._exit(3)
    if verb == "stall" and context.attempt == 1:
        time.sleep(60)
    if verb in {"hold", "bank"}:
        (_hold if verb == "hold" else _call_bank)(Path(argument))
    if verb == "quiet":
        return
    n = record.value["n"]
    value = os.urandom(int(argument)) if verb == "big" else b"%d" % n
    topic = argument if verb == "to" else output_of(record.topic)
    context.send(topic, value, key=record.raw_key)
    if verb == "raise" or (verb == "until" and not Path(argument).exists()):
        raise ValueError(f"record {n} fails")
    if verb == "reject":
        raise Reject(f"record {n} is rejected")
    if verb == "redeliver":
        raise Redeliver(f"record {n} again")
    if verb == "memory":
        raise MemoryError


async def scripted_async(record: Record, context: Context) -> None:
    """The same in a coroutine."""
    await asyncio.sleep(0.001)
    scripted(record, context)


def _hold(gate: Path) -> None:
    """Wait until a file is there; that somebody waits is told by another one beside it."""
    gate.with_suffix(".held").touch()
    while not gate.exists():
        time.sleep(0.01)


def _call_bank(down: Path) -> None:
    """Note the call in a file, while there is one: the bank is down then."""
    if down.exists():
        with down.open("a", encoding="utf-8") as calls:
            calls.write("called\n")
        raise Unavailable("bank")


def vectorized(batch: pa.RecordBatch, context: BatchContext) -> None:
    """The same for many records: a row that is to ``throw`` brings the whole call down."""
    steps = [_step(value, attempt) for value, attempt in zip(batch["value"], batch["attempt"], strict=True)]
    verbs = np.array([verb for _, verb in steps])
    if "kill" in verbs:
        os.kill(os.getpid(), signal.SIGKILL)
    if "throw" in verbs:
        raise RuntimeError("the whole batch fails")
    context.fail(verbs == "raise", ValueError("rows fail"))
    context.fail(np.flatnonzero(verbs == "reject"), Reject("rows are rejected"))
    topic = output_of(batch["topic"][0].as_py())
    context.send(topic, [b"%d" % n for n, _ in steps], keys=batch["key"], headers=batch["headers"])
    if "to" in verbs:
        context.send("no.such.topic", [b"lost"], rows=verbs == "to")


def _step(value: pa.Scalar, attempt: pa.Scalar) -> tuple[int, str]:
    record = json.loads(value.as_py())
    return record["n"], record["do"][min(attempt.as_py(), len(record["do"])) - 1]
