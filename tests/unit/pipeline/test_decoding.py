import json
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoding import as_json

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON)
def test_what_json_can_hold_comes_back(value: object) -> None:
    """A decoded document is the same document as JSON text, and that is text that a table can hold."""
    text = as_json(value)

    assert json.loads(text) == value
    assert text.encode().decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\xff\x00", '"_wA="'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00Z"'),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ({"x": float("nan")}, '{"x":"NaN"}'),
        ("\ud800", '"\\ud800"'),
    ],
)
def test_other_values_have_a_text(value: object, text: str) -> None:
    """What a codec of Avro gives and JSON has no form for is said as text."""
    assert as_json(value) == text
