"""The processes of the demo: the same commands that a user types, supervised."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic
from types import TracebackType
from typing import Final, Self

from examples.flights.errors import ChildEndedError, ChildSilentError, ChildStuckError
from examples.flights.roles import Role, broker, environment, redelivery
from kafka_redelivery.transport.broker.guard import GuardedProcess

MAX_RESTARTS: Final = 20
"""Restarts of a child that was killed by a signal; after that the demo ends."""

_STOP_S: Final = 40.0
"""More than ``limits.shutdownTimeout``, after which a process exits by itself."""

_LISTENING_S: Final = 60.0
_LOOK_S: Final = 0.05

_KILLED_BELOW: Final = 128 + signal.SIGKILL
"""Exit code of spark-submit if the Python process below it was killed."""

_TAIL_LINES: Final = 15


def command(
    verbs: Sequence[str], servers: str, log: Path, within_s: float = 60.0, *, settings: Sequence[str] = ()
) -> str:
    """Run a command of ``redelivery`` with the demo's configuration, and return what it has printed.

    Args:
        verbs: its name and its options.
        servers: where Kafka is.
        log: a file for what it prints.
        within_s: how long it may take.
        settings: in addition to the configuration file.

    Raises:
        ChildEndedError: it failed, or took longer.
    """
    with log.open("wb") as output:
        variables = environment(broker(servers))
        child = GuardedProcess(redelivery(verbs, *settings), env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        code = child.wait(within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    except BaseException:
        child.kill()
        raise
    if code:
        raise ChildEndedError(f"command redelivery {' '.join(verbs)}", code, log, _tail(log))
    return log.read_text(encoding="utf-8", errors="replace")


class Child:
    """A process of the demo. If a signal kills it, it is restarted, as an orchestrator would do."""

    def __init__(self, role: Role, directory: Path) -> None:
        self.role = role.name
        self.restarts = 0
        self.log = directory / f"{role.name}.log"
        self._command = role.command
        self._environment = environment(role.environment)
        self._port = role.port
        self._pid = directory / f"{role.name}.pid"
        self._told_to_stop = None if role.told_to_stop is None else directory / role.told_to_stop
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Left without stop(): after an error or an interrupt the demo does not wait for an orderly end.
        self._end()

    def watch(self) -> None:
        """Restart the process if a signal killed it.

        Raises:
            ChildEndedError: it exited by itself, or was killed too often.
        """
        code = None if self._process is None else self._process.poll()
        if code is None:
            return
        if not (code < 0 or code == _KILLED_BELOW) or self.restarts == MAX_RESTARTS:
            raise ChildEndedError(self.role, code, self.log, _tail(self.log))
        self.restarts += 1
        self._start()

    def kill(self) -> None:
        """Send SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is None:
            return
        if self._told_to_stop is not None and self._told_to_stop.exists():
            with suppress(ProcessLookupError):
                os.kill(int(self._told_to_stop.read_text(encoding="utf-8")), signal.SIGTERM)
        else:
            self._process.terminate()

    def stop(self) -> None:
        """Wait until the process has exited after :meth:`ask_to_stop`.

        Raises:
            ChildStuckError: it had to be killed.
            ChildEndedError: its exit code is not 0.
        """
        process, self._process = self._process, None
        if process is None:
            return
        try:
            code = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ChildStuckError(self.role, _STOP_S, self.log) from None
        if code:
            raise ChildEndedError(self.role, code, self.log, _tail(self.log))

    def _start(self) -> None:
        if self._told_to_stop is not None:
            self._told_to_stop.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = GuardedProcess(self._command, env=self._environment, stdout=log, stderr=subprocess.STDOUT)
        self._pid.write_text(f"{self._process.pid}\n", encoding="utf-8")
        if self._port is not None:
            self._wait_for(self._port, self._process)

    def _wait_for(self, port: int, process: GuardedProcess) -> None:
        deadline_s, pause = monotonic() + _LISTENING_S, Event()
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            code = process.poll()
            if code is not None:
                raise ChildEndedError(self.role, code, self.log, _tail(self.log))
            if monotonic() > deadline_s:
                raise ChildSilentError(self.role, port, _LISTENING_S, self.log)
            pause.wait(_LOOK_S)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
