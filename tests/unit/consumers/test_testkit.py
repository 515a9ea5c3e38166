"""The kit tells the same story as a worker, without Kafka and without waiting."""

from datetime import timedelta
from itertools import repeat

import pytest

from consumers.errors import HandlerLoadError
from kafka_redelivery import Context, DeadLetterStrategy, HandlerKit, Record, Redeliver, RedeliveryPolicy, Reject
from serdes.codec import JsonCodec
from serdes.errors import EncodeError
from topology.decision import Ack, DeadLetter, Discard, FailureKind, Halt, Reason, Retry
from topology.policy import DeadLetterKind
from transport.protocols import Copy

TWICE_MORE = RedeliveryPolicy(maximum_redeliveries=2)
JSON = JsonCodec()


class FlakyBank:
    """Down for so many calls, then up."""

    def __init__(self, down: int) -> None:
        self.down = down
        self.seen: list[tuple[int, bool]] = []

    def charge(self, record: Record, context: Context) -> None:
        """Charge, or raise."""
        self.seen.append((context.attempt, context.redelivered))
        context.send("receipts", record.raw_value, key=record.raw_key)
        if len(self.seen) <= self.down:
            raise ConnectionError("the bank is down")


def kinds(kit: HandlerKit, value: object = b"order") -> list[str]:
    """The decisions of a story by name."""
    return [type(delivery.decision).__name__ for delivery in kit.deliver(value)]


class TestStory:
    def test_a_handler_that_returns_is_acknowledged(self) -> None:
        """At the first attempt, with its outputs."""
        [delivery] = HandlerKit(FlakyBank(down=0).charge).deliver(b"order", key=b"k", topic="orders")
        assert delivery.decision == Ack()
        assert (delivery.attempt, delivery.failure) == (1, None)
        assert delivery.outputs == (Copy("receipts", None, b"k", b"order", []),)

    def test_one_that_recovers_is_retried_until_then(self) -> None:
        """Outputs of failed attempts are dropped."""
        bank = FlakyBank(down=2)
        story = HandlerKit(bank.charge).deliver(b"order")
        assert [type(delivery.decision).__name__ for delivery in story] == ["Retry", "Retry", "Ack"]
        assert bank.seen == [(1, False), (2, True), (3, True)]
        assert [len(delivery.outputs) for delivery in story] == [0, 0, 1]

    def test_one_that_never_does_ends_among_the_dead_letters(self) -> None:
        """After one delivery and the policy's redeliveries."""
        story = HandlerKit(FlakyBank(down=99).charge, policy=TWICE_MORE).deliver(b"order")
        assert [delivery.attempt for delivery in story] == [1, 2, 3]
        last = story[-1].decision
        assert isinstance(last, DeadLetter)
        assert last.reason is Reason.REDELIVERIES_EXCEEDED
        assert (last.failure.exception, last.failure.message) == ("ConnectionError", "the bank is down")

    def test_a_day_of_redeliveries_takes_no_time(self) -> None:
        """The kit's clock jumps to each due time; the delays are the policy's."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=4,
            initial_redelivery_delay=60_000,
            use_exponential_back_off=True,
            back_off_multiplier=10,
            maximum_redelivery_delay=86_400_000,
        )
        story = HandlerKit(FlakyBank(down=99).charge, policy=policy, now_ms=1000).deliver(b"order")
        assert [delivery.at_ms - 1000 for delivery in story] == [0, 60_000, 660_000, 6_660_000, 66_660_000]

    def test_the_record_is_the_same_at_every_attempt(self) -> None:
        """Identity, time, bytes and the user's own headers."""
        seen: list[tuple[str, int, bytes | None, object]] = []

        def handle(record: Record) -> None:
            seen.append((record.message_id, record.timestamp_ms, record.raw_value, record.headers))
            if len(seen) < 3:
                raise ValueError

        HandlerKit(handle, now_ms=7).deliver(b"order", topic="orders", headers=[("traceparent", b"00-1")])
        assert seen == [("orders-0@0", 7, b"order", {"traceparent": b"00-1"})] * 3

    def test_without_a_limit_it_is_followed_for_long_enough(self) -> None:
        """And not for ever."""
        story = HandlerKit(FlakyBank(down=10**6).charge, policy=RedeliveryPolicy(maximum_redeliveries=-1)).deliver(b"")
        assert len(story) == 1000
        assert isinstance(story[-1].decision, Retry)

    def test_time_goes_on_between_stories(self) -> None:
        """One kit, one clock."""
        kit = HandlerKit(FlakyBank(down=1).charge, now_ms=0)
        kit.deliver(b"first")
        [second] = kit.deliver(b"second")
        assert second.at_ms == 1000


class TestVerdicts:
    def test_reject_is_a_dead_letter_at_once(self) -> None:
        """However many attempts are left."""

        def handle(_: Record) -> None:
            raise Reject("a negative amount")

        [delivery] = HandlerKit(handle).deliver(b"order")
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.REJECTED
        assert delivery.attempt == 1

    def test_an_exception_can_be_named_as_not_retryable(self) -> None:
        """As in the configuration."""

        def handle(_: Record) -> None:
            raise KeyError("amount")

        assert kinds(HandlerKit(handle, not_retryable=(LookupError,))) == ["DeadLetter"]

    def test_a_delay_of_its_own(self) -> None:
        """If the configuration allows it, cut to what it allows; else the policy's."""

        def handle(_: Record, context: Context) -> None:
            if not context.redelivered:
                raise Redeliver("not yet", after=timedelta(minutes=10))

        def first_delay(allowed_ms: int | None) -> int:
            decision = HandlerKit(handle, maximum_handler_delay=allowed_ms).deliver(b"")[0].decision
            assert isinstance(decision, Retry)
            return decision.delay_ms

        assert [first_delay(allowed) for allowed in (None, 3_600_000, 60_000, 0)] == [1000, 600_000, 60_000, 0]

    def test_out_of_memory_halts(self) -> None:
        """It is no dead letter."""

        def handle(_: Record) -> None:
            raise MemoryError("all of it")

        [delivery] = HandlerKit(handle).deliver(b"")
        assert isinstance(delivery.decision, Halt)

    def test_dead_letters_can_be_discarded(self) -> None:
        """By the strategy."""
        strategy = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING)
        story = HandlerKit(FlakyBank(99).charge, policy=TWICE_MORE, dead_letters=strategy).deliver(b"")
        assert isinstance(story[-1].decision, Discard)

    def test_what_cannot_be_a_handler_is_refused(self) -> None:
        """With the message a worker would start with."""
        with pytest.raises(HandlerLoadError, match="must take"):
            HandlerKit(lambda: None).deliver(b"")


class TestCodecs:
    def test_values_are_encoded_and_decoded(self) -> None:
        """As the source's codec would; the handler sees what came through it."""
        seen: list[object] = []
        kit = HandlerKit(lambda record: seen.append((record.key, record.value)), value=JSON, key=JSON)
        assert kinds(kit, {"amount": 5}) == ["Ack"]
        kit.deliver({"amount": (1, 2)}, key="k")
        assert seen == [(None, {"amount": 5}), ("k", {"amount": [1, 2]})]

    def test_bytes_are_tried_as_they_are(self) -> None:
        """Undecodable ones never reach the handler."""
        [delivery] = HandlerKit(FlakyBank(0).charge, value=JSON).deliver(b"{broken")
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.UNDECODABLE
        assert delivery.attempt == 0

    def test_a_value_the_codec_cannot_write_is_the_tests_mistake(self) -> None:
        """So it raises in the test."""
        with pytest.raises(EncodeError, match="needs bytes"):
            HandlerKit(FlakyBank(0).charge).deliver({"amount": 5})

    def test_outputs_are_encoded_with_their_codecs(self) -> None:
        """A topic without one takes bytes."""

        def handle(record: Record, context: Context) -> None:
            context.send("receipts", {"paid": record.value["amount"]}, key="k", headers={"h": b"1"}, partition=2)
            context.send("audit", record.raw_value)

        [delivery] = HandlerKit(handle, value=JSON, outputs={"receipts": (JSON, JSON)}).deliver({"amount": 5})
        assert delivery.outputs == (
            Copy("receipts", 2, b'"k"', b'{"paid":5}', [("h", b"1")]),
            Copy("audit", None, None, b'{"amount":5}', []),
        )

    def test_an_output_that_cannot_be_encoded_fails_the_delivery(self) -> None:
        """The kit finds what a worker would stumble over."""
        kit = HandlerKit(lambda _, context: context.send("receipts", {"a": 1}), policy=TWICE_MORE)
        assert kinds(kit) == ["Retry", "Retry", "DeadLetter"]

    def test_a_tombstone(self) -> None:
        """None is one."""
        seen: list[object] = []
        HandlerKit(lambda record: seen.append(record.raw_value), value=JSON).deliver(None)
        assert seen == [None]


class TestTime:
    def test_a_record_can_expire_before_its_first_delivery(self) -> None:
        """By the kit's clock."""
        [delivery] = HandlerKit(FlakyBank(0).charge, now_ms=1000).deliver(b"", headers=[("JMSExpiration", b"1000")])
        assert isinstance(delivery.decision, DeadLetter)
        assert delivery.decision.reason is Reason.EXPIRED
        assert delivery.attempt == 0

    def test_and_while_it_waits(self) -> None:
        """The next delivery finds it."""
        kit = HandlerKit(FlakyBank(99).charge, now_ms=0)
        story = kit.deliver(b"", headers=[("JMSExpiration", b"2500")])
        assert [delivery.at_ms for delivery in story] == [0, 1000, 2000, 3000]
        assert story[-1].failure is not None
        assert story[-1].failure.kind is FailureKind.EXPIRED
        assert story[-1].attempt == 3

    @pytest.mark.parametrize(("draw", "later"), [(1.0, 1150), (-1.0, 850), (0.0, 1000)])
    def test_jitter_is_what_is_given(self, draw: float, later: int) -> None:
        """From the second redelivery on, the same draws at each decision."""
        policy = RedeliveryPolicy(maximum_redeliveries=3, use_collision_avoidance=True)
        story = HandlerKit(FlakyBank(99).charge, policy=policy, jitter=[draw, draw]).deliver(b"")
        delays = [delivery.decision.delay_ms for delivery in story if isinstance(delivery.decision, Retry)]
        assert delays == [1000, later, later]

    def test_endless_jitter_will_do(self) -> None:
        """Not all draws have to be listed."""
        policy = RedeliveryPolicy(use_collision_avoidance=True)
        assert kinds(HandlerKit(FlakyBank(99).charge, policy=policy, jitter=repeat(0.5)))[-1] == "DeadLetter"


def test_a_story_shows_each_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    """As a worker does: seven failures of one kind are one traceback."""
    HandlerKit(FlakyBank(99).charge).deliver(b"order")
    assert len([record for record in caplog.records if record.exc_info]) == 1


class TestAsync:
    def test_the_same_story(self) -> None:
        """For a coroutine function."""
        seen: list[int] = []

        async def handle(_: Record, context: Context) -> None:
            seen.append(context.attempt)
            context.send("receipts", b"paid")
            if context.attempt < 3:
                raise ConnectionError

        story = HandlerKit(handle).deliver(b"order")
        assert [type(delivery.decision).__name__ for delivery in story] == ["Retry", "Retry", "Ack"]
        assert seen == [1, 2, 3]
        assert len(story[-1].outputs) == 1
