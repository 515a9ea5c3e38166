"""The process that runs the handler, seen from the Python worker that owns it.

A record can kill it, or keep it past its deadline: that is a failed delivery of exactly that record. Records whose
outcome was lost with it are handled once more; nothing was written for them.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from typing import Final

from consumers.clock import monotonic_s
from consumers.errors import HaltedError, HandlerLoadError
from consumers.processor import deadline_passed
from pipeline.done import Done
from pipeline.messages import receive, send
from pipeline.rows import Rows
from pipeline.setup import Setup
from pipeline.standing import STANDING_BYTES, Standing
from topology.decision import Failure, FailureKind

_log = logging.getLogger(__name__)

_MOST_DEATHS: Final = 3
"""So often in a row it may die without having a record."""

_LEAVE_S: Final = 2.0
_LOOK_S: Final = 1.0
"""So often a process that does not answer is looked at."""

_PROGRAM: Final = "from pipeline.handler_child import main; main({}, {})"


class _GoneError(Exception):
    """The child is dead. ``at`` are the first record it had, of those it was sent, and how many; ``None`` = none."""

    def __init__(self, at: tuple[int, int] | None, failure: Failure) -> None:
        super().__init__(failure.message)
        self.at = at
        self.failure = failure


class HandlerProcess:
    """One child at a time. Used by one thread."""

    def __init__(self, setup: Setup) -> None:
        """Start it, and wait until it has loaded the handler.

        Raises:
            HandlerLoadError: it cannot.
        """
        self._setup = setup
        deadline = setup.section.deadline
        self._deadline_s = None if deadline is None else deadline.total_seconds()
        self._child: _Child | None = _Child(setup)

    def close(self) -> None:
        """Let it end, or end it."""
        if self._child is not None:
            self._child.leave()
            self._child = None

    def run(self, rows: Rows) -> Iterator[Done]:
        """Have records handled. What is told comes as it is done, in order, until all are told of.

        Raises:
            HandlerLoadError: a new process cannot load the handler any more.
            HaltedError: it dies again and again without having a record.
        """
        killers: dict[int, Failure] = {}
        alone = range(0)
        """Records that were together when their process died: each is then handled alone, which tells the killer."""

        position = deaths = 0
        while position < len(rows):
            if position in killers:
                yield Done(1, [(0, killers.pop(position))])
                position += 1
                continue
            sent = position
            end = min(each for each in (*killers, alone.start, alone.stop, len(rows)) if each > sent)
            try:
                for done in self._running().run(rows[sent:end], self._deadline_s, singly=sent in alone):
                    position += done.number
                    deaths = 0
                    yield done
                    if done.critical:
                        return
            except _GoneError as gone:
                self._kill()
                if gone.at is not None:
                    first, number = sent + gone.at[0], gone.at[1]
                    offset = rows[first].offset()
                    _log.warning("%d record(s) from %s-%d@%d: %s", number, *rows.place, offset, gone.failure.message)
                    if number == 1:
                        killers[first] = gone.failure
                    else:
                        alone = range(first, first + number)
                    continue
                deaths += 1
                _log.warning("the handler's process died and had no record: %s", gone.failure.message)
                if deaths >= _MOST_DEATHS:
                    problem = f"{gone.failure.message}, {deaths} times, and no record is at fault"
                    raise HaltedError(problem) from None

    def _running(self) -> _Child:
        if self._child is not None and not self._child.idle:
            self._kill()  # a task gave up in the middle of a run: what would be told next is of that one's records
        if self._child is None:
            self._child = _Child(self._setup)
        return self._child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class _Child:
    """One process. Used by one thread."""

    def __init__(self, setup: Setup) -> None:
        self.idle = True
        """Whether it has told of all that it was sent."""

        self._target = setup.section.callable
        self._pipe, other = Pipe()
        with other, tempfile.TemporaryFile() as file:
            file.truncate(STANDING_BYTES)
            self._memory = mmap.mmap(file.fileno(), STANDING_BYTES)
            self._standing = Standing(self._memory)
            self._standing.nowhere()
            # A new interpreter, not a fork: threads, and a client with threads of its own, run here.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(other.fileno(), file.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[other.fileno(), file.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(setup.search_path)},
            )
        try:
            self._pipe.send(setup)
            problem = self._pipe.recv()
        except (EOFError, OSError):
            problem = f"its process died while it was loaded: {self._death()}", "see to what it imports and opens"
        if problem is not None:
            self.kill()
            raise HandlerLoadError(self._target, *problem)

    def run(self, rows: Rows, deadline_s: float | None, *, singly: bool) -> Iterator[Done]:
        """What becomes of records, as it is told.

        Raises:
            _GoneError: the process is dead, by itself or because a record took too long.
        """
        left = len(rows)
        self.idle = False
        try:
            send(self._pipe, (rows, singly))
            while left:
                self._wait(deadline_s)
                done: Done = receive(self._pipe)
                left -= done.number
                self.idle = not left or done.critical
                yield done
                if done.critical:
                    return
        except (EOFError, OSError):
            at = self._standing.read()
            failure = Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {self._death()}")
            raise _GoneError(None if at is None else at[:2], failure) from None

    def _wait(self, deadline_s: float | None) -> None:
        """Wait for an answer, as long as no record takes longer than that."""
        while True:
            at = self._standing.read()
            left_s = _LOOK_S if at is None or deadline_s is None else at[2] + deadline_s - monotonic_s()
            if self._pipe.poll(max(0.0, min(_LOOK_S, left_s))):
                return
            if self._process.poll() is not None and not self._pipe.poll(0):
                raise EOFError  # its pipe is open still: what the handler has forked lives on
            if deadline_s is None:
                continue
            late = self._standing.read()
            if at is None or late != at or monotonic_s() < at[2] + deadline_s:
                continue
            self._process.kill()
            self._process.wait()
            if self._pipe.poll(0) or self._standing.read() != at:
                return  # it was done after all; what is in the pipe is told, then its end
            raise _GoneError(at[:2], deadline_passed(deadline_s))

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Let it end by itself, and end it if it does not."""
        with suppress(OSError):
            self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        self.kill()

    def _end(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(OSError):
            self._pipe.close()
        self._memory.close()

    def _death(self) -> str:
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
