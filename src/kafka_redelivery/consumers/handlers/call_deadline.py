"""The deadline of a call of an asynchronous handler."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from kafka_redelivery.consumers.running_time import seconds_ago


class CallDeadline:
    """Cancels the task at the deadline, like :func:`asyncio.timeout`, but time in which the process was frozen is free.

    After a freeze, the event loop runs the callbacks of all timers that are due. ``asyncio.timeout`` would cancel a
    handler whose own timer or answer has come meanwhile.
    """

    def __init__(self, seconds: float | None) -> None:
        """Prepare.

        Args:
            seconds: how long the task may take within the context; ``None`` = without limit.
        """
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._started_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def expired(self) -> bool:
        """Whether the task was cancelled at the deadline."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        """Start the time."""
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._started_s = seconds_ago(0.0)  # now; freezes are noticed from here on
            self._wait(self._seconds, self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the time. Raises ``TimeoutError`` if the deadline has passed."""
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _wait(self, left_s: float, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(left_s, self._check, seconds)

    def _check(self, seconds: float) -> None:
        left_s = self._started_s - seconds_ago(seconds)
        if left_s > 0:
            self._wait(left_s, seconds)
        else:
            self._timeout.reschedule(0.0)  # in the past
