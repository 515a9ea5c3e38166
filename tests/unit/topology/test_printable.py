"""Control characters of records do nothing where people read them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.printable import printable, printable_json, printable_line, printable_time

_HOSTILE = "a\x1b]0;title\x07\x9b31m\r\u202eb\x7f\u2028\ud800é\n\t"


def test_what_moves_a_cursor_is_an_escape() -> None:
    """Escape sequences of 7 and 8 bits, carriage return, direction of writing, and a lone surrogate."""
    assert printable(_HOSTILE) == r"a\x1b]0;title\x07\x9b31m\r\u202eb\x7f\u2028\ud800é" + "\n\t"
    assert printable_line(_HOSTILE).endswith(r"é\n\t")


@given(st.text(st.characters()))
def test_the_result_can_be_printed(text: str) -> None:
    """It is stable, and JSON keeps its content."""
    assert printable_line(text).isprintable()
    assert printable(text).replace("\n", "").replace("\t", "").isprintable()
    assert printable_line(printable_line(text)) == printable_line(text)
    whole = printable_json(json.dumps({text: [text]}, indent=2, ensure_ascii=False))
    assert whole.replace("\n", "").isprintable()
    assert json.loads(whole) == {text: [text]}


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (1_772_352_000_999, "2026-03-01 08:00:00 UTC"),
        (-1, "1970-01-01 00:00:00 UTC"),
        (2**63 - 1, "9999-12-31 23:59:59 UTC"),
    ],
)
def test_each_time_can_be_shown(epoch_ms: int, text: str) -> None:
    """A header may have any number."""
    assert printable_time(epoch_ms) == text
