"""Ends a child process when its parent is gone, however the parent went.

A process that is killed with SIGKILL cannot end its children. So the child is started by a tiny guard process between
the two, which holds the read end of a pipe whose write end only the parent has: when the parent dies, the kernel closes
it, the guard reads the end of the pipe and ends the child.

    python -m transport.guard [--grace SECONDS] [--pid-fd FD] [--remove PATH] -- COMMAND...

The guard and the child live in a session of their own, so that Ctrl-C in a terminal reaches the parent alone, which
then ends its children in the order it wants. The guard passes SIGTERM, SIGINT and SIGHUP on, and ends as the child
ended: with its exit code, or by its signal.

This file is run by path in an isolated interpreter and imports only the standard library: it starts in milliseconds.
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

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS: Final = 1.0


class Guarded:
    """A child process that does not outlive this one.

    Args:
        command: the program and its arguments.
        grace_seconds: how long the child has between SIGTERM and SIGKILL once this process is gone.
        remove: a directory that the guard deletes after the child has ended, whoever ended it.
        hold: file descriptors that the guard keeps open until the child has ended, for locks that must last as long.
        env, cwd, stdout, stderr: as for ``subprocess.Popen``.

    Attributes:
        pid: the child's own process id.
        guard_pid: the process id of the guard between.
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
        report, tell = os.pipe()
        options = ["--grace", str(grace_seconds), "--pid-fd", str(tell)]
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
                pass_fds=[tell, *hold],
                start_new_session=True,
            )
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(tell)
        self.guard_pid: Final = self._guard.pid
        self.stdout: Final = self._guard.stdout
        with os.fdopen(report, encoding="utf-8") as answer:
            said = answer.read()
        if not said.isdecimal():
            self.wait()
            raise OSError(said or f"the guard of {command[0]} died")
        self.pid: Final = int(said)

    def poll(self) -> int | None:
        """The exit code once the child has ended (negative: the signal that ended it), else ``None``."""
        code = self._guard.poll()
        if code is not None:
            self._let_go()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Waits up to ``timeout`` seconds for the child's end and returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        code = self._guard.wait(timeout)
        self._let_go()
        return code

    def terminate(self) -> None:
        """Sends SIGTERM to the child; nothing happens if it has ended."""
        if self.poll() is None:
            self._guard.terminate()

    def kill(self) -> None:
        """Sends SIGKILL to the child, not to its guard; nothing happens if it has ended."""
        if self.poll() is None:
            # The guard reaps the child and ends right after it, so the id is the child's as long as the guard runs.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _let_go(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()


def guard(command: Sequence[str], *, grace_seconds: float, tell: Callable[[str], None]) -> int:
    """Runs ``command`` until it ends or until standard input does, and returns its exit code (negative: its signal)."""
    # The handlers come first: a signal that arrives while the child is being started is kept for it.
    early: list[int] = []
    pass_on: Callable[[int], object] = early.append
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: pass_on(number))
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        tell(str(error))
        return 127
    pass_on = child.send_signal
    for missed in early:
        child.send_signal(missed)
    tell(str(child.pid))
    threading.Thread(target=_end_with_parent, args=(child, grace_seconds), daemon=True).start()
    return child.wait()


def _end_with_parent(child: subprocess.Popen[bytes], grace_seconds: float) -> None:
    parent = os.getppid()
    # A parent that forked without exec has copies of the write end in its children: the pipe alone is not enough.
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            break
    child.terminate()
    try:
        child.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        child.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """The guard process: parses the command line of this module, guards, cleans up."""
    parser = argparse.ArgumentParser(prog="transport.guard", description="ends COMMAND when standard input ends")
    parser.add_argument("--grace", type=float, default=DEFAULT_GRACE_SECONDS, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("--pid-fd", type=int, help="open file descriptor that is told the child's process id")
    parser.add_argument("--remove", type=Path, help="directory to delete after the child has ended")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args(arguments)

    def tell(what: str) -> None:
        if options.pid_fd is not None:
            with os.fdopen(options.pid_fd, "w", encoding="utf-8") as answer:
                answer.write(what)

    code = guard(options.command, grace_seconds=options.grace, tell=tell)
    if options.remove is not None:
        shutil.rmtree(options.remove, ignore_errors=True)
    if code < 0 and -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
