"""Tests the handler with the real codec and the real decision, without Kafka and without waiting."""

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
    """An order succeeds at its first delivery."""
    monkeypatch.setattr(handlers, "pay", lambda order, _: {"paid": order["amount"]})
    [delivery] = kit.deliver({"amount": 5}, key=b"c1", topic="orders")
    assert delivery.decision == Ack()
    [receipt] = delivery.outputs
    assert (receipt.topic, receipt.key, receipt.value) == ("receipts", b"c1", b'{"paid":5}')


def test_a_negative_amount_is_rejected_at_once(kit: HandlerKit) -> None:
    """The bank is not called."""
    [delivery] = kit.deliver({"amount": -5})
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.decision.reason == "rejected"


def test_a_closed_bank_is_called_again(kit: HandlerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1 and 2 seconds of the kit's clock, with the same identity, so that the bank charges once."""
    calls: list[str] = []

    def pay(_: dict[str, Any], identity: str) -> dict[str, Any]:
        calls.append(identity)
        if len(calls) < 3:
            raise URLError("connection refused")
        return {}

    monkeypatch.setattr(handlers, "pay", pay)
    deliveries = kit.deliver({"amount": 5}, topic="orders")
    assert [delivery.at_ms - deliveries[0].at_ms for delivery in deliveries] == [0, 1000, 3000]
    assert deliveries[-1].decision == Ack()
    assert calls == ["orders-0@0"] * 3


def test_a_bank_that_stays_closed_leads_to_a_dead_letter(kit: HandlerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one delivery and four redeliveries, without a receipt."""
    monkeypatch.setattr(handlers, "BANK", "http://127.0.0.1:1/charges")
    deliveries = kit.deliver({"amount": 5})
    assert [delivery.attempt for delivery in deliveries] == [1, 2, 3, 4, 5]
    last = deliveries[-1].decision
    assert isinstance(last, DeadLetter)
    assert (last.reason, last.failure.exception) == ("redeliveries_exceeded", "URLError")
    assert not any(delivery.outputs for delivery in deliveries)
