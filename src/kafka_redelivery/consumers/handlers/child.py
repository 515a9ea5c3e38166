"""The process that runs a handler: its start, its messages, what it is handling, and its end, seen from both sides.

A child is a new interpreter, not a fork, because the parent runs threads and a Kafka client with threads of its own.
Parent and child share a pipe, and memory in which the child says what it is handling. The child ends when the pipe
closes, and also when its standard input closes: the parent keeps that open and writes nothing to it, so the child
cannot outlive the parent.
"""

from __future__ import annotations

import logging
import mmap
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, BinaryIO, Final, NamedTuple, cast

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.handler import deadline_passed
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.logs import log_to_stderr
from kafka_redelivery.topology.policy.decision import Failure, FailureKind

_log = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 30.0

_MIN_LOAD_LIMIT_S: Final = 60.0
_MAX_LOAD_LIMIT_S: Final = 600.0
_LOAD_LIMIT_FACTOR: Final = 10

_MAX_WAIT_S: Final = 1.0
"""Longest wait for a message before the parent checks that the child is alive."""

_LOOK_EVERY_S: Final = 0.05
"""How often the parent looks whether a call exceeds the deadline."""

_CHILD: Final = "_REDELIVERY_CHILD"
"""The variable that has the id of a child's own process. A process that it starts inherits it, but has another id."""

_OUT_OF_BAND: Final = 5
"""First pickle protocol with out-of-band buffers."""


_PREFIX: Final = struct.Struct("=QQ")
"""Bytes of the pickled message, and number of buffers."""


def send(pipe: Connection, message: object, stalled: Callable[[], None] | None = None) -> None:
    """Send an object that can be pickled. Nothing is sent if that fails.

    ``Connection.send`` and ``recv`` copy bulky data twice and read small pieces. What pickles as a buffer therefore
    follows the pickled message uncopied and is read into its final place.

    Args:
        pipe: the pipe.
        message: what to send.
        stalled: called from time to time while the other end does not read, if the pipe does not block.

    Raises:
        OSError: the other end is closed.
    """
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, _OUT_OF_BAND, buffer_callback=buffers.append)
    bodies = [buffer.raw() for buffer in buffers]
    sizes = struct.pack(f"={len(bodies)}Q", *[body.nbytes for body in bodies])
    start = memoryview(b"".join((_PREFIX.pack(len(head), len(bodies)), head, sizes)))
    for part in (start, *bodies):
        left = part
        while left.nbytes:
            try:
                left = left[os.write(pipe.fileno(), left) :]
            except BlockingIOError:
                if stalled is not None:
                    stalled()


def receive(pipe: Connection) -> Any:  # noqa: ANN401 - any object
    """Receive what the other end sent with :func:`send`.

    Raises:
        EOFError, OSError: the other end is closed.
        UnreadableMessageError: the message cannot be unpickled.
    """
    descriptor = pipe.fileno()
    size, count = _PREFIX.unpack(_read(descriptor, _PREFIX.size))
    head = _read(descriptor, size)
    sizes = struct.unpack(f"={count}Q", _read(descriptor, 8 * count))
    bodies = [_read(descriptor, each) for each in sizes]
    try:
        return pickle.loads(head, buffers=bodies)  # noqa: S301 - of our own process
    except BaseException as error:
        raise UnreadableMessageError(type(error).__qualname__, str(error)) from error


def _read(descriptor: int, size: int) -> bytearray:
    body = bytearray(size)
    left = memoryview(body)
    while left.nbytes:
        count = os.readv(descriptor, [left])
        if not count:
            raise EOFError
        left = left[count:]
    return body


class UnreadableMessageError(Exception):
    """A message has an object of the user's own class that cannot be unpickled: the error's class and text."""


class Position(NamedTuple):
    """The records that a child is handling."""

    number: int
    """Stands for the partition."""

    first: int
    """Offset of the first record."""

    records: int
    """Number of records."""

    since_s: float
    """Monotonic start time of the call; :data:`NO_CALL` while the records are decoded or their outputs encoded."""


NO_CALL: Final = float("inf")

_POSITION: Final = struct.Struct("=qqqd")
_VALID_SLOT: Final = 2 * _POSITION.size
"""Index of the byte that says which of the two slots is valid."""

SHARED_BYTES: Final = _VALID_SLOT + 1


class SharedPosition:
    """The records that a child is handling, and since when. The child writes, the parent reads.

    The child writes into the slot that is not valid and then makes it valid with one byte. If it is suspended or killed
    in the middle of a write, the parent still reads the whole position before it.
    """

    def __init__(self, memory: mmap.mmap | bytearray, number: int = 0) -> None:
        """Use a part of the memory: number 0 has the first :data:`SHARED_BYTES`, number 1 those behind them."""
        self._memory = memory
        self._slots = number * SHARED_BYTES, number * SHARED_BYTES + _POSITION.size
        self._valid = number * SHARED_BYTES + _VALID_SLOT

    def set(self, number: int, first: int, records: int, since_s: float) -> None:
        """Publish what is being handled, see :class:`Position`."""
        slot = 1 - self._memory[self._valid]
        _POSITION.pack_into(self._memory, self._slots[slot], number, first, records, since_s)
        self._memory[self._valid] = slot

    def clear(self) -> None:
        """Publish that no record is being handled."""
        self.set(0, 0, 0, NO_CALL)

    def read(self) -> Position | None:
        """Return what is being handled; ``None`` = no record."""
        found = self._read_valid()
        while found != (again := self._read_valid()):  # two equal reads are a whole position
            found = again
        handled = Position(*found[1:])
        return handled if handled.records else None

    def _read_valid(self) -> tuple[Any, ...]:
        slot = self._memory[self._valid]
        return slot, *_POSITION.unpack_from(self._memory, self._slots[slot])


class LoadLimit:
    """How long a child may take to load the handler: the first ones without limit."""

    def __init__(self) -> None:
        self.seconds = float("inf")
        self._longest_s = 0.0

    def loaded(self, seconds: float) -> None:
        """A child has loaded the handler in that time."""
        self._longest_s = max(self._longest_s, seconds)
        self.seconds = max(_MIN_LOAD_LIMIT_S, _LOAD_LIMIT_FACTOR * self._longest_s)

    def passed(self) -> None:
        """A child was killed at the limit. It may have been slow only, so the next one gets more time."""
        self.seconds = max(self.seconds, min(2 * self.seconds, _MAX_LOAD_LIMIT_S))


class ChildDiedError(Exception):
    """The child died, or its parent has killed it because a call exceeded the deadline."""

    def __init__(self, positions: Sequence[Position], failure: Failure, *, killed: bool = False) -> None:
        super().__init__(failure.message)
        self.positions = positions
        """What it was handling. After a missed deadline only that call; none if it ended in time after all."""

        self.failure = failure
        self.killed = killed


class Setup(NamedTuple):
    """The first message to a child."""

    load: Callable[[Any, Connection, Sequence[SharedPosition], ExitStack], Callable[[], None]]
    """Loads the handler and returns the function that receives a message and answers it.

    It is called with the arguments, the pipe, the positions and a stack, which is closed when the child ends. It raises
    :class:`HandlerLoadError` if it cannot load the handler.
    """

    arguments: object
    log_level: int
    log_format: str
    """See :func:`log_to_stderr`."""


class Child:
    """The parent's side of one child. Used by one thread at a time."""

    def __init__(
        self,
        setup: Setup,
        *,
        search_path: Sequence[str],
        positions: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the child and send it its setup; :meth:`wait_until_ready` waits for it.

        Args:
            setup: the first message.
            search_path: its ``sys.path``.
            positions: how many positions it has, in which it says what it is handling.
            environment: variables of the child; ``None`` = those of this process.
        """
        self._looked_s = 0.0
        self._missed: tuple[list[Position], Failure] | None = None
        """Why it was killed, if a call exceeded the deadline. Answers may still be in the pipe.

        It is no exception, because a traceback would hold the child with its descriptors.
        """

        self._pipe, other = Pipe()
        with other, _memory_file() as file:
            file.truncate(positions * SHARED_BYTES)
            self._memory = mmap.mmap(file.fileno(), positions * SHARED_BYTES)
            self.positions = [SharedPosition(self._memory, number) for number in range(positions)]
            inherited = other.fileno(), file.fileno()
            # -P and the path of this process: the working directory must not hide modules of the standard library.
            program = (
                f"import sys; sys.path[:] = {list(search_path)!r}; "
                f"from {__name__} import main; main({inherited[0]}, {inherited[1]}, {positions})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, pass_fds=inherited, env=environment
            )
        with suppress(OSError):  # the child is dead: wait_until_ready() says so
            self._pipe.send(setup)

    def wait_until_ready(self, target: str, limit: LoadLimit) -> None:
        """Wait until the child has loaded the handler.

        Args:
            target: the handler's name, for the error and the log.
            limit: after this time the child is killed.

        Raises:
            HandlerLoadError: the child could not load the handler in time, or died of it.
        """
        began_s = logged_s = seconds_ago(0.0)
        problem: tuple[str, str, str] | None = None
        try:
            while problem is None and not self.has_answer(_MAX_WAIT_S, ()):
                now_s = monotonic_s()
                if began_s <= seconds_ago(limit.seconds):
                    problem = (
                        target,
                        f"it was not loaded within {limit.seconds:.0f} s",
                        "see to what its module waits for",
                    )
                    limit.passed()
                elif now_s - logged_s >= _LOG_EVERY_S:
                    logged_s = now_s
                    _log.warning("a process has been loading the handler %s for %.0f s", target, now_s - began_s)
            problem = problem or self.answer()
        except ChildDiedError:
            died = f"its process died while it was loaded: {self._exit_reason()}"
            problem = target, died, "see to what it imports and opens"
        if problem is not None:
            self.kill()
            raise HandlerLoadError(*problem)
        limit.loaded(monotonic_s() - began_s)

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def give(self, message: object, deadlines: Sequence[float | None]) -> None:
        """Send a message, and kill the child if a call exceeds its deadline before the child has received it.

        Raises:
            ChildDiedError: the child is dead, and has not received it.
        """
        if self.dead:
            raise self._died()
        # A handler may keep Python's lock: nothing in the child then takes what is sent, and a write would never end.
        descriptor = self._pipe.fileno()
        os.set_blocking(descriptor, False)
        try:
            send(self._pipe, message, lambda: self._wait_until_writable(deadlines))
        except OSError:
            raise self._died() from None
        finally:
            os.set_blocking(descriptor, True)

    def has_answer(self, timeout_s: float, deadlines: Sequence[float | None]) -> bool:
        """Wait for an answer, and kill the child if a call exceeds its deadline.

        Args:
            timeout_s: how long to wait at most.
            deadlines: longest time in seconds for one call of the handler, by :attr:`Position.number`; ``None`` =
                without limit.

        Raises:
            ChildDiedError: the child is dead and left no answer.
        """
        end_s = monotonic_s() + timeout_s
        longest_s = _LOOK_EVERY_S if any(deadlines) else _MAX_WAIT_S
        while True:
            now_s = monotonic_s()
            self._kill_overdue(deadlines)
            try:
                if self._pipe.poll(max(0.0, min(longest_s, end_s - now_s))):
                    return True
                # A process that the handler forked may hold the pipe open.
                if self.dead and not self._pipe.poll():
                    raise self._died()
            except (EOFError, OSError):
                raise self._died() from None
            if monotonic_s() >= end_s:
                return False

    def answer(self) -> Any:  # noqa: ANN401 - any object
        """Receive an answer.

        Raises:
            ChildDiedError: the child is dead.
            UnreadableMessageError: as :func:`receive`.
        """
        try:
            return receive(self._pipe)
        except (EOFError, OSError):
            raise self._died() from None

    def kill(self) -> None:
        """End the child now. The pipe stays open, because another thread may wait for a message."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def leave(self) -> None:
        """Close the pipe, so that an idle child ends."""
        with suppress(OSError):
            self._pipe.close()

    def join(self, timeout_s: float) -> None:
        """Wait for the child's end, and kill it if it has not ended in time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()

    def _wait_until_writable(self, deadlines: Sequence[float | None]) -> None:
        writable = select.poll()
        writable.register(self._pipe, select.POLLOUT)
        writable.poll(1_000 * _LOOK_EVERY_S)
        self._kill_overdue(deadlines)
        if self.dead:  # a process that the handler forked may hold the pipe open
            raise BrokenPipeError

    def _kill_overdue(self, deadlines: Sequence[float | None]) -> None:
        """Kill the child if a call exceeds its deadline. Looks from time to time only."""
        now_s = monotonic_s()
        if not any(deadlines) or now_s - self._looked_s <= _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for position in self.positions:
            found = position.read()
            deadline_s = None if found is None or self._missed else deadlines[found.number]
            if deadline_s is not None and found is not None and found.since_s < seconds_ago(deadline_s):
                self._process.kill()
                self._process.wait()
                # If the position has changed, the call ended in time after all. Its outcome may be in the pipe.
                overdue = [found] if position.read() == found else []
                self._missed = overdue, deadline_passed(deadline_s)

    def _died(self) -> ChildDiedError:
        if self._missed:
            return ChildDiedError(*self._missed, killed=True)
        positions = [found for each in self.positions if (found := each.read()) is not None]
        failure = Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {self._exit_reason()}")
        return ChildDiedError(positions, failure)

    def _exit_reason(self) -> str:
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _memory_file() -> BinaryIO:
    """Open a file in memory: one on a disk that is full would end a process that writes to it with SIGBUS."""
    if sys.platform == "linux":
        return open(os.memfd_create("positions"), "r+b")  # noqa: PTH123 - a descriptor has no path
    return cast("BinaryIO", tempfile.TemporaryFile())


def main(pipe_descriptor: int, memory_descriptor: int, positions: int) -> None:
    """Run a child: load the handler, report to the parent, then answer messages until the pipe closes.

    The first message to the parent is ``None``, or what a :class:`HandlerLoadError` is made of.
    """
    os.environ[_CHILD] = str(os.getpid())
    pipe = Connection(pipe_descriptor)
    setup: Setup = pipe.recv()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when the child ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log_to_stderr(setup.log_level, setup.log_format)
    with (
        mmap.mmap(memory_descriptor, positions * SHARED_BYTES) as memory,
        ExitStack() as stack,
        suppress(EOFError, BrokenPipeError),
    ):
        try:
            shared = [SharedPosition(memory, number) for number in range(positions)]
            turn = setup.load(setup.arguments, pipe, shared, stack)
        except HandlerLoadError as error:
            send(pipe, (error.target, error.problem, error.fix, error.setting))
            return
        send(pipe, None)
        while True:
            turn()


def refuse_in_child() -> None:
    """Refuse to start a worker in the process of a handler, which has imported the program that starts it.

    Raises:
        HandlerLoadError: this is such a process.
    """
    if os.environ.get(_CHILD) == str(os.getpid()):
        problem = "starts its App when it is imported, and this is a process that imports it to call the handler"
        raise HandlerLoadError("in a child process", problem, 'start it below `if __name__ == "__main__":`')


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)
