"""Failures that are new since a time are marked, and an action names its failures."""

import json
from pathlib import Path

import pytest

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.topology.printable import printable_time
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import TOPIC, published
from tests.unit.dead_letters.index.test_selecting import opened

_HOUR_MS = 3_600_000


def _died(at: int, message: str, died_ms: int) -> Fetched:
    cause = {"reason": "redeliveries_exceeded", "exception": "HTTPStatusError", "message": message}
    headers: list[tuple[str, bytes | None]] = [
        ("_AMQ_ORIG_QUEUE", b"billing"),
        ("_AMQ_ORIG_ADDRESS", b"orders"),
        ("dlqDeliveryFailureCause", json.dumps(cause).encode()),
    ]
    return Fetched(TOPIC, 0, at, b"k", b"v", headers, died_ms)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A console with a failure of the day before that goes on, and one that is new."""
    found = console_of(tmp_path)
    known, new = "Client error '404 Not Found'\nSee the manual", "Client error '401 Unauthorized'"
    letters = [
        _died(0, known, NOW - 24 * _HOUR_MS),
        _died(1, known, NOW - _HOUR_MS),
        _died(2, known, NOW - _HOUR_MS),
        _died(3, new, NOW - _HOUR_MS),
    ]
    found.letters._writer, found.letters._state = opened(published(tmp_path / "billing", letters)), 1
    return found


def _rows(page: str) -> list[str]:
    return page.partition("<tbody>")[2].partition("</tbody>")[0].split("<tr ")[1:]


def test_failures_that_are_new_since_a_time(console: Console) -> None:
    """They come first and are marked; the others say when they began, also before that time."""
    since = printable_time(NOW - 2 * _HOUR_MS).replace(" UTC", "")
    new, known = _rows(client(guarded(console)).get("/failures", params={"since": since}).text)
    assert "401" in new
    assert '<span class="state state-new">new</span>' in new
    assert "404" in known
    assert "state-new" not in known
    assert f'data-ms="{NOW - 24 * _HOUR_MS}"' in known


def test_without_a_time_nothing_is_new(console: Console) -> None:
    """The most frequent failure is first."""
    known, new = _rows(client(guarded(console)).get("/failures").text)
    assert ("404" in known, "401" in new) == (True, True)
    assert "state-new" not in known + new


@pytest.mark.parametrize("place", ["/failures", "/letters", "/failures/names"])
def test_a_text_of_several_lines_is_one_line(console: Console, place: str) -> None:
    """As a person reads it: no escape stands for the end of a line."""
    page = client(guarded(console)).get(place).text
    assert "Client error &#39;404 Not Found&#39; See the manual" in page


def test_a_redrive_names_its_failures(console: Console) -> None:
    """A fingerprint says nothing to a person, and the state has the word of the list."""
    browser = client(guarded(console))
    page = browser.get("/failures").text
    address = _rows(page)[0].partition('data-redrive="')[2].partition('"')[0]
    asked = browser.get(address.replace("&amp;", "&")).text
    query = asked.partition('hx-get="/failures/names?')[2].partition('"')[0].replace("&amp;", "&")
    names = browser.get(f"/failures/names?{query}").text
    assert "<b>3</b> HTTPStatusError" in names
    assert "401" not in names
    assert "needs a decision" in asked
    assert ">undecided<" not in asked
