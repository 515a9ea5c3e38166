"""The handler through the real codec and the real decision, without a Kafka and without waiting."""

from typing import Any
from urllib.error import URLError

import pytest

from examples.quickstart import handlers  # in a project of your own: import handlers
from kafka_redelivery import Ack, DeadLetter, HandlerKit, JsonCodec, RawCodec, RedeliveryPolicy

POLICY = RedeliveryPolicy(maximum_redeliveries=4, use_exponential_back_off=True, back_off_multiplier=2)


@pytest.fixture
def kit() -> HandlerKit:
    """The handler with the policy and the formats of redelivery.yaml."""
    return HandlerKit(
        handlers.charge, policy=POLICY, value=JsonCodec(), outputs={"receipts": (RawCodec(), JsonCodec())}
    )


def test_an_order_is_charged_and_its_receipt_sent(kit: HandlerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first delivery."""
    monkeypatch.setattr(handlers, "pay", lambda order, _: {"paid": order["amount"]})
    [delivery] = kit.deliver({"amount": 5}, key=b"c1", topic="orders")
    assert delivery.decision == Ack()
    [receipt] = delivery.outputs
    assert (receipt.topic, receipt.key, receipt.value) == ("receipts", b"c1", b'{"paid":5}')


def test_a_negative_amount_is_rejected_at_once(kit: HandlerKit) -> None:
    """The bank is not asked."""
    [delivery] = kit.deliver({"amount": -5})
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.decision.reason == "rejected"


def test_a_bank_that_is_down_is_asked_again(kit: HandlerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1 and 2 seconds by the kit's clock, with the same identity, so that it charges once."""
    asked: list[str] = []

    def pay(_: dict[str, Any], identity: str) -> dict[str, Any]:
        asked.append(identity)
        if len(asked) < 3:
            raise URLError("connection refused")
        return {}

    monkeypatch.setattr(handlers, "pay", pay)
    story = kit.deliver({"amount": 5}, topic="orders")
    assert [delivery.at_ms - story[0].at_ms for delivery in story] == [0, 1000, 3000]
    assert story[-1].decision == Ack()
    assert asked == ["orders-0@0"] * 3


def test_a_bank_that_stays_down_ends_among_the_dead_letters(kit: HandlerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one delivery and four redeliveries, with nothing sent."""
    monkeypatch.setattr(handlers, "BANK", "http://127.0.0.1:1/charges")
    story = kit.deliver({"amount": 5})
    assert [delivery.attempt for delivery in story] == [1, 2, 3, 4, 5]
    last = story[-1].decision
    assert isinstance(last, DeadLetter)
    assert (last.reason, last.failure.exception) == ("redeliveries_exceeded", "URLError")
    assert not any(delivery.outputs for delivery in story)
