"""HandlerKit.redeliver delivers a dead letter as `redelivery dlq redrive` sends it."""

import json

import pytest

from kafka_redelivery import Context, HandlerKit, JsonCodec, Record, RedeliveryPolicy
from kafka_redelivery.topology.errors import ExportedLetterError, HeaderError
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.wire.headers import HeaderList, dead_letter_headers


def exported(value: bytes = b'{"amount":5}', headers: HeaderList | None = None) -> str:
    """Return a line of the export."""
    decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, Failure(FailureKind.RAISED, "OSError", "down"), 1_000)
    lineage = Lineage("orders", 3, 17, 1_600_000_000_000, deliveries=7, redrive="0a1b/0@4/2")
    user: HeaderList = [("traceparent", b"00-1"), ("JMSExpiration", b"9"), ("empty", None)]
    written = dead_letter_headers(lineage, "billing", user, decision, 1_000) if headers is None else headers
    letter = ExportedLetter("DLQ.orders-0@4", 1_000, b"k", value, written, "waiting")
    return json.dumps(letter.document("orders-3@17"))


def test_the_handler_sees_the_source_record_and_attempts_begin_anew() -> None:
    """Origin, key, user's headers; the letter's expiration does not count."""
    seen: list[tuple[object, ...]] = []

    def charge(record: Record, context: Context) -> None:
        headers = dict(record.headers)
        seen.append((record.message_id, record.timestamp_ms, record.raw_key, record.value, headers, context.attempt))
        if context.attempt < 3:
            raise ConnectionError

    kit = HandlerKit(charge, value=JsonCodec(), policy=RedeliveryPolicy(maximum_redeliveries=2))
    deliveries = kit.redeliver(exported())
    assert [delivery.attempt for delivery in deliveries] == [1, 2, 3]
    assert deliveries[-1].failure is None
    headers = {"traceparent": b"00-1", "empty": None}
    assert seen == [("orders-3@17", 1_600_000_000_000, b"k", {"amount": 5}, headers, n) for n in (1, 2, 3)]


def test_the_object_of_the_line_is_taken_too() -> None:
    """A script parses the lines to choose among them."""
    [delivery] = HandlerKit(lambda _: None).redeliver(json.loads(exported()))
    assert delivery.failure is None


def test_a_letter_that_cannot_be_decoded_dies_again() -> None:
    """The codec is the kit's."""
    [delivery] = HandlerKit(lambda _: None, value=JsonCodec()).redeliver(exported(b"{"))
    assert delivery.decision.reason == "undecodable"  # type: ignore[union-attr] # a dead letter


@pytest.mark.parametrize("line", ["", "[]", "{}", "null", '{"version":2}', exported().replace('"k', '"?')[:-3]])
def test_what_is_not_exported(line: str) -> None:
    """No JSON, another object, another version, damaged base64."""
    with pytest.raises(ExportedLetterError, match="not a line of `redelivery dlq export`"):
        HandlerKit(lambda _: None).redeliver(line)


def test_a_letter_without_an_origin_or_of_another_source_is_refused() -> None:
    """The kit's codecs would not be those of the letter."""
    with pytest.raises(HeaderError, match="_AMQ_ORIG_MESSAGE_ID"):
        HandlerKit(lambda _: None).redeliver(exported(headers=[]))
    with pytest.raises(ValueError, match=r"DLQ\.orders-0@4 comes from orders; the kit is of the source bills"):
        HandlerKit(lambda _: None, topic="bills").redeliver(exported())
