"""The handler mounted into worker containers; each record carries a script that says what its handler does.

A value is ``{"n": 7, "do": ["raise", "ok"]}``: raise at the first attempt, succeed at the second and all later ones.
Steps: ``ok``, ``sleep SECONDS`` and then succeed, ``raise``, ``reject``. Each emits ``n`` first.
"""

import os
import time

from kafka_redelivery import Context, Record, Reject


def scripted(record: Record, context: Context) -> None:
    """Do the step of this attempt."""
    n, script = record.value["n"], record.value["do"]
    verb, _, argument = script[min(context.attempt, len(script)) - 1].partition(" ")
    context.send(os.environ["OUTPUT"], b"%d" % n, key=record.raw_key)
    if verb == "sleep":
        time.sleep(float(argument))
    if verb == "raise":
        raise ValueError(f"attempt {context.attempt} of {n}")
    if verb == "reject":
        raise Reject("not this one")
