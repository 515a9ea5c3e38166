"""The first signal asks for an orderly end, the second ends the process."""

import os
import signal
from datetime import timedelta

import pytest

from consumers.wiring import _end_at_once, _until_signalled


@pytest.mark.parametrize(("pid", "second"), [(1, _end_at_once), (4711, signal.SIG_DFL)], ids=["first", "any"])
def test_the_second_signal_ends_the_process(monkeypatch: pytest.MonkeyPatch, pid: int, second: object) -> None:
    """Also the first process of a container, which the kernel spares where it has no handler."""
    stopped: list[bool] = []
    monkeypatch.setattr(os, "getpid", lambda: pid)
    before = signal.getsignal(signal.SIGTERM)
    with _until_signalled(lambda: stopped.append(True), timedelta(hours=1)):
        signal.raise_signal(signal.SIGTERM)
        assert stopped == [True]
        assert signal.getsignal(signal.SIGTERM) is second
    assert signal.getsignal(signal.SIGTERM) is before
