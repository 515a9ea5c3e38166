"""Where a record comes from, and how often it has been delivered."""

from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.lineage import Lineage, parse_message_id

TOPICS = st.text(ascii_letters + digits + "._-", min_size=1, max_size=249)
"""What Kafka allows as the name of a topic: dashes, digits and dots in any place."""


def test_a_message_id_names_the_first_delivery() -> None:
    """The identity is read as topic, partition and offset, in that order."""
    assert Lineage("orders", partition=3, offset=42, timestamp_ms=0).message_id == "orders-3@42"


def test_a_dash_in_a_topic_is_not_taken_for_the_one_before_the_partition() -> None:
    """Only the last dash ends the name of the topic."""
    assert parse_message_id("orders-2024-3@42") == ("orders-2024", 3, 42)


@given(TOPICS, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_message_id_can_be_taken_apart(topic: str, partition: int, offset: int) -> None:
    """Whatever the topic is called, the identity comes back exactly."""
    lineage = Lineage(topic, partition, offset, timestamp_ms=0)
    assert parse_message_id(lineage.message_id) == (topic, partition, offset)


ALIKE = st.tuples(st.text("a-1", min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 12)).map(
    lambda place: Lineage(*place, timestamp_ms=0)
)
"""Records whose topics, partitions and offsets are easily mistaken for each other."""


@given(ALIKE, ALIKE)
def test_different_records_have_different_message_ids(one: Lineage, other: Lineage) -> None:
    """No two records share an identity, however alike the names of their topics are."""
    assert (one.message_id == other.message_id) == (one == other)


MALFORMED = [
    "",
    "@",
    "-@",
    "orders",
    "orders-3",
    "orders@42",
    "orders-@42",
    "orders-3@",
    "-3@42",
    "orders-x@42",
    "orders-3@x",
    "orders-3@-42",
    "orders-3@4 2",
    "orders-3@+42",
    "orders-3@4_2",
    "orders-3@\N{ARABIC-INDIC DIGIT FOUR}",
    "orders-\N{SUPERSCRIPT TWO}@42",
    "or ders-3@42",
    "orders\x1b[2J\n-3@42",
    "../orders-3@42",
    f"{'x' * 250}-3@42",
    f"orders-{2**31}@42",
    f"orders-3@{2**63}",
    f"orders-3@{'9' * 4000}"[:300],
]


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_not_a_message_id_is_refused(text: str) -> None:
    """Anything that is not exactly of the form is an error that shows the text, never a guess."""
    with pytest.raises(ValueError, match="not a message id") as caught:
        parse_message_id(text)
    assert repr(text) in str(caught.value)


@given(st.text())
def test_any_text_is_a_message_id_or_a_value_error(text: str) -> None:
    """Text from elsewhere raises nothing but the documented error, and what is read is what was written."""
    try:
        address, partition, offset = parse_message_id(text)
    except ValueError:
        return
    assert (partition, offset) >= (0, 0)
    assert text.startswith(f"{address}-")


def test_a_refusal_does_not_repeat_a_huge_text() -> None:
    """An error message stays short, whatever was in the header."""
    with pytest.raises(ValueError, match="not a message id") as caught:
        parse_message_id("x" * 1_000_000)
    assert len(str(caught.value)) < 500


def test_counting_a_delivery_changes_nothing_else() -> None:
    """The same record with another count is otherwise the same record."""
    lineage = Lineage("orders", 3, 42, timestamp_ms=7, deliveries=1, expiration_ms=99)
    assert lineage.delivered(2) == Lineage("orders", 3, 42, timestamp_ms=7, deliveries=2, expiration_ms=99)
    assert lineage.deliveries == 1


def test_a_source_record_has_no_deliveries_and_never_expires() -> None:
    """Deliveries made count from 0; 0 is no expiration."""
    lineage = Lineage("orders", 3, 42, timestamp_ms=7)
    assert (lineage.deliveries, lineage.expiration_ms) == (0, 0)
