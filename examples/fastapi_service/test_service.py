"""Tests of the handlers with their formats and their policy, without Kafka."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session

from examples.fastapi_service import service  # in a project of your own: import service
from kafka_redelivery import Ack, DeadLetter, HandlerKit, Retry

MakeKit = Callable[..., HandlerKit]


def test_a_payment_has_a_receipt(redelivery_kit: MakeKit) -> None:
    """And nothing is acknowledged that was not paid."""
    kit = redelivery_kit(service.service, source="payments")
    [delivery] = kit.deliver({"number": 1, "cents": 5})
    assert [(each.topic, each.value) for each in delivery.outputs] == [("receipts", b'{"number":1,"cents":5}')]
    [delivery] = kit.deliver({"number": 1, "cents": 0})
    assert isinstance(delivery.decision, DeadLetter)


def test_a_parcel_that_is_not_packed_waits_for_a_second(redelivery_kit: MakeKit) -> None:
    """The handler chooses the delay."""
    first, second = redelivery_kit(service.service, source="parcels").deliver({"number": 1, "packed": False})
    assert isinstance(first.decision, Retry)
    assert (second.at_ms - first.at_ms, second.decision) == (1000, Ack())


def test_a_bad_click_does_not_harm_the_others(redelivery_kit: MakeKit) -> None:
    """Each record of a batch has its own outcome."""
    kit = redelivery_kit(service.service, source="clicks")
    clicks = [{"number": 1, "article": "shoes"}, {"number": 2, "article": ""}, {"number": 3}]
    decisions = [deliveries[-1].decision for deliveries in kit.deliver_batch(clicks)]
    assert [getattr(each, "reason", None) for each in decisions] == [None, "rejected", "invalid_value"]


def test_an_order_is_booked_once(redelivery_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit delivers the same record twice, as after a crash."""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    monkeypatch.setattr(service, "engine", engine)
    service.create_tables()
    kit = redelivery_kit(service.service, source="orders")
    for _ in range(2):
        [delivery] = kit.deliver({"number": 1, "cents": 5})
        assert delivery.decision == Ack()
    with Session(engine) as session:
        assert session.scalar(select(func.count(service.Booking.id))) == 1
