"""The process that runs a handler: its start, readiness and end, seen from the parent and from the child.

A child is a new interpreter, not a fork, because the parent runs threads and a Kafka client with threads of its own.
Parent and child share a pipe. The child ends when the pipe closes, and also when its standard input closes: the parent
keeps that open and writes nothing to it, so the child cannot outlive the parent.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.logs import log_to_stderr
from kafka_redelivery.topology.policy.decision import Failure, FailureKind

_log = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 30.0

_MIN_LOAD_LIMIT_S: Final = 60.0
_MAX_LOAD_LIMIT_S: Final = 600.0
_LOAD_LIMIT_FACTOR: Final = 10

MAX_WAIT_S: Final = 1.0
"""Longest wait for a message before the parent checks that the child is alive."""


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


class ChildProcess:
    """The parent's side of one child. Used by one thread at a time."""

    def __init__(
        self,
        module: str,
        setup: object,
        *,
        search_path: Sequence[str],
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the child and send it its setup; :meth:`wait_until_ready` waits for it.

        Args:
            module: calls ``main`` of this module with the descriptor of the pipe, followed by ``descriptors``.
            setup: the first message. It can be pickled.
            search_path: its ``sys.path``.
            descriptors: further file descriptors that the child inherits.
            environment: variables of the child; ``None`` = those of this process.
        """
        self._pipe, other = Pipe()
        with other:
            inherited = (other.fileno(), *descriptors)
            # -P and the path of this process: the working directory must not hide modules of the standard library.
            program = (
                f"import sys; sys.path[:] = {list(search_path)!r}; "
                f"from {module} import main; main({', '.join(map(str, inherited))})"
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
        try:
            began_s = monotonic_s()
            if self._loads_within(target, limit.seconds):
                problem = self._pipe.recv()
            else:
                problem = f"it was not loaded within {limit.seconds:.0f} s", "see to what its module waits for"
                limit.passed()
        except (EOFError, OSError):
            problem = f"its process died while it was loaded: {self._exit_reason()}", "see to what it imports and opens"
        if problem is not None:
            self.kill()
            raise HandlerLoadError(target, *problem)
        limit.loaded(monotonic_s() - began_s)

    def _loads_within(self, target: str, limit_s: float) -> bool:
        """Wait for the first message, and log from time to time that it has not come."""
        began_s = logged_s = seconds_ago(0.0)
        while not self.poll(MAX_WAIT_S):
            now_s = monotonic_s()
            if began_s <= seconds_ago(limit_s):
                return False
            if now_s - logged_s >= _LOG_EVERY_S:
                logged_s = now_s
                _log.warning("a process has been loading the handler %s for %.0f s", target, now_s - began_s)
        return True

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def poll(self, timeout_s: float) -> bool:
        """Wait for a message, at most ``timeout_s`` and at most :data:`MAX_WAIT_S`.

        Raises:
            EOFError: the child is dead and left no message. A process that the handler forked may hold the pipe open.
        """
        if self._pipe.poll(max(0.0, min(MAX_WAIT_S, timeout_s))):
            return True
        if self.dead and not self._pipe.poll():
            raise EOFError
        return False

    def death(self) -> Failure:
        """The failure of the record that the child died of."""
        return Failure(FailureKind.DIED, "ClientDied", f"the handler's process died: {self._exit_reason()}")

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

    def _exit_reason(self) -> str:
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def serve(
    pipe: Connection,
    load: Callable[[ExitStack], Callable[[], None]],
    *,
    log_level: int,
    log_format: str,
) -> None:
    """Run a child: load the handler, report to the parent, then answer messages until the pipe closes.

    The first message to the parent is ``None``, or the problem and the fix of a :class:`HandlerLoadError`.

    Args:
        pipe: the pipe to the parent.
        load: loads the handler and returns the function that receives one message and answers it. What it enters into
            the stack is closed at the end.
        log_level: level of the child's log.
        log_format: see :func:`log_to_stderr`.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when the child ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log_to_stderr(log_level, log_format)
    with ExitStack() as stack, suppress(EOFError, BrokenPipeError):
        try:
            answer = load(stack)
        except HandlerLoadError as error:
            pipe.send((error.problem, error.fix))
            return
        pipe.send(None)
        while True:
            answer()


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)
