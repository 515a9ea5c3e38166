"""Outputs are written completely or not at all, and no output can end the process."""

from typing import Any

import pytest

from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.serdes.codec import JsonCodec, RawCodec
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.unit.consumers.failing_handlers import RaisingCodec, only_failure, run
from tests.unit.consumers.records import record

JSON = JsonCodec()


class TestOutputs:
    def test_the_codecs_of_the_topic_encode_key_and_value(self) -> None:

        def handle(_: Record, context: Context) -> None:
            context.send("totals", {"sum": 3}, key="k", headers={"a": b"1"}, partition=4)
            context.send("totals", None)

        given = run(handle, record(0), outputs={"totals": (JSON, JSON)})
        assert given.outputs == [
            (
                0,
                [
                    ProducerRecord("totals", 4, b'"k"', b'{"sum":3}', [("a", b"1")]),
                    ProducerRecord("totals", None, None, None, []),
                ],
            )
        ]

    def test_without_a_codec_bytes_are_written_unchanged(self) -> None:
        given = run(lambda _, context: context.send("log", b"line", key=b"k"), record(0))
        assert given.outputs == [(0, [ProducerRecord("log", None, b"k", b"line", [])])]

    def test_a_failure_drops_the_outputs(self) -> None:

        def handle(_: Record, context: Context) -> None:
            context.send("log", b"half")
            raise ValueError

        given = run(handle, record(0))
        assert given.outputs == []
        assert only_failure(given).kind is FailureKind.RAISED

    def test_an_output_that_cannot_be_encoded_is_a_failure(self) -> None:
        """Its other outputs are dropped."""

        def handle(_: Record, context: Context) -> None:
            context.send("totals", {"fine": 1})
            context.send("totals", {"not": object()})

        given = run(handle, record(0), outputs={"totals": (RawCodec(), JSON)})
        assert only_failure(given).exception == "EncodeError"
        assert given.outputs == []

    @pytest.mark.parametrize(
        ("emit", "problem"),
        [
            ({"topic": "log", "value": "text"}, "no codec"),
            ({"topic": "log", "value": b"", "key": 7}, "no codec"),
            ({"topic": "", "value": b""}, "topic"),
            ({"topic": 7, "value": b""}, "topic"),
            ({"topic": "a\0b", "value": b""}, "topic"),
            ({"topic": "__consumer_offsets", "value": b""}, "internal topic of Kafka"),
            ({"topic": "t" * 250, "value": b""}, "topic"),
            ({"topic": "log", "value": b"", "partition": "1"}, "partition"),
            ({"topic": "log", "value": b"", "partition": -1}, "partition"),
            ({"topic": "log", "value": b"", "partition": 2**31}, "partition"),
            ({"topic": "log", "value": b"", "headers": {"n": 5}}, "header"),
            ({"topic": "log", "value": b"", "headers": {5: b"n"}}, "header"),
            ({"topic": "log", "value": b"", "headers": [("n", b"1", b"2")]}, "header"),
            ({"topic": "log", "value": b"", "headers": {"\ud800": b""}}, "header"),
        ],
        ids=lambda case: ascii(case)[:60],
    )
    def test_an_output_that_kafka_does_not_accept_is_a_failure(self, emit: dict[str, Any], problem: str) -> None:
        """Found here it costs one record; found by the client it ends the process, some of it without a word."""
        given = run(lambda _, context: context.send(**emit), record(0))
        failure = only_failure(given)
        assert failure.kind is FailureKind.RAISED
        assert problem in failure.message

    def test_out_of_memory_in_an_encoder_is_critical(self) -> None:
        codec = RaisingCodec(MemoryError())
        given = run(lambda _, context: context.send("t", 1), record(0), outputs={"t": (RawCodec(), codec)})
        assert given.failures[-1][1].kind is FailureKind.CRITICAL

    def test_an_exception_of_an_encoder_can_be_not_retryable(self) -> None:
        given = run(
            lambda _, context: context.send("t", "text"),
            record(0),
            outputs={"t": (RawCodec(), RawCodec())},
            not_retryable=(Exception,),
        )
        assert only_failure(given).kind is FailureKind.REJECTED
