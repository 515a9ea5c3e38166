"""Letters whose records Kafka does not send keep no other page."""

import threading
from pathlib import Path

import anyio
import pytest

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.pages import letter
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.index.index import LetterRow
from tests.unit.cli.console.consoles import answered, console_of, guarded

_LETTER = "/letters/DLQ.orders-0@1"


class _Hanging:
    """A look-up of a letter that hangs until it is given up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given_up, self._begun = threading.Event(), threading.Semaphore(0)
        monkeypatch.setattr(letter, "row_of", self._hang)

    def _hang(self, _: Console, __: object) -> LetterRow:
        self._begun.release()
        self.given_up.wait(60)
        raise RedriveError("given up")

    async def until_begun(self, number: int = 1) -> None:
        """Wait until so many hang, and the others have had the time to."""
        for _ in range(number):
            await anyio.to_thread.run_sync(self._begun.acquire)
        await anyio.sleep(0.5)


@pytest.mark.parametrize("path", ["/story", "", "/raw", "/compare?with=previous"])
def test_a_letter_that_hangs_leaves_other_pages_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """More requests for it than a console has threads."""
    hanging = _Hanging(monkeypatch)
    app = guarded(console_of(tmp_path))

    async def look() -> None:
        async with anyio.create_task_group() as requests:
            for _ in range(12):
                requests.start_soon(answered, app, _LETTER + path)
            try:
                with anyio.fail_after(30):
                    await hanging.until_begun()
                    status, _ = await answered(app, "/topology")
                assert status == 200
            finally:
                hanging.given_up.set()

    anyio.run(look)


def test_a_letter_waits_for_its_turn_up_to_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it says that others are being read."""
    hanging = _Hanging(monkeypatch)
    monkeypatch.setattr("kafka_redelivery.cli.console.console._TURN_S", 0.2)
    app = guarded(console_of(tmp_path))

    async def look() -> None:
        async with anyio.create_task_group() as requests:
            for _ in range(2):
                requests.start_soon(answered, app, f"{_LETTER}/story")
            try:
                with anyio.fail_after(30):
                    await hanging.until_begun(2)
                    status, text = await answered(app, f"{_LETTER}/story")
                assert status == 503
                assert "other records are being read" in text
            finally:
                hanging.given_up.set()

    anyio.run(look)
