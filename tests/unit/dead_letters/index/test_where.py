"""`--where` selects the letters that it describes."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.dead_letters.index.files import Manifest
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.refresh import Question
from kafka_redelivery.dead_letters.index.rows import table_of
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.where.columns import COLUMNS, ColumnKind
from kafka_redelivery.dead_letters.where.grammar import ExpressionError
from kafka_redelivery.dead_letters.where.where import Where
from tests.examples import share
from tests.pipeline.where_expressions import JSONS, TEXTS, conditions
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, SLOTS, TOPIC, batch_of, published, rows_of
from tests.unit.dead_letters.index.test_selecting import opened

DAMAGED = (b"many", b" 3", b"3\n", b"-2", b"+2", b"2.0", b"1e1", b"", b"1234567890", b"9" * 19, b"\xd9\xa3", b"\xff")
"""What other programs may write into headers of numbers."""


def _letter(number: int) -> Fetched:
    text = TEXTS[number % len(TEXTS)]
    other = TEXTS[(number * 7 + 3) % len(TEXTS)]
    reason = "expired" if number % 16 == 0 else text if number % 3 else ""
    cause = {"reason": reason, "exception": other, "message": text}
    headers: list[tuple[str, bytes | None]] = [
        *([("_AMQ_ORIG_ADDRESS", other.encode())] if number % 4 else []),
        ("_AMQ_ORIG_QUEUE", b"billing"),
        ("JMSXDeliveryCount", b"%d" % number if number % 5 else DAMAGED[number // 5 % len(DAMAGED)]),
        *([("JMSExpiration", b"%d" % (NOW + number))] if number % 2 else []),
        *([("JMSExpiration", DAMAGED[number // 3 % len(DAMAGED)])] if number % 3 == 0 else []),
        *([("_AMQ_ACTUAL_EXPIRY", b"%d" % (NOW + number))] if number % 8 == 0 else []),
        *([("_AMQ_ACTUAL_EXPIRY", b"%d" % (NOW - number))] if number % 32 == 0 else []),
        ("dlqDeliveryFailureCause", json.dumps(cause).encode()),
        ("h", None if number % 5 == 0 else text.encode()),
        ("n", b"\xff" if number % 7 == 0 else b"5"),
    ]
    value = JSONS[number % len(JSONS)].encode() if number % 6 else None if number % 4 else b"\xff"
    return Fetched(TOPIC, 0, number, text.encode() if number % 3 else None, value, headers, NOW + number * 1000)


LETTERS = [_letter(number) for number in range(120)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the letters."""
    return opened(published(tmp_path_factory.mktemp("index") / "billing", LETTERS))


_ASKED = replace(BASIS, values=False, question=True)
_TABLE = table_of(rows_of(_ASKED).columns(batch_of(LETTERS)))


def _chosen(index: Index, where: Where, limit_s: float = 60.0) -> list[str]:
    selection = Selection(where=where)
    condition = index.condition(selection)
    return [row.id for row in index.select(condition.sql, condition.parameters, within_s=limit_s)]


@settings(deadline=None, max_examples=share(60), suppress_health_check=list(HealthCheck))
@given(text=conditions(3))
def test_what_is_not_kept_is_answered_alike(index: Index, text: str) -> None:
    """While letters are read, about their contents: otherwise the answer would depend on what the index keeps."""
    try:
        where = Where.of(text, NOW + 30_000)
    except ExpressionError as error:
        assert "bytes" in error.problem  # noqa: PT017 - the only fault that they may have
        return
    wanted = Selection(where=where)
    if index.can_select(wanted):
        question = Question(wanted, _ASKED)
        found = question.chosen(index.path, Manifest(basis=_ASKED, slots=SLOTS), _TABLE, NOW)
        assert _chosen(index, where) == [f"{TOPIC}-{slot}@{offset}" for slot, offset in sorted(found)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attempts between 1 and 3", ["1", "2", "3"]),
        ("offset < 2 and state = 'waiting' and job is null and sends = 0", ["0", "1"]),
        ("died - now() = interval '7 seconds'", ["7"]),
        ("headers['h'] is null and headers['n'] = '5' and offset < 10", ["5"]),
    ],
)
def test_what_is_selected(index: Index, text: str, expected: list[str]) -> None:
    """Among the letters."""
    assert [each.partition("@")[2] for each in _chosen(index, Where.of(text, NOW))] == expected


def test_all_that_is_given_has_to_be_met(index: Index) -> None:
    """The other options, too."""
    both = Selection(where=Where.of("offset >= 6", NOW), ids=frozenset({f"{TOPIC}-0@5", f"{TOPIC}-0@6"}))
    condition = index.condition(both)
    assert [row.id for row in index.select(condition.sql, condition.parameters)] == [f"{TOPIC}-0@6"]


def _among(folder: Path, where: Where, *headers: Mapping[str, bytes | None]) -> list[int]:
    """Return the numbers of the letters with these headers that a condition selects."""
    letters = [Fetched(TOPIC, 0, number, None, b"{}", list(each.items()), NOW) for number, each in enumerate(headers)]
    with closing(opened(published(folder / "billing", letters))) as index:
        return [int(each.partition("@")[2]) for each in _chosen(index, where, limit_s=30)]


@pytest.mark.parametrize(
    "headers",
    [{"key": b"a", "value": b"b"}, {"": b"x"}, {"": b"x", "n": b"1"}, {"KEY": b"a", "key": b"b"}, {"a\0": None}, {}],
    ids=["key and value", "no name", "one without a name", "upper case", "zero byte", "none"],
)
def test_any_names_of_headers(tmp_path: Path, headers: dict[str, bytes | None]) -> None:
    """Each producer of the source chooses them; DuckDB gives some of them a meaning in a dict."""
    where = Where.of("headers['n'] = '5' or headers['key'] in ('a', 'b')", NOW)
    chosen = _among(tmp_path, where, headers, {"n": b"5"}, headers)
    assert chosen == ([0, 1, 2] if "key" in headers else [1])


def test_letters_with_headers_of_their_own(tmp_path: Path) -> None:
    """Such as a name with an id in it: memory and time do not grow with the names of all of them."""
    own = ({f"trace-{number}": b"1", f"span-{number}": b"2"} for number in range(1500))
    assert _among(tmp_path, Where.of("headers['trace-7'] = '1'", NOW), *own) == [7]


def test_every_column_is_in_the_index(index: Index) -> None:
    """With the type of the language. What contents say is not there without them."""
    said = dict(index.rows("SELECT column_name, column_type FROM (DESCRIBE letters)"))
    types = {
        ColumnKind.TEXT: {"VARCHAR"},
        ColumnKind.TIMESTAMP: {"TIMESTAMP"},
        ColumnKind.MAP: {"MAP(VARCHAR, VARCHAR)"},
    }
    for column in COLUMNS:
        assert said[column.name] in types.get(column.kind, {"INTEGER", "BIGINT"}), column.name
    blind = opened(index._folder, replace(BASIS, values=False))
    for column in COLUMNS:
        name = "headers['n']" if column.kind is ColumnKind.MAP else column.name
        wanted = Selection(where=Where.of(f"{name} is null", NOW))
        assert blind.can_select(wanted) is not column.of_content, column.name


def test_constants_are_not_in_the_journal() -> None:
    """They may be personal data; the names of the columns say what was asked."""
    where = Where.of("value ->> '$.customer' = 'Jane Doe' and headers['tenant'] = 'x'", NOW)
    assert Selection(where=where).document() == {"where": ["headers", "value"]}
    assert Selection(where=Where.of("1 = 1", NOW)).document() == {"where": ["no column"]}


def test_a_slow_condition_is_ended(index: Index) -> None:
    """With an error that says what to do. This one takes minutes on any machine."""
    pairs = "SELECT count(*) FROM range(1_000_000) a, range(100_000) b WHERE hash(a.range, b.range) = 0"
    with pytest.raises(ConsumersError, match=r"takes longer than 0\.01 s; make --where simpler"):
        index.select(f"({pairs}) = 0", within_s=0.01)
