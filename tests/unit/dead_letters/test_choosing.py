"""What a person has written selects letters, or is refused with the name of the field."""

import pytest

from kafka_redelivery.dead_letters.choosing import FIELDS, SINGLE, selection_of
from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.topology.errors import OptionError

_NOW_MS = 1_772_352_000_000


def test_nothing_selects_all() -> None:
    """A missing field is one that was left empty."""
    assert selection_of({}, _NOW_MS) == selection_of(dict.fromkeys(FIELDS), _NOW_MS) == Selection()


def test_each_field_counts() -> None:
    """A text alone is one value."""
    given = {
        "origin": ["orders*", "refunds"],
        "reason": "rejected",
        "exception": "E",
        "fingerprint": "0123456789abcdef",
        "key": "k",
        "header": ["a=", "b=c=d"],
        "since": "2h",
        "until": "1h",
        "state": ["waiting", LetterState.SENT],
        "id": ["DLQ.orders-0@1"],
        "where": "attempts > 1",
    }
    assert set(given) == set(FIELDS) > SINGLE
    found = selection_of(given, _NOW_MS)
    assert (found.origins, found.reasons, found.exceptions) == (("orders*", "refunds"), ("rejected",), ("E",))
    assert (found.fingerprints, found.keys) == (("0123456789abcdef",), ("k",))
    assert found.headers == (("a", ""), ("b", "c=d"))
    assert (found.since_ms, found.until_ms) == (_NOW_MS - 7_200_000, _NOW_MS - 3_600_000)
    assert found.states == (LetterState.WAITING, LetterState.SENT)
    assert found.ids == {"DLQ.orders-0@1"}
    assert found.where is not None


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("since", "yesterday", "neither a time such as"),
        ("until", "", "neither a time such as"),
        ("until", "0001-01-01", "before 1970"),
        ("header", "traceparent", "is not NAME=VALUE"),
        ("header", "=value", "is not NAME=VALUE"),
        ("fingerprint", "no card", "is not 16 hex digits"),
        ("state", "lost", "is no state"),
        ("id", "DLQ.orders-0-17", "is not TOPIC-PARTITION@OFFSET"),
        ("id", "orders-0@" + "9" * 19, "is not TOPIC-PARTITION@OFFSET"),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: str, problem: str) -> None:
    """A command shows it as a usage error of the option, a page beside the field."""
    with pytest.raises(OptionError, match=problem) as caught:
        selection_of({field: value}, _NOW_MS)
    assert caught.value.option == field
