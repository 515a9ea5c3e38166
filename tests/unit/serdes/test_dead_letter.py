from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.dead_letter import (
    DeadLetter,
    Failure,
    Origin,
    Position,
    as_avro,
    dead_letter_schema,
    from_avro,
    read_dead_letters,
    write_dead_letters,
)
from kafka_redelivery.serdes.errors import DecodeError, EncodeError
from kafka_redelivery.serdes.schemas import LocalSchemas

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.builds(Position, topic=st.text(), partition=INT32, offset=INT64)
LETTERS = st.builds(
    DeadLetter,
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple),
    position=POSITIONS,
    dead_lettered_at_ms=INT64,
    origin=st.none() | st.builds(Origin, position=POSITIONS, address=st.text(), queue=st.text(), message_id=st.text()),
    original_timestamp_ms=st.none() | INT64,
    delivery_count=st.none() | INT32,
    expiration_ms=st.none() | INT64,
    original_expiration_ms=st.none() | INT64,
    actual_expiry_ms=st.none() | INT64,
    failure=st.none()
    | st.builds(Failure, reason=st.text(), exception_class=st.none() | st.text(), message=st.none() | st.text()),
)
LETTER = DeadLetter(b"key", None, (), Position("DLQ.orders", 2, 40), 1_700_000_000_000)


@given(letters=st.lists(LETTERS, max_size=3))
def test_letters_come_back_from_a_file_exactly(letters: list[DeadLetter]) -> None:
    """Bytes, nulls, empty values, repeated headers and all numbers survive an archive, in their order."""
    file = io.BytesIO()
    write_dead_letters(file, letters)
    file.seek(0)
    assert list(read_dead_letters(file)) == letters


@given(letter=LETTERS)
def test_a_letter_is_a_value_of_its_schema(letter: DeadLetter) -> None:
    """The envelope can also travel as a record on a topic, with a schema id."""
    codec = AvroCodec(LocalSchemas({1: dead_letter_schema().definition}), write_id=1)
    assert from_avro(codec.decode(codec.encode(as_avro(letter)))) == letter


def test_the_schema_and_the_class_have_the_same_fields() -> None:
    """What the file declares is what the class holds, in the same order."""
    definition = dead_letter_schema().definition
    assert isinstance(definition, dict)
    assert [field["name"] for field in definition["fields"]] == list(as_avro(LETTER))
    assert dead_letter_schema().name == "kafka_redelivery.DeadLetter"


def test_a_file_carries_its_schema() -> None:
    """Any Avro reader opens an archive without this project."""
    file = io.BytesIO()
    write_dead_letters(file, [LETTER])
    file.seek(0)
    reader: Any = fastavro.reader(file)
    assert next(reader)["position"] == {"topic": "DLQ.orders", "partition": 2, "offset": 40}
    assert reader.metadata["avro.codec"] == "deflate"


def test_an_older_file_is_read_with_defaults() -> None:
    """A field that an archive does not have yet is what its headers did not say."""
    definition = dead_letter_schema().definition
    assert isinstance(definition, dict)
    older = {**definition, "fields": [field for field in definition["fields"] if "default" not in field]}
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(older), [as_avro(LETTER)])
    file.seek(0)
    assert list(read_dead_letters(file)) == [LETTER]


@pytest.mark.parametrize("size", [0, 3, 40, -20, -1])
def test_a_damaged_file_is_told_after_what_could_be_read(size: int) -> None:
    """A file that is none, or that was cut off, raises DecodeError and nothing else."""
    file = io.BytesIO()
    write_dead_letters(file, [LETTER] * 3)
    with pytest.raises(DecodeError):
        list(read_dead_letters(io.BytesIO(file.getvalue()[:size])))


@pytest.mark.parametrize(
    "letter",
    [
        DeadLetter(b"", b"", (), Position("t", 2**31, 0), 0),
        DeadLetter(b"", b"", (), Position("t", 0, 2**63), 0),
        DeadLetter("key", b"", (), Position("t", 0, 0), 0),  # type: ignore[arg-type]
        DeadLetter(b"", b"", (), Position("t", 0, 0), 0, delivery_count="3"),  # type: ignore[arg-type]
        DeadLetter(b"", b"", (("name", "text"),), Position("t", 0, 0), 0),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_letter_that_does_not_fit_is_refused(letter: DeadLetter) -> None:
    """An archive never holds a number cut short or text in place of bytes."""
    with pytest.raises(EncodeError):
        write_dead_letters(io.BytesIO(), [letter])


@pytest.mark.parametrize(
    "value",
    [{}, {**as_avro(LETTER), "more": 1}, {**as_avro(LETTER), "position": {"topic": "t"}}],
    ids=["empty", "more", "less"],
)
def test_a_value_of_another_shape_is_no_letter(value: dict[str, Any]) -> None:
    """What is not an envelope is told, not guessed."""
    with pytest.raises(DecodeError):
        from_avro(value)
