"""A writer on a thread of its own, so that its owner polls, hands out and collects while a write is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from topology.progress import Checkpoint
from transport.protocols import Copy, Due, Partition, Writer, Written
from transport.queue_wait import next_of

_Job = Callable[[], Written]


class WriteThread:
    """Makes one write at a time. Owned by one thread, which begins every write and sees its end.

    The thread is a daemon: a write that never returns must not keep the process from ending.
    """

    def __init__(self, writer: Writer, wake: Callable[[], None] | None = None) -> None:
        """Prepare.

        Args:
            writer: what writes; nobody else may use it.
            wake: called on the writing thread after the end of each write, for an owner that waits for something else.
        """
        self._writer = writer
        self._wake = wake
        self._todo: SimpleQueue[_Job | None] = SimpleQueue()
        self._ends: SimpleQueue[Written | BaseException] = SimpleQueue()
        self._checkpoints: Mapping[Partition, Checkpoint] = {}
        self.busy = False
        """Whether a write has begun whose end :meth:`ended` has not told yet."""

        threading.Thread(target=self._run, name="writer", daemon=True).start()

    def begin(
        self, copies: Sequence[Copy], checkpoints: Mapping[Partition, Checkpoint], due: Due | None = None
    ) -> None:
        """Begin a write; see :meth:`transport.protocols.Writer.write`. None may be under way."""
        job = partial(self._writer.write, copies, checkpoints, due, self._writer.member())
        self.busy = True
        self._checkpoints = checkpoints
        self._todo.put(job)

    def ended(self, within_s: float | None = 0.0) -> Written | None:
        """Wait for the end of the write under way.

        Args:
            within_s: at most so long; ``None`` = until it ends.

        Returns:
            ``None`` if it is still under way.

        Raises:
            Exception: whatever the write raised.
        """
        try:
            end = next_of(self._ends, within_s)
        except Empty:
            return None
        self.busy = False
        if isinstance(end, BaseException):
            raise end
        self._writer.finish(self._checkpoints)
        return end

    def close(self) -> None:
        """Release the client, unless a write that does not return still holds it."""
        self._todo.put(None)
        if not self.busy:
            self._writer.close()

    def _run(self) -> None:
        while (job := self._todo.get()) is not None:
            end: Written | BaseException
            try:
                end = job()
            except BaseException as error:  # noqa: BLE001 - raised again where the end is waited for
                end = error
            del job  # it holds the batch
            self._ends.put(end)
            del end
            if self._wake is not None:
                self._wake()
