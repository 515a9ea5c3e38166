"""The wire contract: the headers of retry, ready and dead-letter records, whose size does not grow with the hops.

``test_headers_reading.py`` tests damaged headers, ``test_failure_cause.py`` the cause of a failure.
"""

import json
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import (
    EXPIRATION,
    FAILURE_CAUSE,
    LAST_ATTEMPT,
    MAX_MARK,
    OURS,
    FailureCause,
    Headers,
    _retry_parts,
    dead_letter_headers,
    expired_dead_letter_headers,
    read_due,
    read_expiration,
    read_failure_cause,
    read_lineage,
    read_persistent,
    read_redelivery,
    ready_headers,
    redriven_headers,
    retry_headers,
    trace_id_of,
    users_own,
)

NOW = 1_780_000_000_000
LONG_MAX = 2**63 - 1

TOPICS = st.text(ascii_letters + digits + "._-", min_size=1, max_size=40)
GROUPS = st.text(min_size=1, max_size=40)
"""The name of a group can be any text in UTF-8."""

TIMES = st.integers(0, LONG_MAX)
LINEAGES = st.builds(
    Lineage,
    address=TOPICS,
    partition=st.integers(0, 2**31 - 1),
    offset=TIMES,
    timestamp_ms=st.integers(-1, LONG_MAX),
    deliveries=st.integers(0, 2**31),
    expiration_ms=TIMES,
    persistent=st.just(value=True),
    redrive=st.just("") | st.from_regex(r"[0-9a-z]{10}/[0-9]{1,3}@[0-9]{1,15}/[0-9]", fullmatch=True),
)
RETRIES = st.builds(Retry, delay_ms=TIMES, due_ms=TIMES)

ANY_TEXT = st.text() | st.text(st.characters(categories=["Cs", "Cc"]) | st.sampled_from('"\\/<\N{GRINNING FACE}'))
"""All of Unicode, and what is most hostile in it more often: control characters, quotes, lone surrogates."""

POISON = Failure(FailureKind.REJECTED, "Reject", "no")
FAILURES = st.builds(Failure, st.sampled_from(FailureKind), exception=ANY_TEXT, message=ANY_TEXT, span=st.just(""))
DEAD_LETTERS = st.builds(DeadLetter, st.sampled_from(Reason), FAILURES, expiration_ms=TIMES)

USER_HEADERS = st.lists(
    st.tuples(st.text().filter(lambda name: name not in OURS | {EXPIRATION}), st.none() | st.binary()), max_size=5
)
"""What a producer may have sent along: any name, also twice, any bytes, also null."""


def with_expiration(lineage: Lineage, user: Headers = ()) -> list[tuple[str, bytes | None]]:
    """The user's headers as they were when the record's expiration was read from them."""
    expiration = [(EXPIRATION, b"%d" % lineage.expiration_ms)] if lineage.expiration_ms else []
    return [*expiration, *user]


def size(headers: Headers) -> int:
    """Bytes of headers in a Kafka record: name and value, each with its length before it (a zigzag varint)."""
    parts = [part for name, value in headers for part in (name.encode(), value or b"")]
    return sum(len(part) + (1 if len(part) < 64 else 2) for part in parts)


class TestRetry:
    def test_the_headers_of_a_retry_record(self) -> None:
        """The contract byte for byte: names of ActiveMQ, Artemis and JMS, decimal numbers."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=1_700_000_000_000, deliveries=2)
        assert retry_headers(lineage, "billing", [("traceparent", b"00-ab")], Retry(5000, NOW + 5000)) == [
            ("traceparent", b"00-ab"),
            ("_AMQ_ORIG_ADDRESS", b"orders"),
            ("_AMQ_ORIG_QUEUE", b"billing"),
            ("_AMQ_ORIG_MESSAGE_ID", b"orders-3@42"),
            ("JMSTimestamp", b"1700000000000"),
            ("JMSXDeliveryCount", b"2"),
            ("AMQ_SCHEDULED_DELAY", b"5000"),
            ("_AMQ_SCHED_DELIVERY", b"1780000005000"),
        ]

    def test_records_that_are_due_at_different_times_share_what_they_have_in_common(self) -> None:
        """It is encoded once. Each failure has a due time of its own, and with collision avoidance a delay, too."""
        _retry_parts.cache_clear()
        for number in range(10):
            retry_headers(Lineage("orders", 3, number, NOW, number), "billing", (), Retry(1000 + number, NOW + number))
        assert _retry_parts.cache_info()[:2] == (9, 1)

    def test_it_says_why_the_last_delivery_failed(self) -> None:
        """In the header that a dead letter has, without a reason; what is too long is cut, and its due time stays."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=NOW, deliveries=2)
        for message, told in (("no card 47", "no card 47"), ("", ""), ("m" * 900, "m" * 133)):
            failure = Failure(FailureKind.RAISED, "ValueError", message)
            copy = retry_headers(lineage, "billing", [("traceparent", b"00-ab")], Retry(5, NOW), failure)
            assert copy[:-1] == retry_headers(lineage, "billing", [("traceparent", b"00-ab")], Retry(5, NOW))
            assert copy[-1][0] == FAILURE_CAUSE
            assert read_failure_cause(copy[-1][1]) == FailureCause("", "ValueError", told)
            assert users_own(ready_headers(copy)) == [("traceparent", b"00-ab")]
            assert FAILURE_CAUSE not in dict(ready_headers(copy))

    @given(LINEAGES, GROUPS, USER_HEADERS, RETRIES)
    def test_the_lineage_comes_back(self, lineage: Lineage, group: str, user: Headers, retry: Retry) -> None:
        """Lineage and due time are read as they were written."""
        copy = retry_headers(lineage, group, with_expiration(lineage, user), retry)
        assert read_lineage(copy) == lineage
        assert read_due(copy) == retry.due_ms

    @given(LINEAGES, GROUPS, USER_HEADERS, RETRIES)
    def test_the_users_headers_pass_untouched(self, lineage: Lineage, group: str, user: Headers, retry: Retry) -> None:
        """Names, bytes and order stay the same, for repeated and null headers too; those of the contract follow."""
        copy = retry_headers(lineage, group, user, retry)
        assert copy[: len(user)] == user
        assert {name for name, _ in copy[len(user) :]} <= OURS

    @given(LINEAGES, LINEAGES, GROUPS, USER_HEADERS, RETRIES)
    def test_the_next_hop_replaces_our_headers(
        self, lineage: Lineage, earlier: Lineage, group: str, user: Headers, retry: Retry
    ) -> None:
        """Headers are built fresh: what an earlier hop wrote leaves no trace."""
        before = retry_headers(earlier, "another group", user, Retry(1, 2))
        assert retry_headers(lineage, group, before, retry) == retry_headers(lineage, group, user, retry)

    @given(st.sampled_from(sorted(OURS)), st.none() | st.binary(), LINEAGES)
    def test_a_users_header_with_one_of_our_names_is_replaced(
        self, name: str, value: bytes | None, lineage: Lineage
    ) -> None:
        """On our copies our names mean what the contract says, whatever the producer meant."""
        copy = retry_headers(lineage, "billing", with_expiration(lineage, [(name, value)]), Retry(1, 2))
        assert read_lineage(copy) == lineage

    @given(LINEAGES, st.none() | st.binary(max_size=50).filter(lambda value: b"/" not in value), RETRIES)
    def test_a_users_own_header_redrive_survives(self, lineage: Lineage, value: bytes | None, retry: Retry) -> None:
        """It is none of ours; through retry, ready record, dead letter, and when the letter is sent again."""
        own: Headers = [("redrive", value)]
        ready = ready_headers(retry_headers(lineage, "billing", own, retry))
        died = dead_letter_headers(lineage, "billing", ready, DeadLetter(Reason.REJECTED, POISON), NOW)
        again = lineage._replace(redrive="0a/0@1/1", expiration_ms=0)
        for headers in (ready, died, redriven_headers(died, again, "billing")):
            assert users_own(headers) == own
            assert read_redelivery(headers)[2] == own
            assert read_lineage(headers).redrive in {lineage.redrive, again.redrive}
        assert read_lineage(redriven_headers(died, again, "billing")).redrive == again.redrive

    @given(LINEAGES, st.lists(st.tuples(st.just(EXPIRATION), st.none() | st.binary() | st.just(b"7")), max_size=3))
    def test_an_expiration_means_the_same_on_the_copy(self, lineage: Lineage, user: Headers) -> None:
        """What could not be read on the source does not condemn the copy, and what could be read stays."""
        source = lineage._replace(expiration_ms=read_expiration(user))
        assert read_lineage(retry_headers(source, "billing", user, Retry(1, 2))) == source

    def test_the_callers_headers_are_not_changed(self) -> None:
        """The list that a record holds is read only."""
        user: list[tuple[str, bytes | None]] = [("a", b"1")]
        retry_headers(Lineage("orders", 3, 42, timestamp_ms=0), "billing", user, Retry(1, 2))
        assert user == [("a", b"1")]


class TestDeadLetter:
    def test_a_dead_letter_reads_like_this(self) -> None:
        """Where it comes from, how often it was delivered and why it ended here."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=1_700_000_000_000, deliveries=7)
        failure = Failure(FailureKind.RAISED, "ValueError", '"no"\n')
        decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failure)
        assert dead_letter_headers(lineage, "billing", [("traceparent", b"00-ab")], decision, NOW) == [
            ("traceparent", b"00-ab"),
            ("_AMQ_ORIG_ADDRESS", b"orders"),
            ("_AMQ_ORIG_QUEUE", b"billing"),
            ("_AMQ_ORIG_MESSAGE_ID", b"orders-3@42"),
            ("JMSTimestamp", b"1700000000000"),
            ("JMSXDeliveryCount", b"7"),
            (
                "dlqDeliveryFailureCause",
                b'{"reason":"redeliveries_exceeded","exception":"ValueError","message":"\\"no\\"\\n","frames":[]}',
            ),
        ]

    def test_an_expired_record_keeps_its_expiration_under_another_name(self) -> None:
        """The record's expiration does not expire the dead letter; the time of expiry has a header."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=0, expiration_ms=NOW - 1)
        decision = DeadLetter(Reason.EXPIRED, Failure(FailureKind.EXPIRED))
        headers = dict(dead_letter_headers(lineage, "billing", with_expiration(lineage), decision, NOW))
        assert EXPIRATION not in headers
        assert headers["originalExpiration"] == b"%d" % (NOW - 1)
        assert headers["_AMQ_ACTUAL_EXPIRY"] == b"%d" % NOW

    def test_a_dead_letter_has_an_expiration_of_its_own(self) -> None:
        """The dead letter has the strategy's expiration and, in another header, the record's."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=0, expiration_ms=NOW + 1)
        decision = DeadLetter(Reason.REJECTED, Failure(FailureKind.REJECTED), expiration_ms=NOW + 1000)
        headers = dict(dead_letter_headers(lineage, "billing", with_expiration(lineage), decision, NOW))
        assert headers[EXPIRATION] == b"%d" % (NOW + 1000)
        assert headers["originalExpiration"] == b"%d" % (NOW + 1)
        assert "_AMQ_ACTUAL_EXPIRY" not in headers

    def test_a_record_that_was_not_persistent_says_so(self) -> None:
        """The dead letter of a non-persistent record has a header for that; others have none."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=0, persistent=False)
        decision = DeadLetter(Reason.REJECTED, Failure(FailureKind.REJECTED))
        headers = dict(dead_letter_headers(lineage, "billing", [], decision, NOW))
        assert headers["originalDeliveryMode"] == b"NON_PERSISTENT"

    @pytest.mark.parametrize(("found", "kept"), [(b"orders", b"orders"), (b"\xff", b"ready"), (None, b"ready")])
    def test_damaged_headers_keep_a_readable_address(self, found: bytes | None, kept: bytes) -> None:
        """The lineage of such a record may be the one of the ready record."""
        damaged = Failure(FailureKind.BAD_HEADERS)
        user = [("_AMQ_ORIG_ADDRESS", found)]
        for reason, address in ((Reason.BAD_HEADERS, kept), (Reason.REJECTED, b"ready")):
            copy = dead_letter_headers(
                Lineage("ready", 1, 9, timestamp_ms=0), "billing", user, DeadLetter(reason, damaged), NOW
            )
            assert [value for name, value in copy if name == "_AMQ_ORIG_ADDRESS"] == [address]
            assert dict(copy)["_AMQ_ORIG_MESSAGE_ID"] == b"ready-1@9"

    @given(LINEAGES, GROUPS, USER_HEADERS, DEAD_LETTERS, TIMES)
    def test_the_lineage_comes_back(
        self, lineage: Lineage, group: str, user: Headers, decision: DeadLetter, now_ms: int
    ) -> None:
        """A dead letter can be redriven: its origin and count are there, its expiration is its own."""
        copy = dead_letter_headers(lineage, group, with_expiration(lineage, user), decision, now_ms)
        assert read_lineage(copy) == lineage._replace(expiration_ms=decision.expiration_ms)

    @given(LINEAGES, GROUPS, USER_HEADERS, DEAD_LETTERS)
    def test_the_users_headers_pass_untouched(
        self, lineage: Lineage, group: str, user: Headers, decision: DeadLetter
    ) -> None:
        """As on a retry; only the expiration, which would delete the dead letter, changes its name."""
        copy = dead_letter_headers(lineage, group, with_expiration(lineage, user), decision, NOW)
        assert copy[: len(user)] == user
        assert {name for name, _ in copy[len(user) :]} <= OURS | {EXPIRATION}

    @given(LINEAGES, USER_HEADERS, DEAD_LETTERS, RETRIES)
    def test_the_schedule_of_the_last_retry_is_gone(
        self, lineage: Lineage, user: Headers, decision: DeadLetter, retry: Retry
    ) -> None:
        """What came through a tier is dead-lettered exactly as what did not."""
        waited = retry_headers(lineage, "billing", user, retry)
        assert dead_letter_headers(lineage, "billing", waited, decision, NOW) == dead_letter_headers(
            lineage, "billing", user, decision, NOW
        )


class TestTracing:
    """The span of the last attempt travels with the record; what the producer has sent along stays."""

    PRODUCER = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    FIRST, SECOND = (f"00-{'ab' * 16}-{digit * 16}-01" for digit in "12")

    def test_each_attempt_replaces_it_and_no_hop_loses_it(self) -> None:
        """On retry and ready records, dead letters, and records that are sent again, however often."""
        lineage, user = Lineage("orders", 3, 42, NOW, deliveries=1), [self.PRODUCER, ("ce_type", b"paid")]
        first = Failure(FailureKind.RAISED, "ValueError", "no", span=self.FIRST)
        second = first._replace(span=self.SECOND)
        retry = retry_headers(lineage, "billing", user, Retry(5, NOW), first)
        ready = ready_headers(retry)
        died = dead_letter_headers(lineage, "billing", ready, DeadLetter(Reason.REDELIVERIES_EXCEEDED, second), NOW)
        again = redriven_headers(died, lineage._replace(redrive="0a/0@1/1"), "billing")
        untraced = retry_headers(lineage, "billing", again, Retry(5, NOW), first._replace(span=""))
        for headers, span in ((retry, self.FIRST), (ready, self.FIRST), (died, self.SECOND), (again, self.SECOND)):
            assert users_own(headers) == [*user, (LAST_ATTEMPT, span.encode())]
            assert trace_id_of(headers) == "ab" * 16
        assert users_own(untraced)[-1] == (LAST_ATTEMPT, self.SECOND.encode())

    @given(LINEAGES, GROUPS, USER_HEADERS, RETRIES)
    def test_what_is_read_by_position_is_read_as_without_it(
        self, lineage: Lineage, group: str, user: Headers, retry: Retry
    ) -> None:
        """It stands where the user's headers end."""
        failure = Failure(FailureKind.RAISED, "ValueError", "no", span=self.FIRST)
        headers = with_expiration(lineage, user)
        ready = ready_headers(retry_headers(lineage, group, headers, retry, failure))
        without = ready_headers(retry_headers(lineage, group, headers, retry))
        found, due_ms, own = read_redelivery(ready)
        assert (found, due_ms, own[:-1]) == read_redelivery(without)
        assert own[-1][0] == LAST_ATTEMPT

    @pytest.mark.parametrize(
        ("headers", "trace"),
        [
            ([PRODUCER], "4bf92f3577b34da6a3ce929d0e0e4736"),
            ([(LAST_ATTEMPT, FIRST.encode()), PRODUCER], "ab" * 16),
            ([(LAST_ATTEMPT, b"?"), PRODUCER], "4bf92f3577b34da6a3ce929d0e0e4736"),
            ([("traceparent", b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01")], ""),
            ([("traceparent", None)], ""),
            ([], ""),
        ],
    )
    def test_the_trace_of_a_record(self, headers: Headers, trace: str) -> None:
        """That of its last attempt; a header that cannot be read says nothing."""
        assert trace_id_of(headers) == trace


class TestSize:
    """Headers do not grow with the attempts. Names of topic and group have up to 40 characters here."""

    LONGEST = Lineage("t" * 40, 2**31 - 1, LONG_MAX, LONG_MAX, deliveries=2**31 - 1, expiration_ms=LONG_MAX)
    GROUP = "g" * 40

    def test_a_retry_takes_400_bytes_at_most(self) -> None:
        """Even with every number at its longest, and of a record that was sent again."""
        again = self.LONGEST._replace(redrive="j" * 10 + "/99999@" + "9" * 19 + "/99")
        assert len(again.redrive) == MAX_MARK
        copy = retry_headers(again, self.GROUP, [], Retry(LONG_MAX, LONG_MAX))
        assert size(copy) <= 400
        assert read_lineage(copy).redrive == again.redrive

    @pytest.mark.parametrize(("length", "mark"), [(40, ""), (30, f"{'j' * 10}/999@{'9' * 15}/9")])
    def test_a_traced_retry_takes_no_more(self, length: int, mark: str) -> None:
        """With times of 13 digits and offsets of 15; the cause gives way."""
        lineage = Lineage("t" * length, 99_999, 10**15 - 1, NOW, deliveries=999, redrive=mark)
        failure = Failure(FailureKind.RAISED, "ValueError", "m" * 900, span=TestTracing.FIRST)
        assert size(retry_headers(lineage, "g" * length, [], Retry(10**9, NOW), failure)) <= 400

    @given(LINEAGES, st.text(ascii_letters, min_size=1, max_size=40), RETRIES, ANY_TEXT, ANY_TEXT, st.integers(1, 500))
    def test_with_its_cause_it_takes_no_more(
        self, lineage: Lineage, group: str, retry: Retry, exception: str, message: str, times: int
    ) -> None:
        """The cause gets what is left, is always JSON, and is left out if nothing of the class fits."""
        failure = Failure(FailureKind.RAISED, exception, message * times)
        copy = retry_headers(lineage, group, [], retry, failure)
        assert size(copy) <= max(400, size(retry_headers(lineage, group, [], retry)))
        if copy[-1][0] == FAILURE_CAUSE:
            cause = json.loads(copy[-1][1] or b"")
            assert exception.encode(errors="replace").decode().startswith(cause["exception"])
            assert failure.message.encode(errors="replace").decode().startswith(cause["message"])
        assert read_lineage(copy) == lineage._replace(expiration_ms=0)

    @given(ANY_TEXT.filter(bool), ANY_TEXT.filter(bool), st.sampled_from(Reason))
    def test_a_dead_letter_takes_one_and_a_half_kilobytes_at_most(
        self, exception: str, message: str, reason: Reason
    ) -> None:
        """Even with an endless message of an endless class."""
        failure = Failure(FailureKind.RAISED, exception * 1000, message * 10_000)
        decision = DeadLetter(reason, failure, expiration_ms=LONG_MAX)
        assert size(dead_letter_headers(self.LONGEST, self.GROUP, [], decision, LONG_MAX)) <= 1536

    @given(USER_HEADERS)
    def test_the_fiftieth_attempt_takes_what_the_second_took(self, user: Headers) -> None:
        """Hop after hop through the tiers only the digits of the count grow."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=NOW)
        headers, sizes = user, []
        for deliveries in range(1, 51):
            headers = retry_headers(lineage.delivered(deliveries), "billing", headers, Retry(5000, NOW + deliveries))
            sizes.append(size(headers) - len(str(deliveries)))
        assert len(set(sizes)) == 1

    def test_the_cause_of_the_fiftieth_death_replaces_the_first(self) -> None:
        """A record that is redriven and dies again and again does not collect causes."""
        lineage = Lineage("orders", 3, 42, timestamp_ms=NOW, deliveries=7)
        decision = DeadLetter(Reason.REJECTED, Failure(FailureKind.REJECTED, "ValueError", "m" * 2000), NOW)
        first = headers = dead_letter_headers(lineage, "billing", [], decision, NOW)
        for _ in range(50):
            headers = dead_letter_headers(lineage, "billing", headers, decision, NOW)
        assert headers == first


class TestReady:
    @given(LINEAGES, GROUPS, USER_HEADERS, RETRIES)
    def test_the_ready_copy_says_what_the_retry_copy_said(
        self, lineage: Lineage, group: str, user: Headers, retry: Retry
    ) -> None:
        """A release changes neither the lineage nor the user's headers, and keeps the due time."""
        ready = ready_headers(retry_headers(lineage, group, with_expiration(lineage, user), retry))
        assert read_lineage(ready) == lineage
        assert read_due(ready) == retry.due_ms
        assert users_own(ready) == with_expiration(lineage, user)
        assert read_redelivery(ready) == (read_lineage(ready), read_due(ready), users_own(ready))

    def test_the_delay_stays_behind(self) -> None:
        """It belonged to the tier."""
        retry = retry_headers(Lineage("orders", 3, 42, timestamp_ms=7), "billing", [], Retry(1, 2))
        assert [name for name, _ in retry if (name, _) not in ready_headers(retry)] == ["AMQ_SCHEDULED_DELAY"]


@pytest.mark.parametrize(
    ("headers", "persistent"),
    [
        ([], True),
        ([("JMSDeliveryMode", b"PERSISTENT")], True),
        ([("JMSDeliveryMode", b"2")], True),
        ([("JMSDeliveryMode", b"NON_PERSISTENT")], False),
        ([("JMSDeliveryMode", b"1")], False),
        ([("JMSDeliveryMode", None)], True),
        ([("JMSDeliveryMode", b"nonsense")], True),
        ([("JMSDeliveryMode", b"1"), ("JMSDeliveryMode", b"2")], True),
    ],
)
def test_only_a_clear_word_makes_a_record_one_that_may_be_lost(headers: Headers, *, persistent: bool) -> None:
    """JMS's name or number for it; whatever else is there, and nothing, is persistent."""
    assert read_persistent(headers) is persistent


def test_users_own_headers_are_those_without_our_names() -> None:
    """They include the user's expiration and exclude those of the contract, in any order."""
    headers: Headers = [("JMSTimestamp", b"7"), ("a", None), (EXPIRATION, b"9"), ("a", b"1"), ("_AMQ_ORIG_QUEUE", b"g")]
    assert users_own(headers) == [("a", None), (EXPIRATION, b"9"), ("a", b"1")]


def test_a_dead_letter_that_is_moved_expires_no_more() -> None:
    """The other headers keep their order. That of an expired record says when it expired, and when its letter did."""
    letter: Headers = [
        ("traceparent", b"00-ab"),
        ("JMSExpiration", b"5"),
        ("_AMQ_ACTUAL_EXPIRY", b"4"),
        ("originalExpiration", b"3"),
        ("traceparent", None),
    ]
    assert expired_dead_letter_headers(letter, NOW) == [
        ("traceparent", b"00-ab"),
        ("_AMQ_ACTUAL_EXPIRY", b"4"),
        ("originalExpiration", b"3"),
        ("traceparent", None),
        ("_AMQ_ACTUAL_EXPIRY", b"%d" % NOW),
    ]
