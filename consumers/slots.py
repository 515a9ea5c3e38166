"""Where handlers run: never on the polling thread."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Protocol

from consumers.processor import Processor
from consumers.unit import Unit


class Slots(Protocol):
    """A fixed number of places where units are worked on.

    Every unit handed in comes back through ``done`` exactly once, worked on as far as its position.
    """

    capacity: int

    def submit(self, unit: Unit) -> None:
        """Hand a unit in; the caller keeps count and never hands in more than ``capacity``."""
        ...

    def close(self, timeout_s: float) -> None:
        """Wait so long for what is running, then leave it to the end of the process."""
        ...


class ThreadSlots:
    """A thread for each slot, for plain functions."""

    def __init__(self, capacity: int, processor: Processor, done: SimpleQueue[Unit | None]) -> None:
        self.capacity = capacity
        self._processor = processor
        self._done = done
        self._todo: SimpleQueue[Unit | None] = SimpleQueue()
        self._threads = [
            # Daemons: a handler that never returns must not keep the process from ending.
            threading.Thread(target=self._work, name=f"slot-{number}", daemon=True)
            for number in range(capacity)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, unit: Unit) -> None:
        """See :class:`Slots`."""
        self._todo.put(unit)

    def close(self, timeout_s: float) -> None:
        """See :class:`Slots`."""
        for _ in self._threads:
            self._todo.put(None)
        share = timeout_s / max(1, len(self._threads))
        for thread in self._threads:
            thread.join(share)

    def _work(self) -> None:
        while (unit := self._todo.get()) is not None:
            try:
                self._processor.run(unit)
            except BaseException as error:  # noqa: BLE001 - a fault of ours: halt, rather than wait for ever for the slot
                unit.fail(error)
            unit.started_s = 0.0  # it may lie there for longer than the deadline, while nothing can be taken over
            self._done.put(unit)


class AsyncSlots:
    """One event loop in a thread of its own, for coroutine functions."""

    def __init__(self, capacity: int, processor: Processor, done: SimpleQueue[Unit | None]) -> None:
        self.capacity = capacity
        self._processor = processor
        self._done = done
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(capacity)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slots", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit) -> None:
        """See :class:`Slots`."""
        self._loop.call_soon_threadsafe(self._start, unit)

    def close(self, timeout_s: float) -> None:
        """See :class:`Slots`; what does not end in time is cancelled."""
        asyncio.run_coroutine_threadsafe(self._finish(timeout_s), self._loop).result(timeout_s + 5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._loop.close()

    def _start(self, unit: Unit) -> None:
        task = self._loop.create_task(self._work(unit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, unit: Unit) -> None:
        try:
            async with self._free:
                await self._processor.run_async(unit)
        except Exception as error:  # noqa: BLE001 - as in ThreadSlots
            unit.fail(error)
        finally:
            unit.started_s = 0.0  # as in ThreadSlots
            self._done.put(unit)

    async def _finish(self, timeout_s: float) -> None:
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=1)
