"""A background thread starts its work again after an error and ends with its block."""

from threading import Event

import pytest

from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.transport.errors import TransportError, WriterFencedError

CONSEQUENCE = "dead letters are not counted"


class Work:
    """Raises these errors, one per start, then runs until it is asked to end."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.starts = 0
        self.errors_seen = 0
        self.running = Event()
        self.ended = Event()

    def run(self, ended: Event) -> None:
        self.starts += 1
        if self._errors:
            raise self._errors.pop(0)
        self.running.set()
        ended.wait(30)
        self.ended.set()

    def on_error(self) -> None:
        self.errors_seen += 1


@pytest.mark.parametrize("error", [TransportError("no broker"), ValueError("a defect")])
def test_work_restarts_after_an_error(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the consequence and the error, and ``on_error`` is called."""
    work = Work(error, error)
    with background_thread("work", work.run, CONSEQUENCE, restart_s=0.001, on_error=work.on_error):
        assert work.running.wait(30)
    assert (work.starts, work.errors_seen) == (3, 2)
    assert work.ended.is_set(), "the block waits for the end of the work"
    assert caplog.text.count(f"{CONSEQUENCE} now") == 2
    assert str(error) in caplog.text


def test_fenced_work_does_not_restart(caplog: pytest.LogCaptureFixture) -> None:
    """A restart would fence the process that has the name now."""
    fenced = Event()
    work = Work(WriterFencedError("another process is s1"), ValueError("not reached"))

    def run(ended: Event) -> None:
        try:
            work.run(ended)
        finally:
            fenced.set()

    with background_thread("work", run, CONSEQUENCE, restart_s=0.001, on_error=work.on_error):
        assert fenced.wait(30)
        assert not work.running.wait(0.1)
    assert (work.starts, work.errors_seen) == (1, 0)
    assert f"{CONSEQUENCE} by this process any more: another process is s1" in caplog.text
