"""A write under way does not keep its owner, and its end is told once."""

import threading
from collections.abc import Mapping, Sequence

import pytest

from topology.progress import Checkpoint
from transport.errors import WriteUndoneError
from transport.protocols import Copy, Due, Partition, Written
from transport.write_thread import WriteThread

COPY = Copy("orders", 0, None, b"1")
POINT = {Partition("orders", 0): Checkpoint(1, "")}
WITHIN_S = 10.0


class Gate:
    """A writer that waits to be let through, then does as told."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.open = threading.Event()
        self.asked: list[tuple[Sequence[Copy], Mapping[Partition, Checkpoint], Due | None]] = []
        self.closed = False
        self.threads: list[int] = []
        """On which the consumer was used."""

        self._error = error

    def member(self) -> object:
        """See :class:`transport.protocols.Writer`."""
        self.threads.append(threading.get_ident())
        return "we"

    def write(
        self,
        copies: Sequence[Copy],
        checkpoints: Mapping[Partition, Checkpoint],
        due: Due | None = None,
        member: object = None,
    ) -> Written:
        """See :class:`transport.protocols.Writer`."""
        assert member == "we"
        self.asked.append((copies, checkpoints, due))
        assert self.open.wait(WITHIN_S)
        if self._error is not None:
            raise self._error
        return Written(0.5)

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`transport.protocols.Writer`."""
        assert checkpoints == POINT
        self.threads.append(threading.get_ident())

    def close(self) -> None:
        """See :class:`transport.protocols.Writer`."""
        self.closed = True


def test_the_owner_goes_on() -> None:
    """Until the end is there it is told so, and is busy."""
    gate = Gate()
    thread = WriteThread(gate)
    thread.begin([COPY], POINT, Due(1, 2.0))
    assert thread.busy
    assert thread.ended() is None
    assert thread.ended(0.01) is None
    gate.open.set()
    assert thread.ended(None) == Written(0.5)
    assert not thread.busy
    assert gate.asked == [([COPY], POINT, Due(1, 2.0))]
    assert gate.threads == [threading.get_ident()] * 2


def test_what_it_raises_is_raised_where_the_end_is_waited_for() -> None:
    """Whatever it is; the next write is a new one."""
    gate = Gate(WriteUndoneError("no"))
    gate.open.set()
    thread = WriteThread(gate)
    for _ in range(2):
        thread.begin([], POINT)
        with pytest.raises(WriteUndoneError):
            thread.ended(WITHIN_S)
        assert not thread.busy


def test_an_owner_that_waits_for_something_else_is_woken() -> None:
    """After the end can be asked for."""
    gate, woken = Gate(), threading.Event()
    thread = WriteThread(gate, woken.set)
    thread.begin([], POINT)
    assert not woken.wait(0.01)
    gate.open.set()
    assert woken.wait(WITHIN_S)
    assert thread.ended() == Written(0.5)


def test_closing_releases_the_client() -> None:
    """Unless a write that does not return still holds it."""
    idle, held = Gate(), Gate()
    WriteThread(idle).close()
    assert idle.closed
    thread = WriteThread(held)
    thread.begin([], POINT)
    thread.close()
    assert not held.closed
    held.open.set()


def test_a_write_that_cannot_begin_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would ever tell its end."""
    gate = Gate()
    thread = WriteThread(gate)
    monkeypatch.setattr(gate, "member", closed)
    with pytest.raises(RuntimeError):
        thread.begin([], POINT)
    assert not thread.busy
    thread.close()
    assert gate.closed


def closed() -> object:
    """What a consumer answers that is closed."""
    raise RuntimeError("Consumer closed")
