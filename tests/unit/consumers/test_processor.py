"""One record through decoding and a plain function: every way it can go has one outcome, and none is lost."""

from datetime import timedelta

import pytest

from consumers.record import Context, Record, Redeliver, Reject
from serdes.codec import JsonCodec
from serdes.errors import SchemaSourceUnavailable
from tests.unit.consumers.handling import Fussy, SpeechlessError, never_called, only_failure, raising, run
from tests.unit.consumers.records import (
    BORN,
    NOW,
    Fetched,
    entry,
    lineage,
    ready,
    record,
    redelivery,
    route,
    source,
)
from topology.decision import Failure, FailureKind
from topology.headers import DELIVERY_COUNT, ORIG_MESSAGE_ID, SCHEDULED_DELIVERY
from topology.lineage import Lineage
from topology.policy import RedeliveryPolicy

JSON = JsonCodec()


class TestSuccess:
    def test_the_handler_sees_the_decoded_record(self) -> None:
        """Values decoded, bytes beside them, and where the record is from."""
        seen: list[Record] = []
        trace = [("traceparent", b"00-1-2-01"), ("empty", None)]
        given = run(
            seen.append,
            record(4, b'{"n":1}', key=b"k", headers=trace, partition=3),
            of=source(route(value=JSON), partition=3),
        )
        assert given.position == 1
        assert not given.failures
        assert seen == [Record("orders", 3, 4, b"k", {"n": 1}, b"k", b'{"n":1}', trace, BORN)]
        assert seen[0].headers == {"traceparent": b"00-1-2-01", "empty": None}
        assert seen[0].message_id == "orders-3@4"
        assert seen[0].timestamp.timestamp() * 1000 == BORN

    def test_a_redelivery_looks_like_the_first_delivery(self) -> None:
        """Topic, partition, offset and time are the origin's; our own headers are taken off."""
        seen: list[tuple[Record, Context]] = []
        origin = lineage(42, partition=5, deliveries=2)
        run(
            lambda record, context: seen.append((record, context)),
            redelivery(9, origin, own=[("traceparent", b"x")]),
            of=ready(partition=1),
        )
        [(found, context)] = seen
        assert (found.topic, found.partition, found.offset, found.timestamp_ms) == ("orders", 5, 42, BORN)
        assert found.raw_headers == [("traceparent", b"x")]
        assert (context.attempt, context.redelivered) == (3, True)

    def test_the_first_attempt_is_number_one(self) -> None:
        """And it is no redelivery."""
        seen: list[tuple[int, bool]] = []
        run(lambda _, context: seen.append((context.attempt, context.redelivered)), record(0))
        assert seen == [(1, False)]

    def test_a_tombstone_is_a_record(self) -> None:
        """Null reaches the handler as None, whatever the codec."""
        seen: list[Record] = []
        run(seen.append, record(0, None), of=source(route(value=JSON)))
        assert (seen[0].value, seen[0].raw_value) == (None, None)

    def test_records_go_one_after_the_other(self) -> None:
        """In the unit's order, each with its time."""
        seen: list[int] = []
        given = run(lambda record: seen.append(record.offset), *map(record, range(5)))
        assert seen == [0, 1, 2, 3, 4]
        assert given.position == len(given.seconds) == 5

    def test_a_source_needs_no_lineages(self) -> None:
        """They are made of the record itself."""
        assert run(lambda _: None, record(0)).lineages == []

    def test_how_late_a_redelivery_is_counts_from_its_due_time(self) -> None:
        """In ms; negative would be early."""
        given = run(
            lambda _: None,
            redelivery(0, lineage(1), due_ms=NOW - 30),
            redelivery(1, lineage(2), due_ms=NOW + 5),
            of=ready(),
        )
        assert given.lateness == [(0, 30), (1, -5)]


class TestFailure:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (ValueError("no"), Failure(FailureKind.RAISED, "ValueError", "no")),
            (Reject("bad amount"), Failure(FailureKind.REJECTED, "Reject", "bad amount")),
            (Redeliver("soon"), Failure(FailureKind.REDELIVER, "Redeliver", "soon")),
            (
                Redeliver("later", after=timedelta(seconds=90)),
                Failure(FailureKind.REDELIVER, "Redeliver", "later", 90_000),
            ),
            (Redeliver(after=timedelta(0)), Failure(FailureKind.REDELIVER, "Redeliver", "", 0)),
            (MemoryError("all of it"), Failure(FailureKind.CRITICAL, "MemoryError", "all of it")),
            (SystemExit(3), Failure(FailureKind.CRITICAL, "SystemExit", "3")),
            (KeyboardInterrupt(), Failure(FailureKind.CRITICAL, "KeyboardInterrupt", "")),
            (
                SpeechlessError(),
                Failure(FailureKind.RAISED, "SpeechlessError", "<no message: its __str__ failed>"),
            ),
        ],
        ids=lambda case: case.exception if isinstance(case, Failure) else "",
    )
    def test_what_an_exception_means(self, error: BaseException, expected: Failure) -> None:
        """A rollback, a wish, a verdict, or the end of the process."""
        assert only_failure(run(raising(error), record(0))) == expected

    def test_what_is_named_as_not_retryable_is_rejected(self) -> None:
        """Subclasses too."""
        failure = only_failure(run(raising(KeyError("id")), record(0), not_retryable=(LookupError,)))
        assert failure.kind is FailureKind.REJECTED

    def test_a_wish_comes_before_a_rule(self) -> None:
        """Redeliver is a redelivery, whatever the configuration thinks of exceptions."""
        failure = only_failure(run(raising(Redeliver()), record(0), not_retryable=(Exception,)))
        assert failure.kind is FailureKind.REDELIVER

    def test_a_delay_without_a_unit_is_refused_where_it_is_asked_for(self) -> None:
        """``after=30``: seconds or ms? It fails like any mistake of a handler, and says what is wanted."""

        def handle(_: Record) -> None:
            raise Redeliver("later", after=30)  # type: ignore[arg-type]

        failure = only_failure(run(handle, record(0)))
        assert failure.kind is FailureKind.RAISED
        assert "timedelta" in failure.message

    def test_a_subclass_of_redeliver_may_forget_its_parent(self) -> None:
        """The slot must survive whatever a handler raises."""

        class Later(Redeliver):
            def __init__(self) -> None:
                Exception.__init__(self, "later")

        assert only_failure(run(raising(Later()), record(0))) == Failure(
            FailureKind.REDELIVER, Later.__qualname__, "later"
        )

    def test_one_failure_does_not_keep_the_next_record(self) -> None:
        """Each record has its own outcome."""

        def handle(record: Record) -> None:
            if record.offset == 1:
                raise ValueError

        given = run(handle, *map(record, range(3)))
        assert [index for index, _ in given.failures] == [1]
        assert given.position == 3

    def test_after_a_critical_failure_nothing_more_is_begun(self) -> None:
        """The process is about to end."""
        given = run(raising(MemoryError()), *map(record, range(3)))
        assert given.failures[-1][1].kind is FailureKind.CRITICAL
        assert given.position == 1

    def test_a_handler_that_gives_back_a_coroutine_has_not_run(self) -> None:
        """An async function behind a plain wrapper: acknowledging would lose every record, so the worker stops."""

        async def behind(_: Record) -> None:
            raise AssertionError("nobody waits for it")

        failure = only_failure(run(lambda record: behind(record), record(0)))  # noqa: PLW0108 - the wrapper is the point
        assert failure.kind is FailureKind.CRITICAL
        assert "async def" in failure.message


class TestBeforeTheHandler:
    def test_undecodable_bytes_never_reach_it(self) -> None:
        """Poison; the code says why."""
        failure = only_failure(run(never_called, record(0, b"{"), of=source(route(value=JSON))))
        assert (failure.kind, failure.exception) == (FailureKind.UNDECODABLE, "DecodeError")
        assert "not_json" in failure.message

    def test_an_undecodable_key_is_as_bad(self) -> None:
        """A handler may rely on both."""
        failure = only_failure(run(never_called, record(0, key=b"\xff"), of=source(route(key=JSON))))
        assert failure.kind is FailureKind.UNDECODABLE

    def test_a_schema_source_that_is_down_is_not_the_records_fault(self) -> None:
        """It is tried again later, whatever the handler's own exceptions mean."""
        way = route(value=Fussy(SchemaSourceUnavailable("http://registry", "refused")))
        failure = only_failure(run(never_called, record(0), of=source(way), not_retryable=(Exception,)))
        assert (failure.kind, failure.exception) == (FailureKind.RAISED, "SchemaSourceUnavailable")

    def test_out_of_memory_is_critical_in_a_codec_too(self) -> None:
        """A record must not be dead-lettered for what the process lacks."""
        given = run(never_called, record(0), record(1), of=source(route(value=Fussy(MemoryError()))))
        assert given.failures[-1][1].kind is FailureKind.CRITICAL
        assert given.position == 1

    @pytest.mark.parametrize(
        ("expiration_ms", "expired"), [(NOW - 1, True), (NOW, True), (NOW + 1, False), (0, False), (-1, False)]
    )
    def test_an_expired_record_is_not_delivered(self, expiration_ms: int, expired: bool) -> None:  # noqa: FBT001
        """From its ``JMSExpiration`` on; 0 is never."""
        seen: list[Record] = []
        given = run(seen.append, record(0, headers=[("JMSExpiration", b"%d" % expiration_ms)]))
        assert (not seen) == expired
        assert [failure.kind for _, failure in given.failures] == [FailureKind.EXPIRED] * expired

    def test_a_redelivery_expires_too(self) -> None:
        """While it waited, for example."""
        message = redelivery(0, lineage(1), own=[("JMSExpiration", b"%d" % (NOW - 1))])
        given = run(never_called, message, of=ready())
        assert only_failure(given).kind is FailureKind.EXPIRED
        assert given.lineages[0].expiration_ms == NOW - 1

    @pytest.mark.parametrize(("maximum", "deliveries", "exhausted"), [(0, 1, True), (1, 1, False), (-1, 99, False)])
    def test_a_record_that_had_its_last_delivery_gets_no_other(
        self,
        maximum: int,
        deliveries: int,
        exhausted: bool,  # noqa: FBT001 - a column of the table
    ) -> None:
        """The policy may have become stricter while it waited."""
        way = route(entry(RedeliveryPolicy(maximum_redeliveries=maximum)))
        seen: list[Record] = []
        given = run(seen.append, redelivery(0, lineage(1, deliveries=deliveries)), of=ready(way))
        assert (not seen) == exhausted
        assert [failure.kind for _, failure in given.failures] == [FailureKind.EXHAUSTED] * exhausted

    def test_below_minus_one_there_is_not_even_a_first_delivery(self) -> None:
        """As in Classic."""
        way = route(entry(RedeliveryPolicy(maximum_redeliveries=-2)))
        assert only_failure(run(never_called, record(0), of=source(way))).kind is FailureKind.EXHAUSTED

    def test_with_a_maximum_of_zero_there_is_a_first_delivery(self) -> None:
        """No redelivery is not no delivery."""
        way = route(entry(RedeliveryPolicy(maximum_redeliveries=0)))
        assert not run(lambda _: None, record(0), of=source(way)).failures

    @pytest.mark.parametrize("missing", [ORIG_MESSAGE_ID, DELIVERY_COUNT])
    def test_a_redelivery_with_damaged_headers_is_poison(self, missing: str) -> None:
        """It cannot be told how often it was tried; what is known of it is where it lies now."""
        good = redelivery(3, lineage(1))
        headers = [pair for pair in good.pairs or () if pair[0] != missing]
        message = Fetched(good.source, 2, 3, None, b"value", headers, NOW)
        given = run(never_called, message, of=ready(partition=2))
        failure = only_failure(given)
        assert failure.kind is FailureKind.BAD_HEADERS
        assert missing in failure.message
        assert given.lineages == [Lineage("billing.ready.orders", 2, 3, NOW)]

    def test_headers_of_ours_mean_nothing_on_a_source_record(self) -> None:
        """Somebody may consume a dead-letter topic as a source: that is a first delivery."""
        seen: list[tuple[Record, Context]] = []
        message = record(0, headers=[(DELIVERY_COUNT, b"99"), (ORIG_MESSAGE_ID, b"x")])
        run(lambda record, context: seen.append((record, context)), message)
        [(given, context)] = seen
        assert (given.message_id, given.timestamp_ms) == ("orders-0@0", BORN)
        assert (context.attempt, context.redelivered) == (1, False)

    def test_only_what_the_handler_gets_is_late(self) -> None:
        """A record found expired or unreadable was not redelivered at all."""
        way = route(value=JSON)
        given = run(
            lambda _: None,
            redelivery(0, lineage(1), b"{", due_ms=NOW - 9),
            redelivery(1, lineage(2), b"{}", due_ms=NOW - 9, own=[("JMSExpiration", b"%d" % (NOW - 1))]),
            redelivery(2, lineage(3), b"{}", due_ms=NOW - 9),
            of=ready(way),
        )
        assert len(given.lineages) == 3
        assert given.lateness == [(2, 9)]

    def test_a_redriven_record_has_no_due_time(self) -> None:
        """So it is not late."""
        good = redelivery(0, lineage(1))
        headers = [pair for pair in good.pairs or () if pair[0] != SCHEDULED_DELIVERY]
        given = run(lambda _: None, Fetched(good.source, 5, 0, None, b"", headers), of=ready(partition=5))
        assert given.lateness == []
        assert not given.failures
