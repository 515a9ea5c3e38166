"""The demo's handler with the real decision, as a user would test it."""

from __future__ import annotations

import json

import pytest

from examples.flights.handler import handle
from kafka_redelivery import Context, HandlerKit, Record, RedeliveryPolicy
from kafka_redelivery.serdes.codec import Codec, JsonCodec, StringCodec
from kafka_redelivery.topology.policy.decision import Ack, DeadLetter, Reason, Retry
from tests.unit.examples.flights import flight

_POLICY = RedeliveryPolicy(maximum_redeliveries=3, initial_redelivery_delay=1000)


def _kit(planes: dict[str, int], arriving: dict[int, dict[str, int]] | None = None) -> HandlerKit:
    """The handler with these planes, and more from a later attempt."""

    def call(record: Record, context: Context) -> None:
        planes.update((arriving or {}).get(context.attempt, {}))
        handle(record, context, planes.get)

    codecs: dict[str, tuple[Codec, Codec]] = {"seat_miles": (StringCodec(), JsonCodec())}
    return HandlerKit(call, policy=_POLICY, value=JsonCodec(), outputs=codecs)


def test_a_flight_of_a_known_plane_sends_its_seat_miles() -> None:
    """One delivery, one output with the flight's identity and the source's message id."""
    (delivery,) = _kit({"N1": 149}).deliver(flight(7)._asdict(), topic="flights")
    assert delivery.decision == Ack()
    (output,) = delivery.outputs
    assert (output.topic, output.key) == ("seat_miles", b"N1")
    assert json.loads(output.value or b"") == {
        "message_id": "flights-0@0", "year": 2013, "month": 1, "day": 1, "carrier": "UA", "flight": 7,
        "origin": "EWR", "dest": "IAH", "tailnum": "N1", "seats": 149, "distance": 1400, "seat_miles": 208_600,
    }  # fmt: skip


def test_a_flight_without_tail_number_is_rejected_at_once() -> None:
    """It is dead-lettered before the handler checks whether it was cancelled."""
    (delivery,) = _kit({}).deliver(flight(7, None, dep_time=None)._asdict())
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.decision.reason == Reason.REJECTED


def test_a_cancelled_flight_is_done_without_output() -> None:
    """Its plane is not looked up."""
    (delivery,) = _kit({}).deliver(flight(7, "N404", dep_time=None)._asdict())
    assert (delivery.decision, delivery.outputs) == (Ack(), ())


@pytest.mark.parametrize("attempt", [2, 3, 4])
def test_a_flight_recovers_when_its_plane_arrives(attempt: int) -> None:
    """It is redelivered until the plane is known, and then sends its seat-miles."""
    story = _kit({}, {attempt: {"N1": 10}}).deliver(flight(7)._asdict())
    assert [type(delivery.decision) for delivery in story] == [Retry] * (attempt - 1) + [Ack]
    assert [len(delivery.outputs) for delivery in story] == [0] * (attempt - 1) + [1]


def test_a_flight_whose_plane_never_arrives_is_dead_after_the_last_attempt() -> None:
    """After the policy's redeliveries, without an output."""
    story = _kit({}).deliver(flight(7)._asdict())
    assert len(story) == 4
    last = story[-1].decision
    assert isinstance(last, DeadLetter)
    assert last.reason == Reason.REDELIVERIES_EXCEEDED
    assert last.failure.exception == "UnknownPlaneError"
