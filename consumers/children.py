"""Child processes that run the handler, so that a record can neither kill its worker nor hold a slot for ever.

Each slot is a thread that hands one record at a time to a child and waits. A child that dies has killed nobody but
itself: that is a failed delivery of exactly the record it had. At the deadline the child is killed.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue

from consumers.child import Outcome, Program
from consumers.clock import monotonic_s
from consumers.errors import ConsumersError, HandlerLoadError
from consumers.handler import Handler
from consumers.logs import form_for_children
from consumers.processor import deadline_passed
from consumers.record import Context, Record
from topology.decision import Failure, FailureKind
from topology.settings import HandlerSection

_log = logging.getLogger(__name__)
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s (child %(process)d): %(message)s"
_CLOSING_S = 2.0
_LOOK_S = 1.0
"""How often somebody who waits for an outcome looks whether the child is alive."""


class _FailedInChildError(ConsumersError):
    """Carries a failure from a child's outcome to where failures are noted."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class _ChildHandler(Handler):
    """The handler as a slot sees it."""

    def failure(self, error: BaseException) -> Failure:
        """See :class:`consumers.handler.Handler`."""
        if isinstance(error, _FailedInChildError):
            return error.failure
        # Nothing of the user's runs here: it is a fault of ours, or the handler cannot be loaded any more.
        return Failure(FailureKind.CRITICAL, type(error).__qualname__, str(error))


class Children:
    """As many child processes as there are slots. Thread-safe: each is used by one slot at a time."""

    def __init__(self, section: HandlerSection) -> None:
        """Start them, and wait until each has loaded the handler.

        Raises:
            HandlerLoadError: one cannot.
        """
        deadline = section.deadline
        self._deadline_s = None if deadline is None else deadline.total_seconds()
        root = logging.getLogger()
        form = form_for_children(_LOG_FORMAT)
        self._program = Program(section.callable, section.not_retryable, list(sys.path), root.level, form)
        self._idle: SimpleQueue[_Child | None] = SimpleQueue()
        """``None`` stands for one that is dead and is started again when it is needed."""

        self._alive = {_Child(self._program) for _ in range(section.slots)}
        try:
            for child in self._alive:
                child.wait_until_ready()
        except HandlerLoadError:
            self.close()
            raise
        for child in self._alive:
            self._idle.put(child)

    def handler(self) -> Handler:
        """The handler, to be called by a slot's thread like any plain function."""
        return _ChildHandler(self._call, takes_context=True, asynchronous=False)

    def close(self) -> None:
        """Let those end that have nothing to do, and kill the others."""
        idle = set()
        while not self._idle.empty():
            child = self._idle.get()
            if child is not None:
                idle.add(child)
                child.leave()
        for busy in self._alive - idle:
            busy.kill()  # its slot finds it dead
        end = monotonic_s() + _CLOSING_S
        for child in idle:
            child.join(max(0.0, end - monotonic_s()))

    def _call(self, record: Record, context: Context) -> None:
        child = self._idle.get()
        try:
            if child is not None and not child.take(record, context.deliveries):  # it died of what came before
                _log.warning("an idle process of the handler died, starting another")
                self._alive.discard(child)
                child.kill()
                child = None
            if child is None:
                child = self._start()
                child.take(record, context.deliveries)  # where that fails, it died of this record
            outcome = child.outcome(record, self._deadline_s)
            if isinstance(outcome, Failure):
                self._alive.discard(child)
                child.kill()
                child = None
                raise _FailedInChildError(outcome)
        finally:
            self._idle.put(child)
        context.outputs += outcome.outputs
        if outcome.failure is not None:
            raise _FailedInChildError(outcome.failure)

    def _start(self) -> _Child:
        child = _Child(self._program)
        try:
            child.wait_until_ready()
        except HandlerLoadError:
            child.kill()
            raise
        self._alive.add(child)
        return child


class _Child:
    """One process. Used by one thread at a time."""

    def __init__(self, program: Program) -> None:
        self._target = program.target
        self._pipe, other = Pipe()
        with other:
            # A new interpreter, not a fork: threads, and a client with threads of its own, run here.
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from consumers.child import main; main({other.fileno()})"],
                stdin=subprocess.PIPE,
                pass_fds=[other.fileno()],
            )
        self._pipe.send(program)

    def wait_until_ready(self) -> None:
        try:
            problem = self._pipe.recv()
        except (EOFError, OSError):
            problem = f"its process died while it was loaded: {self._death()}", "see to what it imports and opens"
        if problem is not None:
            raise HandlerLoadError(self._target, *problem)

    def take(self, record: Record, deliveries: int) -> bool:
        """Hand it a record; false if it is dead, and the handler has not seen the record."""
        if self.dead:
            return False
        try:
            self._pipe.send((record, deliveries))
        except OSError:
            return False
        return True

    def outcome(self, record: Record, deadline_s: float | None) -> Outcome | Failure:
        """The outcome of the record it took, or the failure that this process did not survive, or must not."""
        try:
            if not self._answers(deadline_s):
                return deadline_passed(deadline_s)
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError):
            death = self._death()
            _log.warning("the handler's process died of %s: %s", record.message_id, death)
            return Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {death}")
        try:
            outcome: Outcome = ForkingPickler.loads(answer)
        except Exception as error:  # noqa: BLE001 - what an output of the user's raises when it is made again
            failure = Failure(FailureKind.RAISED, type(error).__qualname__, f"the outputs cannot be unpickled: {error}")
            return Outcome(failure, ())
        return outcome

    def _answers(self, within_s: float | None) -> bool:
        """Wait for the outcome; false if it does not come in time.

        Raises:
            EOFError: it will not come.
        """
        end_s = None if within_s is None else monotonic_s() + within_s
        while True:
            left_s = _LOOK_S if end_s is None else min(_LOOK_S, max(0.0, end_s - monotonic_s()))
            if self._pipe.poll(left_s):
                return True
            if self.dead and not self._pipe.poll():  # its pipe is open still: what it has forked may live on
                raise EOFError
            if end_s is not None and monotonic_s() >= end_s:
                return False

    @property
    def dead(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def leave(self) -> None:
        with suppress(OSError):
            self._pipe.close()

    def join(self, timeout_s: float) -> None:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _death(self) -> str:
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
