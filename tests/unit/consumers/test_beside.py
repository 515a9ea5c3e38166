"""What runs beside the work begins again after an error, and ends with the work."""

from threading import Event

import pytest

from consumers.beside import beside
from transport.errors import TransportError, WriterFencedError

UNDONE = "the floor is not swept"


class Chore:
    """Fails in these ways, one after the other, then works until it is told to end."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.begun = 0
        self.forgotten = 0
        self.works = Event()
        self.ended = Event()

    def run(self, ended: Event) -> None:
        self.begun += 1
        if self._errors:
            raise self._errors.pop(0)
        self.works.set()
        ended.wait(30)
        self.ended.set()

    def forget(self) -> None:
        self.forgotten += 1


@pytest.mark.parametrize("error", [TransportError("no broker"), ValueError("a fault of ours")])
def test_after_an_error_it_begins_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """The block goes on, the log tells what is not done, and what was known is forgotten."""
    chore = Chore(error, error)
    with beside("chore", chore.run, UNDONE, again_s=0.001, failed=chore.forget):
        assert chore.works.wait(30)
    assert (chore.begun, chore.forgotten) == (3, 2)
    assert chore.ended.is_set(), "it was told to end, and waited for"
    assert caplog.text.count(f"{UNDONE} now") == 2
    assert str(error) in caplog.text


def test_what_is_fenced_does_not_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    """It would take the name from the process that has it."""
    told = Event()
    chore = Chore(WriterFencedError("somebody else is s1"), ValueError("must not be met"))

    def run(ended: Event) -> None:
        try:
            chore.run(ended)
        finally:
            told.set()

    with beside("chore", run, UNDONE, again_s=0.001, failed=chore.forget):
        assert told.wait(30)
        assert not chore.works.wait(0.1)
    assert (chore.begun, chore.forgotten) == (1, 0)
    assert f"{UNDONE} by this process any more: somebody else is s1" in caplog.text
