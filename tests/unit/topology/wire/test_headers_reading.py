"""Headers that others wrote or damaged: each fault is named, and none does harm."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.decision import Failure, FailureKind, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import (
    DELIVERY_MODE,
    EXPIRATION,
    OURS,
    Headers,
    read_address,
    read_due,
    read_expiration,
    read_lineage,
    read_partial_lineage,
    read_redelivery,
    read_waiting,
    ready_headers,
    retry_headers,
)
from tests.examples import share

NOW = 1_780_000_000_000
LONG_MAX = 2**63 - 1


class TestReading:
    GOOD = tuple(retry_headers(Lineage("orders", 3, 42, timestamp_ms=7, deliveries=1), "billing", [], Retry(1, 2)))

    @pytest.mark.parametrize("name", ["_AMQ_ORIG_MESSAGE_ID", "JMSTimestamp", "JMSXDeliveryCount"])
    @pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
    def test_a_header_that_is_missing_is_named(self, name: str, null: bool) -> None:  # noqa: FBT001
        """A record without one of them is refused; a null value counts as missing."""
        headers = [pair for pair in self.GOOD if pair[0] != name] + ([(name, None)] if null else [])
        with pytest.raises(HeaderError, match=f"^header {name} is missing$") as caught:
            read_lineage(headers)
        assert caught.value.header == name

    @pytest.mark.parametrize("name", ["JMSTimestamp", "JMSXDeliveryCount"])
    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (b"", "is not a number"),
            (b"-", "is not a number"),
            (b"--7", "is not a number"),
            (b"+7", "is not a number"),
            (b" 7", "is not a number"),
            (b"7.0", "is not a number"),
            (b"1e3", "is not a number"),
            (b"1_000", "is not a number"),
            (b"0x7", "is not a number"),
            (b"\x00\x00\x00\x07", "is not a number"),
            ("\N{ARABIC-INDIC DIGIT SEVEN}".encode(), "is not a number"),
            (b"1" * 20, "is not a number"),
            (b"1" * 100_000, "is not a number"),
            (b"\xff\xfe", "is not UTF-8"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    def test_what_is_not_a_number_is_named(self, name: str, value: bytes, problem: str) -> None:
        """Only decimal digits are read, at most as many as 64 bits have; the message stays short."""
        with pytest.raises(HeaderError, match=f"^header {name} {problem}") as caught:
            read_lineage([*self.GOOD, (name, value)])
        assert caught.value.header == name
        assert len(str(caught.value)) < 200

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (b"", "not a message id"),
            (b"orders", "not a message id"),
            (b"orders-3", "not a message id"),
            (b"orders@42", "not a message id"),
            (b"-3@42", "not a message id"),
            (b"orders-3@-42", "not a message id"),
            (b"orders-x@42", "not a message id"),
            (b"ID:host-1234-1:1:1:1", "not a message id"),
            (b"orders-3@" + b"4" * 5000, ""),
            (b"\xff-3@42", "is not UTF-8"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    def test_what_is_not_a_message_id_is_named(self, value: bytes, problem: str) -> None:
        """The origin is read exactly or not at all."""
        with pytest.raises(HeaderError, match=f"^header _AMQ_ORIG_MESSAGE_ID .*{problem}"):
            read_lineage([*self.GOOD, ("_AMQ_ORIG_MESSAGE_ID", value)])

    def test_a_record_without_a_timestamp_is_told_by_minus_one(self) -> None:
        """Kafka's "no timestamp" is a timestamp here too."""
        assert read_lineage([*self.GOOD, ("JMSTimestamp", b"-1")]).timestamp_ms == -1

    @pytest.mark.parametrize("value", [b"-1", b"-3"])
    def test_a_negative_count_is_not_a_count(self, value: bytes) -> None:
        """Deliveries count from 0."""
        with pytest.raises(HeaderError, match=r"^header JMSXDeliveryCount"):
            read_lineage([*self.GOOD, ("JMSXDeliveryCount", value)])

    @given(
        st.lists(
            st.tuples(st.sampled_from(sorted(OURS | {EXPIRATION})), st.none() | st.binary(max_size=30)), max_size=20
        )
    )
    def test_damaged_headers_are_header_errors(self, damage: Headers) -> None:
        """Any bytes in these headers are read, or raise the documented error."""
        try:
            read_lineage([*self.GOOD, *damage])
        except HeaderError as error:
            assert error.header in OURS  # noqa: PT017 - reading may succeed too


class TestReadDue:
    @pytest.mark.parametrize("due", [0, 1, NOW, LONG_MAX])
    def test_a_copy_tells_when_it_is_due(self, due: int) -> None:
        """Zero is a due time like any other."""
        assert read_due(retry_headers(Lineage("orders", 3, 42, timestamp_ms=7), "billing", [], Retry(1, due))) == due

    @pytest.mark.parametrize("value", [None, b"", b"soon", b"-1", b"7.0", b"1" * 20, b"\xff\xfe"], ids=repr)
    def test_what_cannot_be_read_is_not_a_due_time(self, value: bytes | None) -> None:
        """A malformed due time counts as missing; the reader uses the age of the record instead."""
        assert read_due([("a", b"1"), ("_AMQ_SCHED_DELIVERY", value)]) is None

    def test_a_record_that_never_waited_has_none(self) -> None:
        """As a record of the source, or one that was redriven."""
        assert read_due([("a", b"1")]) is None


class TestReadExpiration:
    @pytest.mark.parametrize(
        ("headers", "expiration"),
        [
            ([], 0),
            ([(EXPIRATION, b"1780000000000")], NOW),
            ([(EXPIRATION, b"0")], 0),
            ([(EXPIRATION, None)], 0),
            ([(EXPIRATION, b"")], 0),
            ([(EXPIRATION, b"soon")], 0),
            ([(EXPIRATION, b"-1")], 0),
            ([(EXPIRATION, b"1e9")], 0),
            ([(EXPIRATION, "\N{ARABIC-INDIC DIGIT SEVEN}".encode())], 0),
            ([(EXPIRATION, b"\x00\x00\x01\x9e\x6f\x4f\x28\x00")], 0),
            ([(EXPIRATION, b"9" * 20)], 0),
            ([(EXPIRATION, b"soon"), (EXPIRATION, b"7")], 7),
            ([("jmsexpiration", b"7")], 0),
        ],
        ids=repr,
    )
    def test_what_cannot_be_read_cannot_expire_a_record(self, headers: Headers, expiration: int) -> None:
        """On a source record the header belongs to the user: a number is used, anything else means never."""
        assert read_expiration(headers) == expiration

    @given(st.lists(st.tuples(st.text() | st.just(EXPIRATION), st.none() | st.binary())))
    def test_it_reads_any_record(self, headers: Headers) -> None:
        """No header of a source record raises."""
        assert read_expiration(headers) >= 0


@pytest.mark.parametrize("place", [0, -1])
def test_a_name_given_twice_is_read_alike_by_all(place: int) -> None:
    """A ready record is read alike in one call and in several."""
    copy = retry_headers(Lineage("orders", 3, 42, timestamp_ms=7, deliveries=1), "billing", [("a", b"1")], Retry(1, 8))
    copy.insert(place, ("_AMQ_SCHED_DELIVERY", b"9"))
    assert read_redelivery(copy) == (read_lineage(copy), read_due(copy), [("a", b"1")])


class TestInOrder:
    """Most headers are in the order in which they were written, and are read by position: with the same result."""

    FAILURE = Failure(FailureKind.RAISED, "ValueError", "no")
    RETRY = tuple(
        retry_headers(Lineage("orders", 3, 42, timestamp_ms=7, deliveries=1), "billing", [], Retry(1, 2), FAILURE)
    )
    USERS = st.lists(
        st.tuples(st.sampled_from(["traceparent", *sorted(OURS | {EXPIRATION, DELIVERY_MODE})]), st.binary(max_size=9)),
        max_size=3,
    )
    VALUES = (
        st.none() | st.sampled_from([b"", b"7", b"-1", b" 7", b"7_0", b"9" * 19, b"9" * 20, b"9" * 5000]) | st.binary()
    )

    def test_they_are_read(self) -> None:
        """The order is that of the records that we write."""
        for user in ([], [("traceparent", b"00-ab")]):
            retry = [*user, *self.RETRY]
            assert read_waiting(retry) == (2, ("orders", 3))
            assert read_redelivery(ready_headers(retry, in_order=True)) == (read_lineage(retry), 2, user)

    @settings(max_examples=share(1500))
    @given(USERS, st.integers(0, 7), VALUES)
    def test_no_value_makes_a_difference(self, user: Headers, index: int, value: bytes | None) -> None:
        """A damaged value, and one of our names among the user's, are read, or named, as in any other order."""
        retry = [*user, *self.RETRY]
        retry[len(user) + index] = (retry[len(user) + index][0], value)
        waiting, other = read_waiting(retry), ("other", b"")
        if waiting is not None:
            assert waiting == (read_due(retry), read_lineage(retry)[:2])
            assert ready_headers(retry, in_order=True) == ready_headers(retry)
        ready = ready_headers(retry)
        try:
            lineage, due_ms, users = read_redelivery([*ready, other])
        except HeaderError as error:
            with pytest.raises(HeaderError, match=error.header):
                read_redelivery(ready)
        else:
            assert read_redelivery(ready) == (lineage, due_ms, [each for each in users if each is not other])

    @pytest.mark.parametrize("name", ["_AMQ_ORIG_MESSAGE_ID", "JMSTimestamp", "JMSXDeliveryCount"])
    def test_a_damaged_origin_is_left_to_the_others(self, name: str) -> None:
        """They name what is wrong with it."""
        damaged = [(each, b"x" if each == name else value) for each, value in self.RETRY]
        assert read_waiting(damaged) is None
        with pytest.raises(HeaderError, match=name):
            read_redelivery(ready_headers(damaged))


class TestDamaged:
    """A lineage of which one part cannot be read."""

    GOOD = tuple(retry_headers(Lineage("orders", 3, 42, timestamp_ms=7, deliveries=5), "billing", [], Retry(1, 2)))
    READY = Lineage("billing.ready.orders", 1, 9, timestamp_ms=NOW)

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("JMSXDeliveryCount", None, Lineage("orders", 3, 42, 7, 0)),
            ("JMSXDeliveryCount", b"-1", Lineage("orders", 3, 42, 7, 0)),
            ("JMSTimestamp", b"yesterday", Lineage("orders", 3, 42, NOW, 5)),
            ("_AMQ_ORIG_MESSAGE_ID", b"\xff", Lineage("billing.ready.orders", 1, 9, 7, 5)),
        ],
    )
    def test_the_other_parts_are_kept(self, name: str, value: bytes | None, expected: Lineage) -> None:
        """Only what cannot be read is taken from the record itself."""
        assert read_partial_lineage([*self.GOOD, (name, value)], self.READY) == expected

    def test_without_headers_it_is_that_of_the_record(self) -> None:
        """Nothing can be read."""
        assert read_partial_lineage([], self.READY) == self.READY

    @given(
        st.lists(
            st.tuples(st.sampled_from(sorted(OURS | {EXPIRATION})), st.none() | st.binary(max_size=30)), max_size=20
        )
    )
    def test_any_bytes_have_a_lineage(self, damage: Headers) -> None:
        """It equals the exact one wherever there is one."""
        headers = [*self.GOOD, *damage]
        found = read_partial_lineage(headers, self.READY)
        with suppress(HeaderError):
            assert found == read_lineage(headers)

    @pytest.mark.parametrize(
        ("headers", "address"),
        [
            (GOOD, "orders"),
            ([("_AMQ_ORIG_ADDRESS", "café".encode())], "café"),
            ([("_AMQ_ORIG_ADDRESS", b"\xff")], None),
            ([("_AMQ_ORIG_ADDRESS", b"")], None),
            ([("_AMQ_ORIG_ADDRESS", None)], None),
            ([], None),
        ],
    )
    def test_the_address(self, headers: Headers, address: str | None) -> None:
        """It is read alone, because it says more than nothing if the message id cannot be read."""
        assert read_address(headers) == address
