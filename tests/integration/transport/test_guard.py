import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from kafka_redelivery.transport.broker.guard import GuardedProcess

_WAIT_SECONDS = 60


def _python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", textwrap.dedent(code)]


_SLEEPS = _python("import time; time.sleep(600)")
_IGNORES_SIGTERM = _python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)


def _gone(pid: int) -> bool:
    # An ended process stays as a zombie where nobody reaps orphans, as in a container without an init.
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("code", [0, 3, 127])
def test_exit_code_is_that_of_the_child(code: int) -> None:
    """The guard ends with the exit code of the child."""
    assert GuardedProcess(_python(f"raise SystemExit({code})")).wait(_WAIT_SECONDS) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_guard_ends_by_the_same_signal_as_the_child(number: signal.Signals) -> None:
    """A signal that ends the child also ends the guard."""
    child = GuardedProcess(_SLEEPS)

    os.kill(child.pid, number)

    assert child.wait(_WAIT_SECONDS) == -number


def test_terminate_sends_sigterm_to_the_child() -> None:
    """The child can clean up and choose its exit code."""
    child = GuardedProcess(
        _python("""
            import signal, sys, time
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
            print(flush=True)
            time.sleep(600)
        """),
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child.stdout as output:
        output.readline()

        child.terminate()

        assert child.wait(_WAIT_SECONDS) == 42


def test_kill_ends_a_child_that_ignores_sigterm() -> None:
    """SIGKILL goes to the child itself."""
    child = GuardedProcess(_IGNORES_SIGTERM)

    child.kill()

    assert child.wait(_WAIT_SECONDS) == -signal.SIGKILL


def test_missing_command_raises_in_the_caller() -> None:
    """The error does not stay in the guard process."""
    with pytest.raises(OSError, match="no-such-program"):
        GuardedProcess(["/no-such-program"])


def _parent(*, body: str = "", options: str = "") -> subprocess.Popen[str]:
    """Start a process that guards a child with the given options, prints the two process ids and waits."""
    code = f"""
        import os, sys, time
        from pathlib import Path
        from kafka_redelivery.transport.broker.guard import GuardedProcess
        child = GuardedProcess({_IGNORES_SIGTERM!r}, grace_seconds=0.5, stdout=-1, {options})
        child.stdout.readline()
        {body}
        print(child.pid, child.guard_pid, flush=True)
        time.sleep(600)
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)


def _kill_and_look(parent: subprocess.Popen[str]) -> list[bool]:
    with parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    return [_gone(pid) for pid in pids]


def test_child_ends_when_its_parent_is_killed() -> None:
    """SIGKILL of the parent ends the guard and the child, even one that ignores SIGTERM."""
    assert _kill_and_look(_parent()) == [True, True]


def test_child_ends_although_a_fork_of_the_parent_lives() -> None:
    """A fork of the parent keeps a copy of the pipe open; the guard ends nevertheless."""
    body = "\n        if (fork := os.fork()) == 0: time.sleep(8); os._exit(0)"
    assert _kill_and_look(_parent(body=body)) == [True, True]


def test_directory_is_deleted_after_the_child(tmp_path: Path) -> None:
    """The guard deletes the directory of ``remove`` after the parent was killed."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "file").touch()

    assert _kill_and_look(_parent(options=f"remove=Path({str(directory)!r})")) == [True, True]
    assert not directory.exists()


def test_guard_runs_as_a_command() -> None:
    """The module run with ``-- COMMAND`` ends COMMAND when its standard input is closed."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "kafka_redelivery.transport.broker.guard", "--", *_SLEEPS], stdin=subprocess.PIPE
    )

    guard.communicate(timeout=_WAIT_SECONDS)

    assert guard.returncode == -signal.SIGTERM
