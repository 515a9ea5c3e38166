"""A write in progress does not block its owner, and its result is returned once."""

import threading
from collections.abc import Mapping, Sequence

import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.write_thread import WriteThread
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import Partition, ProducerRecord, ReleaseTime, WriteResult

COPY = ProducerRecord("orders", 0, None, b"1")
POINT = {Partition("orders", 0): Checkpoint(1, "")}
WITHIN_S = 10.0
PAUSE_S = 4.0


class Gate:
    """A writer that waits until the test opens it, then succeeds or fails as configured."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.open = threading.Event()
        self.asked: list[tuple[Sequence[ProducerRecord], Mapping[Partition, Checkpoint], ReleaseTime | None]] = []
        self.tried: list[ProducerRecord] = []
        self.closed = False
        self.threads: list[int] = []
        """Threads that used the consumer."""

        self._error = error

    def group_metadata(self) -> object:
        """See :class:`Writer`."""
        self.threads.append(threading.get_ident())
        return "we"

    def write(
        self,
        records: Sequence[ProducerRecord],
        checkpoints: Mapping[Partition, Checkpoint],
        release_time: ReleaseTime | None = None,
        group_metadata: object = None,
    ) -> WriteResult:
        """See :class:`Writer`."""
        assert group_metadata == "we"
        self.asked.append((records, checkpoints, release_time))
        assert self.open.wait(WITHIN_S)
        if self._error is not None:
            raise self._error
        return WriteResult(0.5)

    def trial(self, record: ProducerRecord, pause_s: float) -> WriteResult:
        """See :class:`Writer`."""
        assert pause_s == PAUSE_S
        self.tried.append(record)
        assert self.open.wait(WITHIN_S)
        if self._error is not None:
            raise self._error
        return WriteResult(0.0)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`Writer`."""
        assert checkpoints == ({} if self.tried else POINT)
        self.threads.append(threading.get_ident())

    def close(self) -> None:
        """See :class:`Writer`."""
        self.closed = True


def test_owner_is_not_blocked_by_a_write() -> None:
    """While the write is in progress the result is ``None`` and the thread is busy."""
    gate = Gate()
    thread = WriteThread(gate)
    thread.begin([COPY], POINT, ReleaseTime(1, 2.0))
    assert thread.busy
    assert thread.result() is None
    assert thread.result(0.01) is None
    gate.open.set()
    assert thread.result(None) == WriteResult(0.5)
    assert not thread.busy
    assert gate.asked == [([COPY], POINT, ReleaseTime(1, 2.0))]
    assert gate.threads == [threading.get_ident()] * 2


def test_error_of_a_write_is_raised_by_result() -> None:
    """Every kind of exception; afterwards the next write can begin."""
    gate = Gate(WriteAbortedError("no"))
    gate.open.set()
    thread = WriteThread(gate)
    for _ in range(2):
        thread.begin([], POINT)
        with pytest.raises(WriteAbortedError):
            thread.result(WITHIN_S)
        assert not thread.busy


def test_a_trial_does_not_block_its_owner() -> None:
    """It is made on the writing thread, like a write, and commits no offset."""
    gate = Gate()
    thread = WriteThread(gate)
    thread.begin_trial(COPY, PAUSE_S)
    assert thread.busy
    assert thread.result() is None
    gate.open.set()
    assert thread.result(WITHIN_S) == WriteResult(0.0)
    assert not thread.busy
    assert (gate.tried, gate.asked) == ([COPY], [])


def test_wake_is_called_after_a_write() -> None:
    """When ``wake`` is called, the result is available."""
    gate, woken = Gate(), threading.Event()
    thread = WriteThread(gate, woken.set)
    thread.begin([], POINT)
    assert not woken.wait(0.01)
    gate.open.set()
    assert woken.wait(WITHIN_S)
    assert thread.result() == WriteResult(0.5)


def test_close_releases_the_client() -> None:
    """Except while a write that does not return still uses it."""
    idle, held = Gate(), Gate()
    WriteThread(idle).close()
    assert idle.closed
    thread = WriteThread(held)
    thread.begin([], POINT)
    thread.close()
    assert not held.closed
    held.open.set()


def test_write_that_cannot_begin_does_not_leave_the_thread_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its owner would wait for a result that never comes."""
    gate = Gate()
    thread = WriteThread(gate)
    monkeypatch.setattr(gate, "group_metadata", closed)
    with pytest.raises(RuntimeError):
        thread.begin([], POINT)
    assert not thread.busy
    thread.close()
    assert gate.closed


def closed() -> object:
    """Raise what a closed consumer raises."""
    raise RuntimeError("Consumer closed")
