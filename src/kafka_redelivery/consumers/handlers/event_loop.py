"""The event loop of the handlers: for asynchronous calls, and for what is opened and closed asynchronously."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import partial
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kafka_redelivery.consumers.running_time import seconds_ago

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_ANSWER_S: Final = 5.0
"""How long the loop may take to answer before it is closed. A handler may block it for ever."""


async def in_thread(call: Callable[[], object]) -> None:
    """Run a call that may wait long in a thread of its own, and ignore how it ends.

    The threads of the loop's executor stay free for what the program runs there, and the process can end meanwhile.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        with suppress(Exception):  # the caller repeats the call, and gets the error
            call()
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(ended.set)

    Thread(target=run, name="look-up", daemon=True).start()
    await ended.wait()


class HandlerLoop:
    """An event loop that is started when it is used for the first time.

    ``SystemExit`` of any task or callback ends a loop of asyncio. The task has it as its outcome by then, so this loop
    goes on.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        """Prepare.

        Args:
            threaded: run in a thread of its own until :meth:`close`, so that what the handler does in the background
                goes on between its calls. Otherwise the loop runs within :meth:`run`, in the thread of the caller.
        """
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=self._run_forever, name="handler-loop", daemon=True) if threaded else None
        self._ending = False
        self._held: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        """For each context manager the task that has entered it, and the event that makes it leave."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ending(self) -> bool:
        """Whether all tasks are being cancelled because the loop ends, so that no cancelled handler has failed."""
        return False

    def seconds_ago(self, seconds: float) -> float:
        """Return the monotonic time since which the loop could run for ``seconds``; see :mod:`running_time`."""
        return seconds_ago(seconds)

    def started(self) -> asyncio.AbstractEventLoop:
        """Start the loop if it has not been started, and return it. Not thread-safe."""
        if self._loop is None:
            self._loop = self._runner.get_loop()
            if self._thread is not None:
                self._thread.start()
        return self._loop

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end and return its result. Call it from outside the loop."""
        loop = self.started()
        if self._thread is not None:
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
        task = loop.create_task(coroutine)
        while not task.done():
            with suppress(SystemExit):  # of this task or of another one
                loop.run_until_complete(task)
        return task.result()

    def enter(self, resource: AbstractAsyncContextManager[_T]) -> _T:
        """Enter a context manager on the loop; :meth:`close` leaves it. One task does both, as task groups need it."""
        return self.run(self._enter(resource))

    def close(self) -> None:
        """Leave the context managers, the last one first, cancel what else runs, and end the loop.

        It cannot be used again. Raises what a context manager raises. A loop that does not answer is left to the end of
        the process.
        """
        loop = self._loop
        if loop is None or self._ending:
            return
        if self._thread is not None and not _answers(loop):
            _log.warning("the handler blocks its event loop, so what it has opened is not closed")
            return
        try:
            self._leave_all()
        finally:
            self._ending = True
            if self._thread is None:
                self._runner.close()
            else:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join(_ANSWER_S)  # a task that ignores its cancellation ends with the process

    def close_elsewhere(self) -> None:
        """Close a loop without a thread of its own in another thread: in the current one another loop may run.

        Waits at most five seconds.
        """
        if self._loop is not None and not self._ending:
            thread = Thread(target=self.close, name="handler-loop-end", daemon=True)
            thread.start()
            thread.join(_ANSWER_S)

    def _leave_all(self) -> None:
        with ExitStack() as stack:  # also leaves the others if one raises
            for held, leave in self._held:
                stack.callback(lambda held, leave: self.run(self._exit(held, leave)), held, leave)

    async def _enter(self, resource: AbstractAsyncContextManager[_T]) -> _T:
        entered: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()
        held = asyncio.create_task(self._hold(resource, entered, leave))
        await asyncio.wait((entered, held), return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            held.result()
        self._held.append((held, leave))
        held.add_done_callback(partial(self._report_end, leave))
        return await entered

    async def _hold(
        self, resource: AbstractAsyncContextManager[_T], entered: asyncio.Future[_T], leave: asyncio.Event
    ) -> None:
        async with resource as found:
            entered.set_result(found)
            await leave.wait()

    async def _exit(self, held: asyncio.Task[None], leave: asyncio.Event) -> None:
        leave.set()
        await held

    def _report_end(self, leave: asyncio.Event, held: asyncio.Task[None]) -> None:
        """Log that something but :meth:`close` has ended the context manager, such as a task in its task group."""
        if not leave.is_set():
            error = None if held.cancelled() else held.exception()
            reason = "it was cancelled" if error is None else type(error).__qualname__
            _log.error("what the handler has opened was closed before the handler's end: %s", reason)

    def _run_forever(self) -> None:
        loop = self._runner.get_loop()
        while not self._ending:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                _log.debug("%s ended a task or callback of the handler", type(error).__name__)
        self._runner.close()


def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    answer = Event()
    loop.call_soon_threadsafe(answer.set)
    return answer.wait(_ANSWER_S)
