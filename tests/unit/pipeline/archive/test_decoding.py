import json
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.plain import as_json

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON)
def test_json_values_round_trip(value: object) -> None:
    """A JSON value survives the conversion to text, and the text is valid UTF-8."""
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
def test_other_values_become_text(value: object, text: str) -> None:
    """Values of Avro that JSON has no type for become strings."""
    assert as_json(value) == text
