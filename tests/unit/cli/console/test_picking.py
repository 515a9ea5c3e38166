"""Failures and letters are picked row by row; every filter is shown and can be taken away."""

import json
from html import unescape
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.datastructures import QueryParams

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.selection_form import UNDECIDED, chosen
from kafka_redelivery.dead_letters.letter import FREE
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import TOPIC, published
from tests.unit.dead_letters.index.test_selecting import opened


def _died(at: int, origin: bytes, reason: str, exception: str) -> Fetched:
    cause = json.dumps({"reason": reason, "exception": exception, "message": "away"}).encode()
    headers: list[tuple[str, bytes | None]] = [
        ("_AMQ_ORIG_QUEUE", b"billing"),
        ("_AMQ_ORIG_ADDRESS", origin),
        ("dlqDeliveryFailureCause", cause),
    ]
    return Fetched(TOPIC, 0, at, b"k", b"v", headers, NOW)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A console with five letters of three failures, one of which has a quote in its source."""
    found = console_of(tmp_path)
    kinds = [
        (b"orders", "rejected", "Reject"),
        (b"orders", "redeliveries_exceeded", "ConnectionError"),
        (b"orders", "redeliveries_exceeded", "ConnectionError"),
        (b"o'rders", "rejected", "Reject"),
        (b"orders", "redeliveries_exceeded", "TimeoutError"),
    ]
    letters = [_died(at, *kind) for at, kind in enumerate(kinds)]
    found.letters._writer, found.letters._state = opened(published(tmp_path / "billing", letters)), 1
    return found


def _attributes(page: str, before: str) -> list[str]:
    """Return the attributes of a page whose text begins after ``before``."""
    return [unescape(part.partition('"')[0]) for part in page.split(before)[1:]]


def _picked(console: Console, *failures: str, **more: str) -> tuple[int, str]:
    """Tick the rows of some failures, and return where the button leads."""
    browser = client(guarded(console))
    page = browser.get("/failures", params=more).text
    rows = zip(_attributes(page, 'name="kind" value="'), _attributes(page, 'aria-label="Select '), strict=True)
    answer = browser.get("/failures/redrive", params={"kind": [kind for kind, of in rows if of in failures], **more})
    return answer.status_code, answer.headers["Location"]


def _total(console: Console, address: str) -> str:
    page = client(guarded(console)).get(address.replace("/redrive", "/letters", 1)).text
    return page.partition("<p><b>")[2].partition("</b>")[0]


def test_picked_failures_are_exactly_what_is_redriven(console: Console) -> None:
    """Of each its source, reason and fingerprint; another source with the same failure is not taken along."""
    status, address = _picked(console, "ConnectionError of orders")
    assert status == HTTPStatus.SEE_OTHER
    assert _total(console, address) == "2"
    _, address = _picked(console, "ConnectionError of orders", "Reject of o'rders")
    assert _total(console, address) == "3"
    _, address = _picked(console, "Reject of orders", where="message = 'away'")
    assert _total(console, address) == "1"


@pytest.mark.parametrize("kind", ["", "[]", "null", '["a"]', "[1, 2, 3]", '[["a"], "b", "c"]', "[" * 9000])
def test_a_damaged_selection_selects_nothing(console: Console, kind: str) -> None:
    """Nothing at all, rather than everything."""
    answer = client(guarded(console)).get("/failures/redrive", params={"kind": kind} if kind else {})
    assert answer.status_code == HTTPStatus.BAD_REQUEST


def test_failures_begin_with_what_needs_a_decision(console: Console) -> None:
    """It is a filter like any other: it is seen, and can be taken away."""
    page = client(guarded(console)).get("/failures").text
    assert "needs a decision</span>" in page
    assert 'href="/failures?state=any" aria-label="Remove the filter state undecided"' in page
    wanted = chosen(QueryParams(), hide_payloads=False, state=UNDECIDED)
    assert set(wanted.selection.states) == set(FREE)
    assert chosen(QueryParams("state=any"), hide_payloads=False, state=UNDECIDED).selection.states == ()
    assert chosen(QueryParams("state=sent"), hide_payloads=False, state=UNDECIDED).selection.states == ("sent",)


def test_every_filter_is_seen_and_can_be_taken_away(console: Console) -> None:
    """Also those that have no field of their own, and one value of several."""
    page = client(guarded(console)).get("/letters?fingerprint=0123456789abcdef&key=a&key=b").text
    links = [each for part in page.split('class="chip filter"')[1:] for each in _attributes(part, ' <a href="')[:1]]
    left = [parse_qs(urlsplit(each).query) for each in links]
    assert left == [
        {"key": ["a", "b"]},
        {"fingerprint": ["0123456789abcdef"], "key": ["b"]},
        {"fingerprint": ["0123456789abcdef"], "key": ["a"]},
    ]


def test_letters_are_picked_by_their_ids(console: Console) -> None:
    """The boxes are fields of the form that leads to the redrive."""
    page = client(guarded(console)).get("/letters").text
    assert page.count('<input type="checkbox" name="id" value="DLQ.orders-0@') == 5
    assert _total(console, "/redrive?id=DLQ.orders-0@1&id=DLQ.orders-0@4") == "2"


def test_a_failure_has_its_distinct_texts(console: Console) -> None:
    """They are counted when a person opens them; a picked failure has no such name."""
    browser = client(guarded(console))
    page = browser.get("/failures").text
    [*addresses] = _attributes(page, 'hx-get="/failures/texts')
    assert len(addresses) == 4
    texts = browser.get(f"/failures/texts{addresses[0]}").text
    assert '<b>2</b> <span class="message-text">away</span>' in texts
