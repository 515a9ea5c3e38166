"""A writer on a thread of its own, so that its owner can poll, dispatch and collect during a write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.bounded_waits import get_within
from kafka_redelivery.transport.protocols import Partition, ProducerRecord, ReleaseTime, Writer, WriteResult

_Job = Callable[[], WriteResult]


class WriteThread:
    """Makes one write at a time. One thread owns it: that thread begins every write and takes its result.

    The thread is a daemon: a write that never returns must not keep the process from ending.
    """

    def __init__(self, writer: Writer, wake: Callable[[], None] | None = None) -> None:
        """Start the thread.

        Args:
            writer: makes the writes; nothing else may use it.
            wake: called on the writing thread at the end of each write, for an owner that waits for something else.
        """
        self._writer = writer
        self._wake = wake
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._results: SimpleQueue[WriteResult | BaseException] = SimpleQueue()
        self._checkpoints: Mapping[Partition, Checkpoint] = {}
        self.busy = False
        """Whether a write has begun whose end :meth:`result` has not returned or raised yet."""

        self.began_s: float | None = None
        """When that write began (monotonic); ``None`` if there is none."""

        threading.Thread(target=self._run, name="writer", daemon=True).start()

    def begin(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
    ) -> None:
        """Begin a write; see :meth:`Writer.write`. No other may be in progress."""
        job = partial(self._writer.write, records, checkpoints, release_time, self._writer.group_metadata())
        self.busy, self.began_s = True, monotonic()
        self._checkpoints = checkpoints
        self._jobs.put(job)

    def begin_trial(self, record: ProducerRecord, pause_s: float) -> None:
        """Begin a trial; see :meth:`Writer.trial`. No write may be in progress."""
        self.busy = True
        self._checkpoints = {}
        self._jobs.put(partial(self._writer.trial, record, pause_s))

    def result(self, within_s: float | None = 0.0) -> WriteResult | None:
        """Wait for the end of the write in progress, and finish it.

        Args:
            within_s: seconds to wait at most; ``None`` waits until the write ends.

        Returns:
            ``None`` if the write is still in progress.

        Raises:
            Exception: whatever the write raised.
        """
        try:
            result = get_within(self._results, within_s)
        except Empty:
            return None
        self.busy, self.began_s = False, None
        if isinstance(result, BaseException):
            raise result
        self._writer.finish(self._checkpoints)
        return result

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`BackgroundWriter`."""
        self._writer.finish(checkpoints)

    def close(self) -> None:
        """End the thread and release the client, unless a write that does not return still uses it."""
        self._jobs.put(None)
        if not self.busy:
            self._writer.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            result: WriteResult | BaseException
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - raised by result()
                result = error
            del job  # it references the batch
            self._results.put(result)
            del result
            if self._wake is not None:
                self._wake()
