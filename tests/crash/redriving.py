"""`redelivery dlq` in a process of its own, with a trap."""

import os
from pathlib import Path
from typing import Final

from tests.crash.crashing import stopped
from tests.crash.load import TRANSACTION_MS
from tests.crash.program import PROGRAM
from tests.scenarios.redriving import dead_letter
from tests.scenarios.running import Group, Process
from tests.scenarios.waiting import until

LETTERS: Final = 80
"""In two slices, each of two chunks with 20 letters and their progress, if the rate is :data:`RATE`."""

RATE: Final = ("--rate", "80")


def prepare(group: Group, letters: int = LETTERS) -> None:
    """Create the topics of a group, and its dead letters."""
    group.prepare(kafka={"producer.transaction.timeout.ms": TRANSACTION_MS})
    dead_letter(group, range(letters))


def start(group: Group, trap: str, *arguments: str) -> tuple[Process, Path]:
    """Start `redelivery dlq` with a trap; return it and the file that it writes when the trap acts."""
    name = f"dlq-{len(group.processes)}"
    mark = group.folder / f"mark-{name}"
    command = [*PROGRAM, trap, str(mark), "dlq", *arguments, "--config", str(group.file)]
    process = Process(name, command, os.environ, group.folder / f"{name}.log")
    group.processes.append(process)
    return process, mark


def suspended_at(group: Group, step: str, *arguments: str) -> Process:
    """Start `redelivery dlq` and wait until it has suspended itself at a step."""
    process, mark = start(group, f"{step}:stop", *arguments)
    until(lambda: not process.running or (mark.exists() and stopped(process)), f"it is suspended at {step}")
    assert process.running, process.log
    return process
