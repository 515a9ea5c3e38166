"""Processes that start warm: forked from a process that has imported the product already.

A fresh interpreter spends half a second of a core on imports, and the tests start hundreds of processes. What runs is
the same program in a process of its own, with its own signals, exit code and output. These start fresh interpreters:
tests of the command that a user types, of installed packages and of containers, and programs that change the product.
"""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO

_ANSWER_BYTES = 32


class WarmProcess:
    """A program in a process that ends with this one. Its methods are those of :class:`subprocess.Popen`.

    Args:
        command: ``-c CODE`` and arguments.
        env: the environment.
        stdout, stderr: the files to write to.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        request = {"command": list(command), "environment": dict(env), "folder": os.getcwd()}  # noqa: PTH109
        self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._code: int | None = None
        with theirs:
            descriptors = [stdout.fileno(), stderr.fileno(), theirs.fileno()]
            socket.send_fds(_server(), [json.dumps(request).encode()], descriptors)
        self.pid = int(self._answers.recv(_ANSWER_BYTES))

    def poll(self) -> int | None:
        """Return the exit code of the ended process (negative: its signal), or ``None`` while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait up to ``timeout`` seconds for the end of the process and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it is still running.
        """
        if self._code is None:
            self._answers.settimeout(timeout)
            try:
                self._code = int(self._answers.recv(_ANSWER_BYTES))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._answers.close()
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM, unless the process has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@cache
def _server() -> socket.socket:
    """Start the server of this process; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.scenarios.warm_server"]
        server = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
