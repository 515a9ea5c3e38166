"""Control characters of records do nothing where people read them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.printable import printable, printable_json, printable_line

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
