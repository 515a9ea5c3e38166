"""The index reads from a record what `letter_of` reads."""

import json
import re
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.index.rows import table_of
from kafka_redelivery.dead_letters.index.store import run
from kafka_redelivery.dead_letters.letter import letter_of
from kafka_redelivery.topology.policy.fingerprint import normalise
from kafka_redelivery.topology.wire.headers import HeaderList
from tests.unit.consumers.records import Fetched
from tests.unit.dead_letters.index.stored import TOPIC, batch_of, rows_of

_NAMES = (
    "_AMQ_ORIG_ADDRESS",
    "_AMQ_ORIG_QUEUE",
    "_AMQ_ORIG_MESSAGE_ID",
    "JMSTimestamp",
    "JMSXDeliveryCount",
    "JMSExpiration",
    "_AMQ_ACTUAL_EXPIRY",
    "redrive",
    "traceparent",
)
_codes = st.builds(
    str.format,
    st.sampled_from(
        ["HTTP/1.1 {}", "{} Client Error", "Server error '{} No'", "{}, message='No'", "status_code={}", "error {}"]
    ),
    st.integers(399, 405),
)
_texts = st.one_of(
    st.text(max_size=12), _codes, st.sampled_from(['order 17 has no "x"', "2026-01-02T03:04:05Z", "a'b'c 4"])
)
_bytes = st.one_of(st.none(), st.binary(max_size=12), _texts.map(lambda text: text.encode(errors="replace")))
_numbers = st.one_of(_bytes, st.integers(0, 10**20).map(lambda number: b"%d" % number), st.just(b"ab12/1@7/3"))
_causes = st.one_of(
    _bytes,
    st.dictionaries(
        st.sampled_from(["reason", "exception", "message", "more"]), st.one_of(st.none(), _texts, st.integers(0, 5))
    ).map(lambda cause: json.dumps(cause, separators=(",", ":")).encode()),
    st.tuples(_texts, _texts, _texts).map(
        lambda each: json.dumps(
            dict(zip(("reason", "exception", "message"), each, strict=True)), separators=(",", ":"), ensure_ascii=False
        ).encode(errors="replace")
    ),
    st.just(b'{"reason":"a","exception":"\\ud800","message":"\\u0000"}'),
    st.just(b'{"reason":"expired","exception":"","message":""}'),
    st.tuples(_texts, _texts, st.lists(st.one_of(_texts, st.sampled_from(["a.b1:7", "a.b2:7"])), max_size=3)).map(
        lambda each: json.dumps(
            {"reason": "r", "exception": each[0], "message": each[1], "frames": each[2]}, separators=(",", ":")
        ).encode()
    ),
    st.tuples(_codes, st.sampled_from(['"a.b:7"', ""])).map(
        lambda each: f'{{"reason":"r","exception":"E","message":"{each[0]}","frames":[{each[1]}]}}'.encode()
    ),
)
_headers = st.lists(
    st.one_of(st.tuples(st.sampled_from(_NAMES), _numbers), st.tuples(st.just("dlqDeliveryFailureCause"), _causes)),
    max_size=9,
)


@given(st.lists(st.tuples(_headers, _bytes, _bytes, st.integers(-1, 2**62)), min_size=1, max_size=4))
def test_rows_equal_letters(given_letters: list[tuple[HeaderList, bytes | None, bytes | None, int]]) -> None:
    """Whatever headers, keys and values are."""
    messages = [
        Fetched(TOPIC, number % 2, number, key, value, headers, stamp_ms)
        for number, (headers, key, value, stamp_ms) in enumerate(given_letters)
    ]
    for message, row in zip(messages, _rows(messages), strict=True):
        headers = message.pairs or []
        place = message.source, message.number, message.place
        letter = letter_of(*place, message.stamp_ms, message.key_bytes, headers)
        assert row["slot"] == message.number
        assert (row["offset"], row["died_ms"]) == (letter.offset, letter.died_ms)
        assert (row["group"] or "", row["origin"] or "", row["source_id"] or "", row["deliveries"] or "") == (
            letter.group,
            letter.origin,
            letter.source_id,
            letter.deliveries,
        )
        reason, exception, text = (
            each.encode(errors="replace").decode() for each in (letter.reason, letter.exception, letter.message)
        )
        assert (row["reason"] or "", row["exception"] or "", row["message"] or "") == (reason, exception, text)
        assert (row["fingerprint"] or "") == letter.fingerprint
        assert (row["place"] or "") == (letter.place or "").encode(errors="replace").decode()
        assert row["expiration_ms"] == min(letter.expiration_ms, 2**63 - 1)
        assert row["redrives"] == (letter.mark.number if letter.mark else 0)
        assert (row["key"].encode() if row["raw_key"] is None and row["key"] is not None else row["raw_key"]) == (
            message.key_bytes
        )
        assert row["size"] == (None if message.value_bytes is None else len(message.value_bytes))
        assert row["value"] == _utf8(message.value_bytes)
        others = {name: value for name, value in letter.headers.items() if name in {"traceparent", "redrive"}}
        stored = dict(zip(row["header_names"], row["header_values"], strict=True))
        assert {name: stored[name] for name in others} == {name: _utf8(value) for name, value in others.items()}


@pytest.mark.parametrize(
    ("deliveries", "attempts"), [(b"4", 4), (b"0", 0), (b"x", None), (b"9999999999", None), (None, None)]
)
def test_attempts_are_a_number_or_unknown(deliveries: bytes | None, attempts: int | None) -> None:
    """A header that another program wrote may be anything."""
    assert _rows([Fetched(TOPIC, 0, 0, pairs=[("JMSXDeliveryCount", deliveries)])])[0]["attempts"] == attempts


@given(_texts.filter(lambda text: not re.search("http|status|response| error|, message=", text, re.IGNORECASE)))
def test_digits_do_not_matter_to_the_normal_form(text: str) -> None:
    """Without a code they do not, so it is computed once for all messages that differ in digits."""
    assert normalise(text) == normalise(text.translate({ord(digit): "0" for digit in "123456789"}))


def _rows(messages: list[Fetched]) -> list[dict[str, Any]]:
    table = table_of(rows_of().columns(batch_of(messages)))
    opened = duckdb.connect()
    opened.register("batch", table)
    found = run(opened, "FROM batch")
    return [dict(zip(table.column_names, row, strict=True)) for row in found]


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
