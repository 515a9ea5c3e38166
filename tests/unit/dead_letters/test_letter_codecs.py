"""The codecs of a source are made once for all letters of a page or command."""

from pathlib import Path

import pytest

from kafka_redelivery.dead_letters import decoding
from kafka_redelivery.dead_letters.decoding import Decoded, LetterCodecs
from kafka_redelivery.dead_letters.letter import letter_of
from kafka_redelivery.serdes.codec import Codec, JsonCodec, StringCodec
from tests.unit.dead_letters.test_listed_and_sent import SETTINGS


def test_the_codecs_of_a_source_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of a source that is not configured have none."""
    made: list[tuple[Codec, Codec]] = []

    def codecs(*_: object) -> tuple[Codec, Codec]:
        made.append((StringCodec(), JsonCodec()))
        return made[-1]

    monkeypatch.setattr(decoding, "codecs", codecs)
    found = LetterCodecs(SETTINGS, Path())
    for offset, origin in enumerate([b"orders", b"orders", b"payments"]):
        letter = letter_of("DLQ", 0, offset, 1, b"key", [("_AMQ_ORIG_ADDRESS", origin)])
        assert found.decoded(letter, b"17")[1] == (
            Decoded("raw", "17") if origin == b"payments" else Decoded("json", 17)
        )
    assert len(made) == 1
