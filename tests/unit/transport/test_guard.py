import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from transport.guard import Guarded

_WAIT_SECONDS = 20


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
def test_the_exit_code_is_the_childs(code: int) -> None:
    """Whoever waits for the guard learns how the child ended."""
    assert Guarded(_python(f"raise SystemExit({code})")).wait(_WAIT_SECONDS) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_that_ended_the_child_is_told(number: signal.Signals) -> None:
    """A child ended by a signal looks ended by that signal through the guard too."""
    child = Guarded(_SLEEPS)

    os.kill(child.pid, number)

    assert child.wait(_WAIT_SECONDS) == -number


def test_terminate_reaches_the_child() -> None:
    """SIGTERM to the guard is SIGTERM to the child, which may clean up and choose its exit code."""
    child = Guarded(
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


def test_kill_ends_the_child_at_once() -> None:
    """A child that ignores SIGTERM is ended by kill."""
    child = Guarded(_IGNORES_SIGTERM)

    child.kill()

    assert child.wait(_WAIT_SECONDS) == -signal.SIGKILL


def test_a_command_that_is_not_there_is_an_error() -> None:
    """Starting nothing fails in the caller, not silently in the guard."""
    with pytest.raises(OSError, match="no-such-program"):
        Guarded(["/no-such-program"])


def _parent(*, body: str = "", options: str = "") -> subprocess.Popen[str]:
    """A process that guards a child with the given options, tells the two ids, and waits to be killed."""
    code = f"""
        import os, sys, time
        from pathlib import Path
        from transport.guard import Guarded
        child = Guarded({_IGNORES_SIGTERM!r}, grace_seconds=0.5, stdout=-1, {options})
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


def test_the_child_ends_when_its_parent_is_killed() -> None:
    """Kill -9 of the parent ends the child, even one that ignores SIGTERM, and the guard with it."""
    assert _kill_and_look(_parent()) == [True, True]


def test_a_fork_of_the_parent_does_not_keep_the_child() -> None:
    """A forked child of the parent has a copy of the pipe; the guard ends all the same."""
    body = "\n        if (fork := os.fork()) == 0: time.sleep(8); os._exit(0)"
    assert _kill_and_look(_parent(body=body)) == [True, True]


def test_the_directory_goes_with_the_child(tmp_path: Path) -> None:
    """What the guard was told to remove is gone after the parent was killed."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "file").touch()

    assert _kill_and_look(_parent(options=f"remove=Path({str(directory)!r})")) == [True, True]
    assert not directory.exists()


def test_the_guard_is_a_command_too() -> None:
    """``python -m transport.guard -- COMMAND`` ends COMMAND at the end of its standard input."""
    guard = subprocess.Popen([sys.executable, "-m", "transport.guard", "--", *_SLEEPS], stdin=subprocess.PIPE)

    guard.communicate(timeout=_WAIT_SECONDS)

    assert guard.returncode == -signal.SIGTERM
