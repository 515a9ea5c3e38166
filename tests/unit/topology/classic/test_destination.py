"""Names that a broker takes apart in its own way; the rest is recorded in tests/parity."""

import pytest

from kafka_redelivery.topology.classic.choice import FilterKind, choose, filter_kind, matches
from kafka_redelivery.topology.classic.destination import parse_destination
from kafka_redelivery.topology.errors import DestinationError


@pytest.mark.parametrize("text", [",", ", ,", ",,,"])
def test_commas_alone_are_a_composite_of_nothing(text: str) -> None:
    """It means no destination, not even the one of the same name."""
    found = parse_destination(text)
    assert found.composite
    assert filter_kind(found) is FilterKind.COMPOSITE
    assert not matches(found, found)
    assert choose([found], parse_destination("A")).winner is None


@pytest.mark.parametrize("text", ["A?x=%", "A?x=%zz", "A?ok=1&x=%4"])
def test_an_option_that_cannot_be_decoded_is_refused(text: str) -> None:
    """As the broker does."""
    with pytest.raises(DestinationError, match="hexadecimal"):
        parse_destination(text)


def test_a_broken_escape_in_an_option_without_a_value_is_not_looked_at() -> None:
    """It is never decoded."""
    assert parse_destination("A?%").options == {"%": None}
