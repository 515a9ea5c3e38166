"""The first signal asks for a shutdown, the second ends the process immediately."""

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.process.signals import _exit_immediately, stop_on_signal


@pytest.mark.parametrize(("pid", "second"), [(1, _exit_immediately), (4711, signal.SIG_DFL)], ids=["first", "any"])
def test_the_second_signal_ends_the_process(monkeypatch: pytest.MonkeyPatch, pid: int, second: object) -> None:
    """Also for the first process of a container, for which the kernel ignores signals without a handler."""
    stopped: list[bool] = []
    monkeypatch.setattr(os, "getpid", lambda: pid)
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal(lambda: stopped.append(True), timedelta(days=7)):
        signal.raise_signal(signal.SIGTERM)
        assert stopped == [True]
        assert signal.getsignal(signal.SIGTERM) is second
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("inside", "after"),
    [("time.sleep(60)", ""), ("ctypes.PyDLL(None).sleep(60)", ""), ("", "time.sleep(60)")],
    ids=["a call of Python", "a call of C that keeps all other threads waiting", "after the block"],
)
def test_a_shutdown_that_hangs_ends_the_process(inside: str, after: str) -> None:
    """Whatever hangs, also while it keeps Python's lock, and also when the work itself has ended."""
    program = f"""
import ctypes, logging, os, signal, time
from datetime import timedelta
from kafka_redelivery.consumers.process.signals import stop_on_signal
logging.basicConfig()
with stop_on_signal(lambda: None, timedelta(seconds=1)):
    os.kill(os.getpid(), signal.SIGTERM)
    {inside}
{after}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "not stopped within 1s" in ended.stderr or 'File "<string>", line 8 in <module>' in ended.stderr
