"""What a handler emits: all of it or nothing, and nothing that would end the process."""

from typing import Any

import pytest

from consumers.record import Context, Record
from serdes.codec import JsonCodec, RawCodec
from tests.unit.consumers.handling import Fussy, only_failure, run
from tests.unit.consumers.records import record
from topology.decision import FailureKind
from transport.protocols import Copy

JSON = JsonCodec()


class TestOutputs:
    def test_they_are_encoded_by_their_topics_codecs(self) -> None:
        """Key and value each."""

        def handle(_: Record, context: Context) -> None:
            context.send("totals", {"sum": 3}, key="k", headers={"a": b"1"}, partition=4)
            context.send("totals", None)

        given = run(handle, record(0), outputs={"totals": (JSON, JSON)})
        assert given.outputs == [
            (0, [Copy("totals", 4, b'"k"', b'{"sum":3}', [("a", b"1")]), Copy("totals", None, None, None, [])])
        ]

    def test_without_a_codec_they_are_bytes(self) -> None:
        """As they are."""
        given = run(lambda _, context: context.send("log", b"line", key=b"k"), record(0))
        assert given.outputs == [(0, [Copy("log", None, b"k", b"line", [])])]

    def test_a_failure_drops_them(self) -> None:
        """Half-done outputs never leak."""

        def handle(_: Record, context: Context) -> None:
            context.send("log", b"half")
            raise ValueError

        given = run(handle, record(0))
        assert given.outputs == []
        assert only_failure(given).kind is FailureKind.RAISED

    def test_what_cannot_be_encoded_is_a_failure_of_the_record(self) -> None:
        """And drops what could be."""

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
    def test_what_the_client_would_choke_on_is_a_failure_of_the_record(
        self, emit: dict[str, Any], problem: str
    ) -> None:
        """Found here it costs one record; found by the client it ends the process, some of it without a word."""
        given = run(lambda _, context: context.send(**emit), record(0))
        failure = only_failure(given)
        assert failure.kind is FailureKind.RAISED
        assert problem in failure.message

    def test_an_encoder_out_of_memory_is_critical(self) -> None:
        """As in the handler."""
        fussy = Fussy(MemoryError())
        given = run(lambda _, context: context.send("t", 1), record(0), outputs={"t": (RawCodec(), fussy)})
        assert given.failures[-1][1].kind is FailureKind.CRITICAL

    def test_an_encoders_exception_can_be_not_retryable_too(self) -> None:
        """What a handler emits is part of handling the record."""
        given = run(
            lambda _, context: context.send("t", "text"),
            record(0),
            outputs={"t": (RawCodec(), RawCodec())},
            not_retryable=(Exception,),
        )
        assert only_failure(given).kind is FailureKind.REJECTED
