"""What a command says of kinds of dead letters, and of those that it would send."""

import io

import pytest
from rich.console import Console

from kafka_redelivery.cli.views.dlq import letters_text, print_failures, print_preview, print_summary
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.index.summary import BUCKETS, Summary, SummaryRow
from kafka_redelivery.dead_letters.letter import DEFAULT_BY, By, Selection
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.unit.consumers.records import NOW

_URL = "Client error '404 Not Found' for url 'http://127.0.0.1:8080/charges/"


def _row(*texts: str, born_ms: int = NOW) -> SummaryRow:
    return SummaryRow(
        kind={By.ORIGIN: "orders", By.REASON: "redeliveries_exceeded", By.FINGERPRINT: "0123456789abcdef"},
        letters=3,
        states={"waiting": 3},
        first_ms=NOW,
        last_ms=NOW,
        born_ms=born_ms,
        trend=(3,) + (0,) * (BUCKETS - 1),
        expires_ms=None,
        sent=0,
        recovered=0,
        exception="HTTPStatusError",
        message=texts[0],
        place="shop.charge",
        texts=tuple((each, 1) for each in texts),
        distinct=len(texts),
    )


def _shown(*texts: str, born_ms: int = NOW) -> str:
    row = _row(*texts, born_ms=born_ms)
    console = Console(file=io.StringIO(), width=250)
    print_summary(console, Summary([row], 3, 0, 0, 0, NOW, NOW), DEFAULT_BY, 50, (), as_json=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_texts_that_look_the_same_are_counted_alone() -> None:
    """What differs is beyond the end of the line; those that differ before it are listed."""
    shown = _shown(f"{_URL}1'", f"{_URL}2'", f"{_URL}3'")
    assert " 3 texts" in shown
    assert "1 x" not in shown
    shown = _shown("no amount", "no iban", "no key")
    assert all(f"1 x no {each}" in shown for each in ("amount", "iban", "key"))
    assert "texts" not in shown


def test_the_first_of_a_kind_is_shown_if_it_is_not_meant() -> None:
    """Else the oldest that is meant looks like the first."""
    assert "first" not in _shown("a")
    shown = _shown("a", born_ms=NOW - 86_400_000)
    assert "first" in shown
    assert shown.count("2026-") == 3


@pytest.mark.parametrize(
    ("again", "text"),
    [(False, "2 of them died again after a redrive\n"), (True, "2 of them were sent again before\n")],
)
def test_letters_of_records_that_were_sent_before(again: bool, text: str) -> None:  # noqa: FBT001 - a parameter of a test
    """Without --again a letter that was sent is left out, so that these are later letters of the same records."""
    found = Preview(Selection(), JobOptions(group="billing", again=again), None, NOW, total=9, redriven_before=2)
    console = Console(file=io.StringIO(), width=250)
    print_preview(console, found)
    assert isinstance(console.file, io.StringIO)
    assert text in console.file.getvalue()


def test_ids_that_no_letter_has_are_named() -> None:
    """The first ones."""
    ids = tuple(f"orders-0@{number}" for number in range(7))
    console = Console(file=io.StringIO(), width=250)
    for unknown in (ids, ids[:1]):
        print_preview(console, Preview(Selection(), JobOptions(group="billing"), None, NOW, unknown_ids=unknown))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "7 of the ids are mistyped" in shown
    assert ": orders-0@0, orders-0@1, orders-0@2, orders-0@3, orders-0@4 and 2 more\n" in shown
    assert "1 of the ids is mistyped, or of no letter of the group (any more): orders-0@0\n" in shown


def test_an_action_names_the_failures_of_its_letters() -> None:
    """A fingerprint alone says nothing to a person who is asked whether to send them."""
    console = Console(file=io.StringIO(), width=250)
    rows = [_row(f"no {each}") for each in range(7)]
    print_failures(console, Summary(rows, 21, 0, 0, 0, NOW, NOW))
    assert isinstance(console.file, io.StringIO)
    first, *_, last = lines = console.file.getvalue().splitlines()
    assert (first, last) == ("selected: 3 x HTTPStatusError: no 0 in shop.charge", "selected: 6 of 2 more failures")
    assert len(lines) == 6


def test_one_letter_is_not_letters() -> None:
    """In the totals of lists and previews."""
    assert [letters_text(number) for number in (0, 1, 2)] == ["0 dead letters", "1 dead letter", "2 dead letters"]
