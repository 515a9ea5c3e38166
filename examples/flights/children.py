"""The processes of the demo: the same commands that a user types, supervised."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from examples.flights.engine import Role
from examples.flights.errors import ChildEndedError, ChildStuckError
from examples.flights.wire import CONFIG
from kafka_redelivery.transport.broker.guard import GuardedProcess

MAX_RESTARTS: Final = 20
"""Restarts of a child that was killed by a signal; after that the demo ends."""

_STOP_S: Final = 40.0
"""More than ``limits.shutdownTimeout``, after which a process exits by itself."""

_TAIL_LINES: Final = 15


def command(verbs: Sequence[str], servers: str, log: Path, within_s: float = 60.0) -> str:
    """Run a command of ``redelivery`` with the demo's configuration, and return what it has printed.

    Args:
        verbs: its name and its options.
        servers: where Kafka is.
        log: a file for what it prints.
        within_s: how long it may take.

    Raises:
        ChildEndedError: it failed, or took longer.
    """
    with log.open("wb") as output:
        child = GuardedProcess(_command(verbs), env=_environment(servers), stdout=output, stderr=subprocess.STDOUT)
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
    """A process of the group. If a signal kills it, it is restarted, as an orchestrator would do."""

    def __init__(self, role: Role, servers: str, directory: Path) -> None:
        self.role = role.name
        self.restarts = 0
        self.log = directory / f"{role.name}.log"
        # A stable instance name lets the successor take over its transaction and its partitions immediately.
        self._command = _command(role.command, "instance=1", *role.settings)
        self._pid = directory / f"{role.name}.pid"
        self._servers = servers
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Left without stop(): after an error or an interrupt the demo does not wait for an orderly end.
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def watch(self) -> None:
        """Restart the process if a signal killed it.

        Raises:
            ChildEndedError: it exited by itself, or was killed too often.
        """
        code = None if self._process is None else self._process.poll()
        if code is None:
            return
        if code >= 0 or self.restarts == MAX_RESTARTS:
            raise ChildEndedError(self.role, code, self.log, _tail(self.log))
        self.restarts += 1
        self._start()

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is not None:
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
        with self.log.open("ab") as log:
            self._process = GuardedProcess(
                self._command, env=_environment(self._servers), stdout=log, stderr=subprocess.STDOUT
            )
        self._pid.write_text(f"{self._process.pid}\n", encoding="utf-8")


def _command(verbs: Sequence[str], *settings: str) -> Sequence[str | Path]:
    program = Path(sysconfig.get_path("scripts")) / "redelivery"
    return [program, *verbs, "--config", CONFIG, *(f"--set={setting}" for setting in settings)]


def _environment(servers: str) -> Mapping[str, str]:
    """The current environment, without settings for another group."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
    return inherited | {"FLIGHTS_BROKER": servers}


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
