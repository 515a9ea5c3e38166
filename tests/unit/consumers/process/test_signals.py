"""The first signal asks for a shutdown, the second ends the process immediately."""

import os
import signal
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.process.signals import _exit_immediately, stop_on_signal


@pytest.mark.parametrize(("pid", "second"), [(1, _exit_immediately), (4711, signal.SIG_DFL)], ids=["first", "any"])
def test_the_second_signal_ends_the_process(monkeypatch: pytest.MonkeyPatch, pid: int, second: object) -> None:
    """Also for the first process of a container, for which the kernel ignores signals without a handler."""
    stopped: list[bool] = []
    monkeypatch.setattr(os, "getpid", lambda: pid)
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal(lambda: stopped.append(True), timedelta(hours=1)):
        signal.raise_signal(signal.SIGTERM)
        assert stopped == [True]
        assert signal.getsignal(signal.SIGTERM) is second
    assert signal.getsignal(signal.SIGTERM) is before
