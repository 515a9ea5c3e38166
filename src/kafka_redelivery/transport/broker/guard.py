"""Ends a child process when its parent ends, even by SIGKILL.

A process that is killed with SIGKILL cannot end its children. So a small guard process between the two starts the
child. The guard has the read end of a pipe, and only the parent has the write end: when the parent dies, the kernel
closes it, the guard reads the end of the pipe and ends the child.

    python -m kafka_redelivery.transport.broker.guard [--grace SECONDS] [--pid-fd FD] [--remove PATH] -- COMMAND...

The guard and the child have a session of their own, so that Ctrl-C in a terminal reaches only the parent, which then
ends its children in its own order. The guard forwards SIGTERM, SIGINT and SIGHUP, and ends as the child ends: with the
same exit code, or by the same signal.

This file runs by its path in an isolated interpreter and imports only the standard library, so it starts in
milliseconds.
"""

import argparse
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

DEFAULT_GRACE_SECONDS: Final = 5.0

_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CHECK_SECONDS: Final = 1.0


class GuardedProcess:
    """A child process that ends with this one.

    Args:
        command: the program and its arguments.
        grace_seconds: seconds between SIGTERM and SIGKILL after this process has ended.
        remove: a directory that the guard deletes after the child has ended.
        hold: file descriptors, as of locks, that the guard keeps open until the child has ended.
        env, cwd, stdout, stderr: as for ``subprocess.Popen``.

    Attributes:
        pid: the child's own process id.
        guard_pid: the process id of the guard.
        stdout: the read end of the child's output if ``stdout`` was ``subprocess.PIPE``.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        remove: Path | None = None,
        hold: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> None:
        read_end, write_end = os.pipe()
        options = ["--grace", str(grace_seconds), "--pid-fd", str(write_end)]
        if remove is not None:
            options += ["--remove", str(remove)]
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *options, "--", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                pass_fds=[write_end, *hold],
                start_new_session=True,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self.guard_pid: Final = self._guard.pid
        self.stdout: Final = self._guard.stdout
        with os.fdopen(read_end, encoding="utf-8") as report:
            reported = report.read()
        if not reported.isdecimal():
            self.wait()
            raise OSError(reported or f"the guard of {command[0]} died")
        self.pid: Final = int(reported)

    def poll(self) -> int | None:
        """Return the exit code of the ended child (negative: its signal), or ``None`` while it runs."""
        code = self._guard.poll()
        if code is not None:
            self._close_pipe()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait up to ``timeout`` seconds for the child's end and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it is still running.
        """
        code = self._guard.wait(timeout)
        self._close_pipe()
        return code

    def terminate(self) -> None:
        """Send SIGTERM to the child, unless it has ended."""
        if self.poll() is None:
            self._guard.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the child, not to its guard, unless it has ended."""
        if self.poll() is None:
            # The guard reaps the child and ends right after it: while the guard runs, the process id is the child's.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _close_pipe(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()


def guard(command: Sequence[str], *, grace_seconds: float, report: Callable[[str], None]) -> int:
    """Run ``command`` until it ends or standard input is closed; return its exit code (negative: its signal)."""
    # The handlers come first, to keep signals that arrive while the child starts.
    early: list[int] = []
    forward: Callable[[int], object] = early.append
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: forward(number))
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        report(str(error))
        return 127
    forward = child.send_signal
    for missed in early:
        child.send_signal(missed)
    report(str(child.pid))
    threading.Thread(target=_end_with_parent, args=(child, grace_seconds), daemon=True).start()
    return child.wait()


def _end_with_parent(child: subprocess.Popen[bytes], grace_seconds: float) -> None:
    parent = os.getppid()
    # Children that the parent forked without exec keep the write end open, so the pipe alone is not enough.
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _CHECK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            break
    child.terminate()
    try:
        child.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        child.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the guard process: parse the command line, guard the child, clean up."""
    parser = argparse.ArgumentParser(
        prog="kafka_redelivery.transport.broker.guard", description="ends COMMAND when standard input ends"
    )
    parser.add_argument("--grace", type=float, default=DEFAULT_GRACE_SECONDS, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("--pid-fd", type=int, help="open file descriptor to write the child's process id to")
    parser.add_argument("--remove", type=Path, help="directory to delete after the child has ended")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args(arguments)

    def report(text: str) -> None:
        if options.pid_fd is not None:
            with os.fdopen(options.pid_fd, "w", encoding="utf-8") as file:
                file.write(text)

    code = guard(options.command, grace_seconds=options.grace, report=report)
    if options.remove is not None:
        shutil.rmtree(options.remove, ignore_errors=True)
    if code < 0 and -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
