"""``python -m tests.fuzz [--inputs N] [--seconds S] [--seed S]``: prints a table of what was tried."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from random import Random
from typing import Final

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS, Target

_SLOW_S: Final = 2.0
"""An input of some kilobytes that takes longer counts as a fault."""


def run(target: Target, inputs: int, seconds: float, seed: int) -> tuple[int, int, float, list[bytes]]:
    """Read mutated examples; return how many, how many of them were accepted, the seconds, and those with a fault."""
    random, accepted, faults = Random(seed), 0, []  # noqa: S311 - to be repeated
    began_s = time.monotonic()
    for number in range(inputs):
        data = mutated(random, target.examples)
        before_s = time.monotonic()
        try:
            target.read(data)
            accepted += 1
        except target.errors:
            pass
        except Exception:  # noqa: BLE001 - a fault is any other error
            traceback.print_exc()
            faults.append(data)
        now_s = time.monotonic()
        if now_s - before_s > _SLOW_S:
            faults.append(data)
        if now_s - began_s > seconds or len(faults) > 20:
            return number + 1, accepted, now_s - began_s, faults
    return inputs, accepted, time.monotonic() - began_s, faults


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run all targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=15)
    options = parser.parse_args()
    _say("| what is read | inputs | accepted | faults | seconds |\n| --- | --- | --- | --- | --- |")
    for target in TARGETS:
        inputs, accepted, took_s, faults = run(target, options.inputs, options.seconds, options.seed)
        _say(f"| {target.name} | {inputs:,} | {accepted:,} | {len(faults)} | {took_s:.0f} |")
        for each in faults[:5]:
            _say(repr(each[:3000]))


if __name__ == "__main__":
    main()
