"""A program that is frozen in the middle of a handler's call for longer than the deadline."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import psutil

from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.topology.config.settings import HandlerSection
from tests.unit.consumers.records import NOW, record, source

DEADLINE = timedelta(seconds=4)
CALL_S = 1.5
_STEPS = 30
_FREEZE_S = 6.0
_BEGAN = "the call has begun"


def handle(_: object = None) -> None:
    """Take some time, and a part of it after the freeze."""
    print(_BEGAN, flush=True)  # noqa: T201 - read by freeze()
    for _step in range(_STEPS):
        time.sleep(CALL_S / _STEPS)


def outcome(case: str) -> str:
    """Run one of the cases of this module in a process that is frozen."""
    return freeze([sys.executable, "-m", __name__, case])


def freeze(command: list[str]) -> str:
    """Start a program, freeze it with its children during the call, and return the last line that it prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline().strip() == _BEGAN
            freeze_family(program.pid, _FREEZE_S)
            return program.stdout.read().strip()
        finally:
            program.kill()


def freeze_family(pid: int, seconds: float) -> None:
    """Freeze a process with all its children for some time."""
    frozen = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for each in frozen:
        each.suspend()
    time.sleep(seconds)
    for each in frozen:
        with suppress(psutil.NoSuchProcess):
            each.resume()


def pool() -> WorkItem:
    """Handle a record in a child process."""
    section = HandlerSection(callable=f"{__spec__.name}:handle", slots=1, deadline=DEADLINE)
    children = ChildProcessPool(section)
    try:
        item = _item()
        Processor(children.handler(), {}, lambda: NOW, None).run(item)
    finally:
        children.close()
    return item


def asynchronous() -> WorkItem:
    """Handle a record in an event loop."""

    async def wait(_: Record) -> None:
        print(_BEGAN, flush=True)  # noqa: T201 - read by freeze()
        await asyncio.sleep(CALL_S)

    item = _item()
    asyncio.run(Processor(as_handler(wait), {}, lambda: NOW, DEADLINE).run_async(item))
    return item


def _item() -> WorkItem:
    return WorkItem(Lane(source(), exclusive=True), [record(0)])


if __name__ == "__main__":
    cases: dict[str, Callable[[], WorkItem]] = {"pool": pool, "asynchronous": asynchronous}
    done = cases[sys.argv[1]]()
    print(done.failures or ("in time" if done.position else "held"))  # noqa: T201 - the outcome
