from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import DecodeCode, DecodeError, EncodeCode, EncodeError

CODECS: list[Codec] = [RawCodec(), StringCodec(), JsonCodec()]
JSON_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(st.text(), inner | st.none()),
    max_leaves=20,
)


def _error_of(codec: Codec, data: bytes) -> DecodeError | None:
    try:
        codec.decode(data)
    except DecodeError as error:
        return error
    return None


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_tombstone_passes_through_both_ways(codec: Codec) -> None:
    """A null key or value is no value of the format, but the absence of one."""
    assert codec.decode(None) is None
    assert codec.encode(None) is None


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(data=st.binary())
def test_nothing_but_a_decode_error_speaks_of_bytes(codec: Codec, data: bytes) -> None:
    """Whatever the bytes are, they decode or raise DecodeError with a code and the codec's name."""
    error = _error_of(codec, data)
    assert error is None or (error.codec == codec.name and error.code in DecodeCode)


@given(data=st.binary())
def test_raw_bytes_are_untouched(data: bytes) -> None:
    """Raw keeps every byte, and takes anything bytes-like to write."""
    assert RawCodec().decode(data) == data
    assert RawCodec().encode(data) == RawCodec().encode(bytearray(data)) == RawCodec().encode(memoryview(data)) == data


@given(text=st.text())
def test_text_round_trips(text: str) -> None:
    """Every text that UTF-8 can hold comes back."""
    encoded = StringCodec().encode(text)
    assert encoded == text.encode()
    assert StringCodec().decode(encoded) == text


@given(value=JSON_VALUES)
def test_json_round_trips(value: object) -> None:
    """Every JSON value but the bare null comes back, and is written without spaces."""
    encoded = JsonCodec().encode(value)
    assert encoded is not None
    assert JsonCodec().decode(encoded) == value
    assert encoded == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("codec", "data", "code"),
    [
        (StringCodec(), b"\xff", DecodeCode.NOT_UTF8),
        (StringCodec(), b"\xed\xa0\x80", DecodeCode.NOT_UTF8),
        (JsonCodec(), b"\xff{}", DecodeCode.NOT_UTF8),
        (JsonCodec(), "{}".encode("utf-16"), DecodeCode.NOT_UTF8),
        (JsonCodec(), "{}".encode("utf-16-le"), DecodeCode.NOT_JSON),
        (JsonCodec(), b"\xef\xbb\xbf{}", DecodeCode.NOT_JSON),
        (JsonCodec(), b"", DecodeCode.NOT_JSON),
        (JsonCodec(), b"{", DecodeCode.NOT_JSON),
        (JsonCodec(), b"{} {}", DecodeCode.NOT_JSON),
        (JsonCodec(), b"NaN", DecodeCode.NOT_JSON),
        (JsonCodec(), b"[-Infinity]", DecodeCode.NOT_JSON),
        (JsonCodec(), b"9" * 5_000, DecodeCode.NOT_JSON),
        (JsonCodec(), b"[" * 100_000, DecodeCode.TOO_DEEP),
        (JsonCodec(), b'{"a":' * 100_000, DecodeCode.TOO_DEEP),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_bytes_are_told_by_their_code(codec: Codec, data: bytes, code: DecodeCode) -> None:
    """Each way of being undecodable has a code that machines can tell apart."""
    with pytest.raises(DecodeError) as caught:
        codec.decode(data)
    assert caught.value.code == code


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("codec", "value", "code"),
    [
        (RawCodec(), "text", EncodeCode.WRONG_TYPE),
        (StringCodec(), b"bytes", EncodeCode.WRONG_TYPE),
        (StringCodec(), "\ud800", EncodeCode.NOT_UTF8),
        (JsonCodec(), float("nan"), EncodeCode.NOT_JSON),
        (JsonCodec(), [float("inf")], EncodeCode.NOT_JSON),
        (JsonCodec(), {"at": object()}, EncodeCode.NOT_JSON),
        (JsonCodec(), b"bytes", EncodeCode.NOT_JSON),
        (JsonCodec(), _cycle(), EncodeCode.NOT_JSON),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_the_format_cannot_hold_is_refused(codec: Codec, value: object, code: EncodeCode) -> None:
    """Nothing is written in place of a value that cannot be."""
    with pytest.raises(EncodeError) as caught:
        codec.encode(value)
    assert caught.value.code == code


def test_json_null_reads_as_none_and_is_not_written() -> None:
    """None written is the tombstone; JSON's own null is only ever read."""
    assert JsonCodec().decode(b"null") is None
    assert JsonCodec().encode(None) is None


def test_text_is_written_as_itself_and_a_lone_surrogate_as_an_escape() -> None:
    """What could be read can be written back, and text costs no more bytes than its UTF-8."""
    assert JsonCodec().encode("é") == '"é"'.encode()
    assert JsonCodec().encode(JsonCodec().decode(b'"\\ud800"')) == b'"\\ud800"'
