"""Who guesses tokens gets few tries, over all requests of a peer, and is seen in the log."""

import logging
from collections import Counter
from pathlib import Path

import anyio
import pytest

from kafka_redelivery.cli.console import access
from kafka_redelivery.cli.console.pages import session
from kafka_redelivery.consumers.clock import monotonic_s
from tests.integration.console.test_protection import _TOKEN, _login
from tests.unit.cli.console.consoles import answered, client, console_of, guarded


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait after a wrong token."""
    monkeypatch.setattr(session, "_FAILED_S", 0.0)


def test_ten_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Then not even the right one is looked at, so that none can be found out; another peer is let in."""
    now_s = monotonic_s()
    monkeypatch.setattr(access, "monotonic_s", lambda: now_s)
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    browser = client(app, "10.0.0.7")
    for _ in range(10):
        assert browser.post("/login", data={"token": "another"}).status_code == 401
    refused = browser.post("/login", data={"token": _TOKEN})
    assert refused.status_code == 429
    assert "too many wrong tokens came from 10.0.0.7; try again in 60 s" in refused.text
    assert client(app, "10.0.0.8").post("/login", data={"token": _TOKEN}).status_code == 303
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert lines[:9] == ["a wrong token came from 10.0.0.7"] * 9
    assert lines[9:] == ["a wrong token came from 10.0.0.7; no more of its tokens are looked at for 60 s"]
    monkeypatch.setattr(access, "monotonic_s", lambda: now_s + 61)
    assert browser.post("/login", data={"token": _TOKEN}).status_code == 303


def test_many_at_the_same_time(tmp_path: Path) -> None:
    """They count as one after the other."""
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    statuses: Counter[int] = Counter()
    kind = {"content-type": "application/x-www-form-urlencoded"}

    async def guess(number: int) -> None:
        status, _ = await answered(app, "/login", "POST", kind, [b"token=guess", b"%d" % number])
        statuses[status] += 1

    async def guess_all() -> None:
        async with anyio.create_task_group() as guesses:
            for number in range(40):
                guesses.start_soon(guess, number)

    anyio.run(guess_all)
    assert statuses == {401: 10, 429: 30}


def test_peers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a million costs memory for a minute alone, and ten thousand at most."""
    monkeypatch.setattr(access, "_MOST_PEERS", 3)
    tries = access.WrongTokens()
    for number in range(10):
        tries.add(f"10.0.0.{number}")
    assert len(tries._times_s) == 3
    later = monotonic_s() + 61
    monkeypatch.setattr(access, "monotonic_s", lambda: later)
    tries.add("10.0.1.1")
    assert len(tries._times_s) == 1
