"""The handlers under test. As in ``tests/scenarios/handlers.py`` a record says what is to be done with it.

They run in processes that a session's first test has started, so nothing is told to them but by records: a value is the
JSON object ``{"n": 7, "do": ["raise", "ok"]}``, and what succeeds is emitted to the topic of the group's outputs.
"""

import os
import signal
import time

from kafka_redelivery import Context, Record, Redeliver, Reject


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
    if verb == "sleep":
        time.sleep(float(argument))
    if verb == "quiet":
        return
    n = record.value["n"]
    value = os.urandom(int(argument)) if verb == "big" else b"%d" % n
    topic = argument if verb == "to" else output_of(record.topic)
    context.send(topic, value, key=record.raw_key)
    if verb == "raise":
        raise ValueError(f"record {n} fails")
    if verb == "reject":
        raise Reject(f"record {n} is rejected")
    if verb == "redeliver":
        raise Redeliver(f"record {n} again")
    if verb == "memory":
        raise MemoryError
