"""`--where` selects the same letters from the index as from the letters themselves."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from kafka_redelivery.consumers.errors import SlowQueryError
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import Selection, letter_of
from kafka_redelivery.dead_letters.meant import meant
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.standing import Standing
from kafka_redelivery.dead_letters.where.errors import ExpressionError
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.topology.config.loading import load_settings
from tests.examples import share
from tests.pipeline.where_expressions import JSONS, TEXTS, conditions
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import TOPIC, published
from tests.unit.dead_letters.index.test_selecting import opened

_SETTINGS = load_settings(
    json.dumps({"group": "billing", "kafka": {"bootstrap.servers": "localhost:1"}, "sources": [{"topic": "orders"}]})
)


def _letter(number: int) -> Fetched:
    text = TEXTS[number % len(TEXTS)]
    other = TEXTS[(number * 7 + 3) % len(TEXTS)]
    cause = {"reason": text if number % 3 else "", "exception": other, "message": text}
    headers: list[tuple[str, bytes | None]] = [
        *([("_AMQ_ORIG_ADDRESS", other.encode())] if number % 4 else []),
        ("_AMQ_ORIG_QUEUE", b"billing"),
        ("JMSXDeliveryCount", b"%d" % number if number % 5 else b"many"),
        *([("JMSExpiration", b"%d" % (NOW + number))] if number % 2 else []),
        ("dlqDeliveryFailureCause", json.dumps(cause).encode()),
        ("h", None if number % 5 == 0 else text.encode()),
        ("n", b"\xff" if number % 7 == 0 else b"5"),
    ]
    value = JSONS[number % len(JSONS)].encode() if number % 6 else None if number % 4 else b"\xff"
    return Fetched(TOPIC, 0, number, text.encode() if number % 3 else None, value, headers, NOW + number * 1000)


LETTERS = [_letter(number) for number in range(120)]
FOUND = [
    StoredLetter(
        letter_of(TOPIC, each.number, each.place, each.stamp_ms, each.key_bytes, each.pairs or []),
        Standing(),
        cast("Any", each),
    )
    for each in LETTERS
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the letters."""
    return opened(published(tmp_path_factory.mktemp("index") / "billing", LETTERS))


def _read(selection: Selection) -> list[str]:
    return [each.letter.id for each in meant(FOUND, selection, _SETTINGS, Path())]


@settings(deadline=None, max_examples=share(60), suppress_health_check=list(HealthCheck))
@given(text=conditions(3))
def test_index_and_letters_agree(index: Index, text: str) -> None:
    """Otherwise `list` would show other letters than `redrive` sends."""
    try:
        selection = Selection(where=Where.of(text, NOW + 30_000))
    except ExpressionError as error:
        assert "bytes" in error.problem  # noqa: PT017 - the only fault that they may have
        return
    condition = index.needed_condition(selection)
    assert [row.id for row in index.select(condition.sql, condition.parameters)] == _read(selection)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attempts between 1 and 3", ["1", "2", "3"]),
        ("offset < 2 and state = 'waiting' and job is null and sends = 0", ["0", "1"]),
        ("died - now() = interval '7 seconds'", ["7"]),
        ("headers['h'] is null and headers['n'] = '5' and offset < 10", ["5"]),
    ],
)
def test_what_is_selected(text: str, expected: list[str]) -> None:
    """Among the letters that were read."""
    assert [each.partition("@")[2] for each in _read(Selection(where=Where.of(text, NOW)))] == expected


def test_all_that_is_given_has_to_be_met() -> None:
    """The other options, too."""
    both = Selection(where=Where.of("offset >= 6", NOW), ids=frozenset({f"{TOPIC}-0@5", f"{TOPIC}-0@6"}))
    assert _read(both) == [f"{TOPIC}-0@6"]


def _with_headers(*headers: Mapping[str, bytes | None]) -> list[StoredLetter]:
    messages = [Fetched(TOPIC, 0, number, None, b"{}", list(each.items()), NOW) for number, each in enumerate(headers)]
    return [
        StoredLetter(letter_of(TOPIC, 0, each.place, NOW, None, each.pairs or []), Standing(), cast("Any", each))
        for each in messages
    ]


@pytest.mark.parametrize(
    "headers",
    [{"key": b"a", "value": b"b"}, {"": b"x"}, {"": b"x", "n": b"1"}, {"KEY": b"a", "key": b"b"}, {"a\0": None}, {}],
    ids=["key and value", "no name", "one without a name", "upper case", "zero byte", "none"],
)
def test_any_names_of_headers(headers: dict[str, bytes | None]) -> None:
    """Each producer of the source chooses them; DuckDB gives some of them a meaning in a dict."""
    found = _with_headers(headers, {"n": b"5"}, headers)
    where = Where.of("headers['n'] = '5' or headers['key'] in ('a', 'b')", NOW)
    chosen = [each.letter.offset for each in meant(found, Selection(where=where), _SETTINGS, Path())]
    assert chosen == ([0, 1, 2] if "key" in headers else [1])


def test_letters_with_headers_of_their_own() -> None:
    """Such as a name with an id in it: memory and time do not grow with the names of all of them."""
    found = _with_headers(*({f"trace-{number}": b"1", f"span-{number}": b"2"} for number in range(1500)))
    where = Where.of("headers['trace-7'] = '1'", NOW)
    assert [each.letter.offset for each in meant(found, Selection(where=where), _SETTINGS, Path(), limit_s=30)] == [7]


def test_constants_are_not_in_the_journal() -> None:
    """They may be personal data; the names of the columns say what was asked."""
    where = Where.of("value ->> '$.customer' = 'Jane Doe' and headers['tenant'] = 'x'", NOW)
    assert Selection(where=where).document() == {"where": ["headers", "value"]}
    assert Selection(where=Where.of("1 = 1", NOW)).document() == {"where": ["no column"]}


def test_a_slow_condition_is_ended() -> None:
    """With an error that says what to do."""
    slow = Selection(where=Where.of(" and ".join(["lower('Ä' || id || id) <> upper(id)"] * 35), NOW))
    with pytest.raises(SlowQueryError, match=r"takes longer than 0\.05 s; make --where simpler"):
        list(meant(FOUND * 20, slow, _SETTINGS, Path(), limit_s=0.05))
