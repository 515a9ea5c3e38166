"""Slots, in which handlers run beside the polling thread."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Protocol

from kafka_redelivery.consumers.flow.work_item import FinishedItems, WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler


class ItemProcessor(Protocol):
    """Handles work items in slots."""

    def run(self, item: WorkItem) -> None:
        """See :meth:`Processor.run`."""
        ...

    async def run_async(self, item: WorkItem) -> None:
        """See :meth:`Processor.run_async`."""
        ...


class Slots(Protocol):
    """A fixed number of slots, each of which handles one work item at a time.

    Every submitted item is put into the queue of finished items exactly once. Its records below ``position`` have been
    handled.
    """

    capacity: int
    """Number of slots."""

    def submit(self, item: WorkItem) -> None:
        """Queue a work item for the next free slot."""
        ...

    def close(self, timeout_s: float) -> None:
        """Wait for the running handlers, at most ``timeout_s``. Later ones run until the process ends."""
        ...


def open_slots(handler: Handler, capacity: int, processor: ItemProcessor, done: FinishedItems) -> Slots:
    """Return threads for a synchronous handler, tasks in its event loop for an asynchronous one."""
    if handler.asynchronous:
        return AsyncSlots(capacity, processor, done, handler.loop.started())
    return ThreadSlots(capacity, processor, done)


class ThreadSlots:
    """One thread per slot, for synchronous functions."""

    def __init__(self, capacity: int, processor: ItemProcessor, done: FinishedItems) -> None:
        self.capacity = capacity
        self._processor = processor
        self._done = done
        self._todo: SimpleQueue[WorkItem | None] = SimpleQueue()
        self._threads = [
            # Daemon threads: a handler that never returns must not keep the process alive.
            threading.Thread(target=self._work, name=f"slot-{number}", daemon=True)
            for number in range(capacity)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, item: WorkItem) -> None:
        """See :class:`Slots`."""
        self._todo.put(item)

    def close(self, timeout_s: float) -> None:
        """See :class:`Slots`."""
        for _ in self._threads:
            self._todo.put(None)
        share = timeout_s / max(1, len(self._threads))
        for thread in self._threads:
            thread.join(share)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                self._processor.run(item)
            except BaseException as error:  # noqa: BLE001 - our own error: halt instead of losing the slot
                item.fail(error)
            item.leave_slot()
            self._done.put(item)


class AsyncSlots:
    """Slots in an event loop that runs in a thread of its own, for asynchronous functions."""

    def __init__(
        self, capacity: int, processor: ItemProcessor, done: FinishedItems, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.capacity = capacity
        self._processor = processor
        self._done = done
        self._tasks: dict[asyncio.Task[None], WorkItem] = {}
        self._free = asyncio.Semaphore(capacity)
        self._loop = loop

    def submit(self, item: WorkItem) -> None:
        """See :class:`Slots`."""
        self._loop.call_soon_threadsafe(self._start, item)

    def close(self, timeout_s: float) -> None:
        """See :class:`Slots`. Handlers that do not return in time are cancelled."""
        asyncio.run_coroutine_threadsafe(self._finish(timeout_s), self._loop).result(timeout_s + 5)

    def _start(self, item: WorkItem) -> None:
        task = self._loop.create_task(self._work(item))
        self._tasks[task] = item
        task.add_done_callback(self._tasks.pop)

    async def _work(self, item: WorkItem) -> None:
        try:
            async with self._free:
                await self._processor.run_async(item)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - as in ThreadSlots
            item.fail(error)
        finally:
            item.leave_slot()
            self._done.put(item)

    async def _finish(self, timeout_s: float) -> None:
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in running:
                self._tasks[task].abandoned = True  # it has no outcome, and is delivered again
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=1)
