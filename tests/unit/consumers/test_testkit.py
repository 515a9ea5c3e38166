"""HandlerKit makes the same decisions as a worker, without Kafka and without waiting."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import repeat
from pathlib import Path

import pytest

from kafka_redelivery import Context, DeadLetterStrategy, HandlerKit, Record, Redeliver, RedeliveryPolicy, Reject
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.serdes.errors import EncodeError
from kafka_redelivery.topology.policy.decision import Ack, DeadLetter, Discard, FailureKind, Halt, Reason, Retry
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.transport.protocols import ProducerRecord

TWICE_MORE = RedeliveryPolicy(maximum_redeliveries=2)
JSON = JsonCodec()


class FlakyBank:
    """Fails the first ``down`` calls."""

    def __init__(self, down: int) -> None:
        self.down = down
        self.seen: list[tuple[int, bool]] = []

    def charge(self, record: Record, context: Context) -> None:
        self.seen.append((context.attempt, context.redelivered))
        context.send("receipts", record.raw_value, key=record.raw_key)
        if len(self.seen) <= self.down:
            raise ConnectionError("the bank is down")


def kinds(kit: HandlerKit, value: object = b"order") -> list[str]:
    """The names of the decisions."""
    return [type(delivery.decision).__name__ for delivery in kit.deliver(value)]


class TestDeliveries:
    def test_a_success_is_acknowledged(self) -> None:
        [delivery] = HandlerKit(FlakyBank(down=0).charge).deliver(b"order", key=b"k", topic="orders")
        assert delivery.decision == Ack()
        assert (delivery.attempt, delivery.failure) == (1, None)
        assert delivery.outputs == (ProducerRecord("receipts", None, b"k", b"order", []),)

    def test_failures_are_retried_until_a_success(self) -> None:
        """Outputs of failed deliveries are dropped."""
        bank = FlakyBank(down=2)
        deliveries = HandlerKit(bank.charge).deliver(b"order")
        assert [type(delivery.decision).__name__ for delivery in deliveries] == ["Retry", "Retry", "Ack"]
        assert bank.seen == [(1, False), (2, True), (3, True)]
        assert [len(delivery.outputs) for delivery in deliveries] == [0, 0, 1]

    def test_without_a_success_the_record_is_dead_lettered(self) -> None:
        """After one delivery and the redeliveries of the policy."""
        deliveries = HandlerKit(FlakyBank(down=99).charge, policy=TWICE_MORE).deliver(b"order")
        assert [delivery.attempt for delivery in deliveries] == [1, 2, 3]
        last = deliveries[-1].decision
        assert isinstance(last, DeadLetter)
        assert last.reason is Reason.REDELIVERIES_EXCEEDED
        assert (last.failure.exception, last.failure.message) == ("ConnectionError", "the bank is down")

    def test_a_day_of_redeliveries_takes_no_time(self) -> None:
        """The simulated clock jumps to each due time."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=4,
            initial_redelivery_delay=60_000,
            use_exponential_back_off=True,
            back_off_multiplier=10,
            maximum_redelivery_delay=86_400_000,
        )
        deliveries = HandlerKit(FlakyBank(down=99).charge, policy=policy, now_ms=1000).deliver(b"order")
        assert [delivery.at_ms - 1000 for delivery in deliveries] == [0, 60_000, 660_000, 6_660_000, 66_660_000]

    def test_the_record_is_the_same_in_every_delivery(self) -> None:
        """Message id, timestamp, bytes and the user's headers."""
        seen: list[tuple[str, int, bytes | None, object]] = []

        def handle(record: Record) -> None:
            seen.append((record.message_id, record.timestamp_ms, record.raw_value, record.headers))
            if len(seen) < 3:
                raise ValueError

        HandlerKit(handle, now_ms=7).deliver(b"order", topic="orders", headers=[("traceparent", b"00-1")])
        assert seen == [("orders-0@0", 7, b"order", {"traceparent": b"00-1"})] * 3

    def test_without_a_limit_the_kit_stops_after_1000_deliveries(self) -> None:
        deliveries = HandlerKit(FlakyBank(down=10**6).charge, policy=RedeliveryPolicy(maximum_redeliveries=-1)).deliver(
            b""
        )
        assert len(deliveries) == 1000
        assert isinstance(deliveries[-1].decision, Retry)

    def test_the_clock_is_not_reset_between_records(self) -> None:
        kit = HandlerKit(FlakyBank(down=1).charge, now_ms=0)
        kit.deliver(b"first")
        [second] = kit.deliver(b"second")
        assert second.at_ms == 1000


class TestDecisions:
    def test_reject_dead_letters_without_a_redelivery(self) -> None:

        def handle(_: Record) -> None:
            raise Reject("a negative amount")

        [delivery] = HandlerKit(handle).deliver(b"order")
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.REJECTED
        assert delivery.attempt == 1

    def test_an_exception_can_be_not_retryable(self) -> None:

        def handle(_: Record) -> None:
            raise KeyError("amount")

        assert kinds(HandlerKit(handle, not_retryable=(LookupError,))) == ["DeadLetter"]

    def test_a_delay_that_the_handler_chose(self) -> None:
        """It is limited by ``maximum_handler_delay``. Without that the delay of the policy applies."""

        def handle(_: Record, context: Context) -> None:
            if not context.redelivered:
                raise Redeliver("not yet", after=timedelta(minutes=10))

        def first_delay(allowed_ms: int | None) -> int:
            decision = HandlerKit(handle, maximum_handler_delay=allowed_ms).deliver(b"")[0].decision
            assert isinstance(decision, Retry)
            return decision.delay_ms

        assert [first_delay(allowed) for allowed in (None, 3_600_000, 60_000, 0)] == [1000, 600_000, 60_000, 0]

    def test_out_of_memory_halts(self) -> None:

        def handle(_: Record) -> None:
            raise MemoryError("all of it")

        [delivery] = HandlerKit(handle).deliver(b"")
        assert isinstance(delivery.decision, Halt)

    def test_dead_letters_can_be_discarded(self) -> None:
        strategy = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING)
        deliveries = HandlerKit(FlakyBank(99).charge, policy=TWICE_MORE, dead_letters=strategy).deliver(b"")
        assert isinstance(deliveries[-1].decision, Discard)

    def test_a_handler_with_other_parameters_is_refused(self) -> None:
        with pytest.raises(HandlerLoadError, match="instead of"):
            HandlerKit(lambda: None).deliver(b"")


class TestCodecs:
    def test_values_are_encoded_and_decoded(self) -> None:
        """The handler gets what the codec decodes."""
        seen: list[object] = []
        kit = HandlerKit(lambda record: seen.append((record.key, record.value)), value=JSON, key=JSON)
        assert kinds(kit, {"amount": 5}) == ["Ack"]
        kit.deliver({"amount": (1, 2)}, key="k")
        assert seen == [(None, {"amount": 5}), ("k", {"amount": [1, 2]})]

    def test_bytes_are_not_encoded(self) -> None:
        """Undecodable bytes do not reach the handler."""
        [delivery] = HandlerKit(FlakyBank(0).charge, value=JSON).deliver(b"{broken")
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.UNDECODABLE
        assert delivery.attempt == 0

    def test_a_value_that_cannot_be_encoded_raises(self) -> None:
        with pytest.raises(EncodeError, match=r"needs bytes, got dict; .*value=JsonCodec\(\)"):
            HandlerKit(FlakyBank(0).charge).deliver({"amount": 5})

    def test_outputs_are_encoded_with_their_codecs(self) -> None:
        """A topic without codecs takes bytes."""

        def handle(record: Record, context: Context) -> None:
            context.send("receipts", {"paid": record.value["amount"]}, key="k", headers={"h": b"1"}, partition=2)
            context.send("audit", record.raw_value)

        [delivery] = HandlerKit(handle, value=JSON, outputs={"receipts": (JSON, JSON)}).deliver({"amount": 5})
        assert delivery.outputs == (
            ProducerRecord("receipts", 2, b'"k"', b'{"paid":5}', [("h", b"1")]),
            ProducerRecord("audit", None, None, b'{"amount":5}', []),
        )

    def test_an_output_that_cannot_be_encoded_fails_the_delivery(self) -> None:
        kit = HandlerKit(lambda _, context: context.send("receipts", {"a": 1}), policy=TWICE_MORE)
        assert kinds(kit) == ["Retry", "Retry", "DeadLetter"]

    def test_none_is_a_tombstone(self) -> None:
        seen: list[object] = []
        HandlerKit(lambda record: seen.append(record.raw_value), value=JSON).deliver(None)
        assert seen == [None]


class TestTime:
    def test_a_record_can_expire_before_its_first_delivery(self) -> None:
        [delivery] = HandlerKit(FlakyBank(0).charge, now_ms=1000).deliver(b"", headers=[("JMSExpiration", b"1000")])
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.EXPIRED
        assert delivery.attempt == 0

    def test_a_record_can_expire_while_it_waits(self) -> None:
        """The next delivery finds it expired."""
        kit = HandlerKit(FlakyBank(99).charge, now_ms=0)
        deliveries = kit.deliver(b"", headers=[("JMSExpiration", b"2500")])
        assert [delivery.at_ms for delivery in deliveries] == [0, 1000, 2000, 3000]
        assert deliveries[-1].failure is not None
        assert deliveries[-1].failure.kind is FailureKind.EXPIRED
        assert deliveries[-1].attempt == 3

    @pytest.mark.parametrize(("draw", "later"), [(1.0, 1150), (-1.0, 850), (0.0, 1000)])
    def test_the_jitter_is_given(self, draw: float, later: int) -> None:
        """From the second redelivery on. Each decision starts with the first draw."""
        policy = RedeliveryPolicy(maximum_redeliveries=3, use_collision_avoidance=True)
        deliveries = HandlerKit(FlakyBank(99).charge, policy=policy, jitter=[draw, draw]).deliver(b"")
        delays = [delivery.decision.delay_ms for delivery in deliveries if isinstance(delivery.decision, Retry)]
        assert delays == [1000, later, later]

    def test_the_jitter_may_be_endless(self) -> None:
        policy = RedeliveryPolicy(use_collision_avoidance=True)
        assert kinds(HandlerKit(FlakyBank(99).charge, policy=policy, jitter=repeat(0.5)))[-1] == "DeadLetter"


def test_each_traceback_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """As in a worker, seven failures of one kind are one traceback."""
    HandlerKit(FlakyBank(99).charge).deliver(b"order")
    assert len([record for record in caplog.records if record.exc_info]) == 1


class TestAsync:
    def test_the_decisions_are_the_same(self) -> None:
        seen: list[int] = []

        async def handle(_: Record, context: Context) -> None:
            seen.append(context.attempt)
            context.send("receipts", b"paid")
            if context.attempt < 3:
                raise ConnectionError

        deliveries = HandlerKit(handle).deliver(b"order")
        assert [type(delivery.decision).__name__ for delivery in deliveries] == ["Retry", "Retry", "Ack"]
        assert seen == [1, 2, 3]
        assert len(deliveries[-1].outputs) == 1


@dataclass
class Order:
    id: int
    amount: Decimal


class TestTypedValues:
    """Typed handlers in the kit."""

    def test_an_object_is_delivered_as_it_would_be_sent(self) -> None:
        seen: list[Order] = []
        HandlerKit(seen.append, value=JSON, value_type=Order).deliver(Order(1, Decimal("2.50")))
        [record] = seen
        assert isinstance(record, Record)
        assert record.value == Order(1, Decimal("2.50"))

    def test_a_value_that_does_not_fit_is_dead_lettered_without_a_delivery(self) -> None:
        """Also when the policy allows redeliveries."""

        def charge(order: Order) -> None:
            raise AssertionError(order)

        [delivery] = HandlerKit(charge, policy=TWICE_MORE, value=JSON).deliver({"id": 1})
        assert delivery.attempt == 0
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.INVALID_VALUE
        assert delivery.decision.failure.message == "$.amount: Field required"

    def test_the_configuration_names_the_type(self, tmp_path: Path) -> None:
        """For a handler without an annotation."""
        file = tmp_path / "redelivery.yaml"
        file.write_text(
            "group: billing\nkafka: {bootstrap.servers: x}\nsources: [{topic: orders, value: {format: json}}]\n"
            f"handler: {{callable: '{__name__}:unannotated', value: '{__name__}:Order'}}\n"
        )
        [delivery] = HandlerKit.from_config(file, environment={}).deliver({"id": "x", "amount": 1})
        assert delivery.failure is not None
        assert delivery.failure.kind is FailureKind.INVALID_VALUE


def unannotated(record):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, D103 - as people write it
    raise AssertionError(record)
