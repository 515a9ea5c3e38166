"""A plain handler: every record gets exactly one outcome."""

import math
from datetime import timedelta

import pytest

from kafka_redelivery import Batch
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import SchemaSourceUnavailable
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_MESSAGE_ID, SCHEDULED_DELIVERY
from tests.unit.consumers.failing_handlers import (
    ForeignError,
    RaisingCodec,
    UnprintableError,
    never_called,
    only_failure,
    raising,
    run,
)
from tests.unit.consumers.records import (
    BORN,
    NOW,
    RAW,
    Fetched,
    entry,
    item,
    lineage,
    ready,
    record,
    redelivery,
    route,
    source,
)

JSON = JsonCodec()


pytestmark = pytest.mark.usefixtures("one_slice")


def _batch_never_called(_: Batch) -> None:
    raise AssertionError("the handler was called")


class TestSuccess:
    def test_the_handler_gets_the_decoded_record(self) -> None:
        """Decoded values, raw bytes, and topic, partition and offset."""
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
        """Topic, partition, offset and timestamp are those of the origin; the headers of this project are left out."""
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
        seen: list[tuple[int, bool]] = []
        run(lambda _, context: seen.append((context.attempt, context.redelivered)), record(0))
        assert seen == [(1, False)]

    def test_the_context_has_the_record(self) -> None:
        """It is the one that the handler gets."""
        same: list[bool] = []
        run(lambda record, context: same.append(context.record is record), record(0))
        assert same == [True]

    def test_a_tombstone_reaches_the_handler_as_none(self) -> None:
        """This holds for every codec."""
        seen: list[Record] = []
        run(seen.append, record(0, None), of=source(route(value=JSON)))
        assert (seen[0].value, seen[0].raw_value) == (None, None)

    def test_records_are_handled_in_order(self) -> None:
        """Each has its duration."""
        seen: list[int] = []
        given = run(lambda record: seen.append(record.offset), *map(record, range(5)))
        assert seen == [0, 1, 2, 3, 4]
        assert given.position == len(given.seconds) == 5

    def test_records_of_a_source_have_no_lineages(self) -> None:
        assert run(lambda _: None, record(0)).lineages == []

    def test_lateness_counts_from_the_due_time(self) -> None:
        """In milliseconds."""
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
            (SystemExit(3), Failure(FailureKind.RAISED, "SystemExit", "3")),
            (GeneratorExit(), Failure(FailureKind.RAISED, "GeneratorExit", "")),
            (ForeignError("gone"), Failure(FailureKind.RAISED, "ForeignError", "gone")),
            (KeyboardInterrupt(), Failure(FailureKind.CRITICAL, "KeyboardInterrupt", "")),
            (
                UnprintableError(),
                Failure(FailureKind.RAISED, "UnprintableError", "<no message: its __str__ failed>"),
            ),
        ],
        ids=lambda case: case.exception if isinstance(case, Failure) else "",
    )
    def test_each_exception_is_one_kind_of_failure(self, error: BaseException, expected: Failure) -> None:
        assert only_failure(run(raising(error), record(0))) == expected

    def test_exceptions_that_are_not_retryable_reject(self) -> None:
        """So do their subclasses."""
        failure = only_failure(run(raising(KeyError("id")), record(0), not_retryable=(LookupError,)))
        assert failure.kind is FailureKind.REJECTED

    def test_redeliver_is_never_rejected(self) -> None:
        """Even if the configuration lists it as not retryable."""
        failure = only_failure(run(raising(Redeliver()), record(0), not_retryable=(Exception,)))
        assert failure.kind is FailureKind.REDELIVER

    def test_a_delay_must_be_a_timedelta(self) -> None:
        """``after=30`` has no unit. It fails like any mistake of a handler."""

        def handle(_: Record) -> None:
            raise Redeliver("later", after=30)  # type: ignore[arg-type]

        failure = only_failure(run(handle, record(0)))
        assert failure.kind is FailureKind.RAISED
        assert "timedelta" in failure.message

    def test_a_subclass_of_redeliver_need_not_call_its_parent(self) -> None:

        class Later(Redeliver):
            def __init__(self) -> None:
                Exception.__init__(self, "later")

        assert only_failure(run(raising(Later()), record(0))) == Failure(
            FailureKind.REDELIVER, Later.__qualname__, "later"
        )

    def test_the_record_after_a_failure_is_handled(self) -> None:

        def handle(record: Record) -> None:
            if record.offset == 1:
                raise ValueError

        given = run(handle, *map(record, range(3)))
        assert [index for index, _ in given.failures] == [1]
        assert given.position == 3

    def test_no_record_is_started_after_a_critical_failure(self) -> None:
        given = run(raising(MemoryError()), *map(record, range(3)))
        assert given.failures[-1][1].kind is FailureKind.CRITICAL
        assert given.position == 1

    def test_a_handler_that_returns_a_coroutine_is_a_critical_failure(self) -> None:
        """An async function behind a plain wrapper has not run. Acknowledging would lose every record."""

        async def behind(_: Record) -> None:
            raise AssertionError("nobody waits for it")

        failure = only_failure(run(lambda record: behind(record), record(0)))  # noqa: PLW0108 - the wrapper is the point
        assert failure.kind is FailureKind.CRITICAL
        assert "async def" in failure.message


class TestBeforeTheHandler:
    def test_undecodable_bytes_do_not_reach_the_handler(self) -> None:
        failure = only_failure(run(never_called, record(0, b"{"), of=source(route(value=JSON))))
        assert (failure.kind, failure.exception) == (FailureKind.UNDECODABLE, "DecodeError")
        assert "not_json" in failure.message

    def test_an_undecodable_key_does_not_reach_the_handler(self) -> None:
        failure = only_failure(run(never_called, record(0, key=b"\xff"), of=source(route(key=JSON))))
        assert failure.kind is FailureKind.UNDECODABLE

    def test_a_record_has_no_outcome_if_the_schema_registry_is_down(self) -> None:
        """The handler's list of exceptions that are not retryable does not apply."""
        way = route(value=RaisingCodec(SchemaSourceUnavailable("http://registry", "refused")))
        for given in (
            run(never_called, record(0), record(1), of=source(way), not_retryable=(Exception,)),
            run(never_called, redelivery(0, lineage(1)), of=ready(way)),
        ):
            assert (given.position, given.failures, given.lineages, given.lateness) == (0, [], [], [])
            assert "http://registry" in given.held

    @pytest.mark.parametrize("batch", [False, True])
    def test_a_partition_that_is_given_away_meanwhile_gets_no_call(self, *, batch: bool) -> None:
        """Decoding may wait for a registry until another member handles the records."""

        class Slow(RawCodec):
            def decode(self, data: bytes | None) -> bytes | None:
                given.stop = True
                return data

        given = item(ready(route(value=Slow())), [redelivery(40, lineage()), redelivery(41, lineage(8))])
        given.batch = batch
        handler = as_handler(_batch_never_called if batch else never_called)
        processor_of(handler, {}, lambda: NOW, None).run(given)
        assert (given.position, given.lineages, given.failures, given.held) == (0, [], [], "")

    def test_a_codec_that_waits_for_a_registry_is_no_overdue_handler(self) -> None:
        """``handler.deadline`` is the time of the handler alone. The polling thread looks at any moment."""
        given: list[WorkItem] = []
        looks: dict[str, bool] = {}

        class Waiting(StringCodec):
            def decode(self, data: bytes | None) -> str | None:
                looks["decode"] = given[0].abandon(math.inf) is not None
                return super().decode(data)

            def encode(self, value: object) -> bytes | None:
                looks["encode"] = given[0].abandon(math.inf) is not None
                return super().encode(value)

        def handle(_: Record, context: Context) -> None:
            looks["handler"] = given[0].started_s > 0
            context.send("out", "v")

        given.append(item(source(route(value=Waiting())), [record(0)]))
        outputs: dict[str, tuple[Codec, Codec]] = {"out": (RAW, Waiting())}
        Processor(as_handler(handle), outputs, lambda: NOW, timedelta(seconds=1)).run(given[0])
        assert looks == {"decode": False, "handler": True, "encode": False}
        assert (given[0].position, given[0].failures) == (1, [])

    @pytest.mark.usefixtures("one_slice")
    def test_a_codec_that_exits_fails_its_record(self) -> None:
        """When it decodes, and when it encodes an output. The next record is handled."""
        exiting = RaisingCodec(SystemExit(3))
        expected = [
            (0, Failure(FailureKind.RAISED, "SystemExit", "3")),
            (1, Failure(FailureKind.RAISED, "SystemExit", "3")),
        ]
        assert run(never_called, record(0), record(1), of=source(route(value=exiting))).failures == expected

        def handle(_: Record, context: Context) -> None:
            context.send("out", "v")

        assert run(handle, record(0), record(1), outputs={"out": (RAW, exiting)}).failures == expected

    def test_out_of_memory_in_a_codec_is_critical(self) -> None:
        given = run(never_called, record(0), record(1), of=source(route(value=RaisingCodec(MemoryError()))))
        assert given.failures[-1][1].kind is FailureKind.CRITICAL
        assert given.position == 1

    @pytest.mark.parametrize(
        ("expiration_ms", "expired"), [(NOW - 1, True), (NOW, True), (NOW + 1, False), (0, False), (-1, False)]
    )
    def test_an_expired_record_is_not_delivered(self, expiration_ms: int, expired: bool) -> None:  # noqa: FBT001
        """It expires at its ``JMSExpiration``; 0 means never."""
        seen: list[Record] = []
        given = run(seen.append, record(0, headers=[("JMSExpiration", b"%d" % expiration_ms)]))
        assert (not seen) == expired
        assert [failure.kind for _, failure in given.failures] == [FailureKind.EXPIRED] * expired

    def test_a_redelivery_can_expire(self) -> None:
        message = redelivery(0, lineage(1), own=[("JMSExpiration", b"%d" % (NOW - 1))])
        given = run(never_called, message, of=ready())
        assert only_failure(given).kind is FailureKind.EXPIRED
        assert given.lineages[0].expiration_ms == NOW - 1

    @pytest.mark.parametrize(("maximum", "deliveries", "exhausted"), [(0, 1, True), (1, 1, False), (-1, 99, False)])
    def test_a_record_that_had_its_last_delivery_is_exhausted(
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

    def test_below_minus_one_there_is_no_first_delivery(self) -> None:
        """As in Classic."""
        way = route(entry(RedeliveryPolicy(maximum_redeliveries=-2)))
        assert only_failure(run(never_called, record(0), of=source(way))).kind is FailureKind.EXHAUSTED

    def test_with_a_maximum_of_zero_there_is_a_first_delivery(self) -> None:
        way = route(entry(RedeliveryPolicy(maximum_redeliveries=0)))
        assert not run(lambda _: None, record(0), of=source(way)).failures

    @pytest.mark.parametrize(
        ("missing", "expected"),
        [
            (ORIG_MESSAGE_ID, Lineage("billing.ready.orders", 2, 3, BORN, 1)),
            (DELIVERY_COUNT, lineage(1, deliveries=0)),
        ],
    )
    def test_a_redelivery_with_damaged_headers_is_a_failure(self, missing: str, expected: Lineage) -> None:
        """What can be read of its lineage is kept; the rest is its location in the ready topic."""
        good = redelivery(3, lineage(1))
        headers = [pair for pair in good.pairs or () if pair[0] != missing]
        message = Fetched(good.source, 2, 3, None, b"value", headers, NOW)
        given = run(never_called, message, of=ready(partition=2))
        failure = only_failure(given)
        assert failure.kind is FailureKind.BAD_HEADERS
        assert missing in failure.message
        assert given.lineages == [expected]

    def test_lineage_headers_of_a_source_record_are_ignored(self) -> None:
        """A dead-letter topic may be consumed as a source: that is a first delivery."""
        seen: list[tuple[Record, Context]] = []
        message = record(0, headers=[(DELIVERY_COUNT, b"99"), (ORIG_MESSAGE_ID, b"x")])
        run(lambda record, context: seen.append((record, context)), message)
        [(given, context)] = seen
        assert (given.message_id, given.timestamp_ms) == ("orders-0@0", BORN)
        assert (context.attempt, context.redelivered) == (1, False)

    def test_only_handled_redeliveries_have_a_lateness(self) -> None:
        """An expired or unreadable record was not redelivered."""
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

    def test_a_redriven_record_has_no_lateness(self) -> None:
        """It has no due time."""
        good = redelivery(0, lineage(1))
        headers = [pair for pair in good.pairs or () if pair[0] != SCHEDULED_DELIVERY]
        given = run(lambda _: None, Fetched(good.source, 5, 0, None, b"", headers), of=ready(partition=5))
        assert given.lateness == []
        assert not given.failures
