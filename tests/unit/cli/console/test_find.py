"""The page that says where a record is: its progress, what it has found, and what it has not looked at."""

import threading
from http import HTTPStatus
from pathlib import Path

import pytest

from kafka_redelivery.cli.console import searches
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.pages import find
from kafka_redelivery.consumers.operations.find import Found, Search, State, Wanted
from kafka_redelivery.consumers.operations.waiting import Report
from kafka_redelivery.transport.errors import ReaderError
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.consumers.records import NOW

_PLACES = (
    Found("orders-0@7", State.TIER, "billing.retry.5m-0@3", 2, NOW, "ConnectionError: away"),
    Found("orders-0@1", State.FINISHED),
)


def _answering(monkeypatch: pytest.MonkeyPatch, search: Search) -> list[tuple[Wanted, int]]:
    asked: list[tuple[Wanted, int]] = []

    def found(_settings: object, wanted: Wanted, limit: int, *_: object, **__: object) -> Search:
        asked.append((wanted, limit))
        return search

    monkeypatch.setattr(searches, "find", found)
    return asked


def test_it_says_where_a_record_is_and_what_it_has_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place, the time when it is due, the cause; and a way to look further."""
    asked = _answering(monkeypatch, Search(_PLACES, ("finished records: only 5 of about 9 were read; raise --limit",)))
    page = client(guarded(console_of(tmp_path))).get("/find?q=A-4711")
    assert page.status_code == HTTPStatus.OK
    for part in (
        "billing.retry.5m-0@3",
        "ConnectionError: away",
        "orders-0@1",
        "only 5 of about 9 were read",
        "1,000,000",
    ):
        assert part in page.text
    assert "--limit" not in page.text
    assert 'hx-trigger="load' not in page.text
    assert asked == [(Wanted("A-4711"), 200_000)]


def test_the_same_question_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many people ask it at the same time, or again while it is read."""
    asked = _answering(monkeypatch, Search(_PLACES, ()))
    browser = client(guarded(console_of(tmp_path)))
    assert [browser.get("/find?header=a%3Db").status_code for _ in range(2)] == [HTTPStatus.OK] * 2
    assert asked == [(Wanted("b", "a"), 200_000)]


def test_a_search_that_takes_long_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page asks again until it has ended."""
    goes_on = threading.Event()

    def slow(_settings: object, _wanted: Wanted, _limit: int, report: Report, **_: object) -> Search:
        report(1000, 4000)
        goes_on.wait(60)
        return Search(_PLACES, ())

    monkeypatch.setattr(searches, "find", slow)
    monkeypatch.setattr(find, "_SOON_S", 0.2)
    browser = client(guarded(console_of(tmp_path)))
    try:
        page = browser.get("/find?q=A-4711")
        assert "1,000 of 4,000 records" in page.text
        assert 'hx-trigger="load delay:1s"' in page.text
    finally:
        goes_on.set()
    monkeypatch.setattr(find, "_SOON_S", 60)
    assert "billing.retry.5m-0@3" in browser.get("/find?q=A-4711").text


def test_a_search_that_ends_while_its_page_is_made_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page would be taken for the whole answer without it."""
    goes_on = threading.Event()

    def slow(*_: object, **__: object) -> Search:
        goes_on.wait(60)
        return Search(_PLACES, ())

    def texts(console: Console, _: str) -> None:
        goes_on.set()
        assert console.searches.begin(Wanted("A-4711"), 200_000, dead_letters=True).ended.wait(60)

    monkeypatch.setattr(searches, "find", slow)
    monkeypatch.setattr(find, "_SOON_S", 0.0)
    monkeypatch.setattr(find, "_texts", texts)
    page = client(guarded(console_of(tmp_path))).get("/find?q=A-4711")
    assert 'hx-trigger="load delay:1s"' in page.text
    assert "As of" not in page.text


def test_a_search_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the part of the page that asks again: it may fail late."""

    def failing(*_: object, **__: object) -> Search:
        raise ReaderError("Kafka sent nothing for 30 s")

    monkeypatch.setattr(searches, "find", failing)
    page = client(guarded(console_of(tmp_path))).get("/find?q=A-4711")
    _, _, found = page.text.partition('<div id="found"')
    assert "Kafka sent nothing for 30 s" in found
    assert 'hx-trigger="load' not in page.text


def test_only_so_many_searches_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A further one is refused until one has ended. One that has not ended is never begun again by its page."""
    goes_on = threading.Event()

    def slow(*_: object, **__: object) -> Search:
        goes_on.wait(60)
        return Search(_PLACES, ())

    monkeypatch.setattr(searches, "find", slow)
    monkeypatch.setattr(searches, "_KEPT", 5)
    monkeypatch.setattr(find, "_SOON_S", 0.0)
    browser = client(guarded(console_of(tmp_path)))
    try:
        for _ in range(2):
            answers = [browser.get(f"/find?q=A-{number}") for number in range(30)]
            refused = [HTTPStatus.SERVICE_UNAVAILABLE] * 10
            assert [each.status_code for each in answers] == [HTTPStatus.OK] * 20 + refused
            assert "load the page again" in answers[-1].text
            assert sum(each.name == "search" for each in threading.enumerate()) == 20
    finally:
        goes_on.set()
    monkeypatch.setattr(find, "_SOON_S", 60)
    for number in range(40):
        assert "billing.retry.5m-0@3" in browser.get(f"/find?q=A-{number}").text


@pytest.mark.parametrize("query", ["q=A-4711", "header=tenant%3Dacme"])
@pytest.mark.parametrize("led", [{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, {}])
def test_a_link_of_another_site_fills_the_question_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, led: dict[str, str]
) -> None:
    """A person asks it. With a session, a page of our own leads on from such a link, because of the cookie."""
    asked = _answering(monkeypatch, Search(_PLACES, ()))
    browser = client(guarded(console_of(tmp_path)))
    page = browser.get(f"/find?{query}" + ("" if led else "&retried=1"), headers=led)
    assert page.status_code == HTTPStatus.OK
    assert 'value="A-4711"' in page.text or 'value="tenant=acme"' in page.text
    assert "press Find" in page.text
    assert not asked
    assert "billing.retry.5m-0@3" in browser.get(f"/find?{query}").text


@pytest.mark.parametrize("query", ["q=A-4711", "header=tenant%3Dacme"])
def test_hidden_payloads_are_not_found_by_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A key or a header could be guessed by asking."""
    asked = _answering(monkeypatch, Search(_PLACES, ()))
    page = client(guarded(console_of(tmp_path, options=ConsoleOptions(hide_payloads=True)))).get(f"/find?{query}")
    assert "payloads are hidden here" in page.text
    assert not asked


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("A-4711", "/find?q=A-4711"),
        ("orders-0@7", "/find?q=orders-0%407"),
        ("DLQ.orders-0@7", "/letters/DLQ.orders-0%407"),
        ("0123456789abcdef", "/letters?fingerprint=0123456789abcdef"),
        ("", "/find"),
    ],
)
def test_the_field_at_the_top_leads_to_what_a_text_means(tmp_path: Path, text: str, address: str) -> None:
    """A letter and a failure have pages; anything else is searched for."""
    answer = client(guarded(console_of(tmp_path))).get("/search", params={"q": text})
    assert answer.headers["location"] == address
