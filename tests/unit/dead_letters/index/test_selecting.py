"""The index selects the letters that a selection means, and summarises what is there."""

import json
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.consumers.errors import ConsumersError, IndexUnusableError, RedriveError
from kafka_redelivery.dead_letters.index.files import Basis, IndexFolder
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import By, LetterState, Selection, Standing, letter_of
from tests.examples import share
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, TOPIC, published
from tests.unit.dead_letters.model import matches

_ORIGINS = ("orders", "orders.eu", "pay[1]ments", "")
_EXCEPTIONS = ("ConnectionError", "KeyError", "", "a*b")
_KEYS = (None, b"", b"k1", b"k2", b"\xff")


def _letter(number: int) -> Fetched:
    origin, exception = _ORIGINS[number % 4], _EXCEPTIONS[number // 2 % 4]
    cause = {"reason": "rejected" if number % 3 else "", "exception": exception, "message": f"no {number % 2}"}
    headers: list[tuple[str, bytes | None]] = [
        ("_AMQ_ORIG_ADDRESS", origin.encode()),
        ("_AMQ_ORIG_QUEUE", b"billing"),
        ("_AMQ_ORIG_MESSAGE_ID", f"orders-0@{number + 100}".encode()),
        ("dlqDeliveryFailureCause", json.dumps(cause).encode()),
        *([("tenant", None if number % 5 == 0 else b"t%d" % (number % 2))] if number % 3 else []),
    ]
    key = _KEYS[number % len(_KEYS)]
    return Fetched(TOPIC, number % 2, number, key, b'{"n":%d}' % number, headers, NOW + number * 1000)


LETTERS = [_letter(number) for number in range(60)]

_wildcards = ("*", "order?", "order*", "pay[[]*", "[!o]*", "rejected", "Conn*")
_patterns = st.lists(st.sampled_from([*_ORIGINS, *_EXCEPTIONS, *_wildcards]), max_size=2).map(tuple)
_fingerprints = [letter_of("t", 0, 0, 0, None, each.pairs or []).fingerprint for each in LETTERS[:8]]
_names = st.sampled_from(["tenant", "_AMQ_ORIG_ADDRESS", "none"])
_selections = st.builds(
    Selection,
    origins=_patterns,
    reasons=_patterns,
    exceptions=_patterns,
    fingerprints=st.lists(st.sampled_from(_fingerprints), max_size=2).map(tuple),
    keys=st.lists(st.sampled_from(["k1", "k2", "", "other"]), max_size=2).map(tuple),
    headers=st.lists(st.tuples(_names, st.sampled_from(["t0", "t1", "", "orders"])), max_size=1).map(tuple),
    since_ms=st.one_of(st.none(), st.integers(NOW, NOW + 60_000)),
    until_ms=st.one_of(st.none(), st.integers(NOW, NOW + 60_000)),
    states=st.sampled_from([(), (LetterState.WAITING,), (LetterState.SENT, LetterState.WAITING), (LetterState.SENT,)]),
    ids=st.sampled_from([frozenset(), frozenset({f"{TOPIC}-0@4", "orders-0@105"})]),
)


class Offline(Index):
    """An index that is published already, so Kafka is not asked."""

    def refresh(self, *_: object, **__: object) -> None:
        raise AssertionError("the published index is enough")


def opened(folder: IndexFolder, basis: Basis = BASIS) -> Index:
    """Open a published index."""
    return Offline(cast("Any", SimpleNamespace(group="billing")), basis, folder, lambda: NOW + 60_000)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the letters."""
    return opened(published(tmp_path_factory.mktemp("index") / "billing", LETTERS))


@settings(deadline=None, max_examples=share(80))
@given(selection=_selections)
def test_a_condition_selects_what_a_selection_does(index: Index, selection: Selection) -> None:
    """Patterns, headers and all; what no header says is empty."""
    expected = {
        f"{TOPIC}-{each.number}@{each.place}"
        for each in LETTERS
        if matches(
            selection,
            letter_of(TOPIC, each.number, each.place, each.stamp_ms, each.key_bytes, each.pairs or []),
            Standing(),
        )
    }
    condition = index.condition(selection)
    assert {row.id for row in index.select(condition.sql, condition.parameters)} == expected


@pytest.mark.parametrize("selection", [Selection(keys=("a\ufffd",)), Selection(headers=(("tenant", "\ufffd"),))])
def test_what_stands_for_no_text_is_refused(index: Index, selection: Selection) -> None:
    """A list shows it in place of bytes, and several keys may look like that: the error names another way."""
    with pytest.raises(RedriveError, match="name such letters with --id"):
        index.condition(selection)


def test_a_summary_counts_by_kind(index: Index) -> None:
    """Every letter is in one kind, in one state and in one part of the trend."""
    found = index.summary((By.ORIGIN,))
    assert found.letters == 60
    assert {row.kind[By.ORIGIN]: row.letters for row in found.rows} == dict.fromkeys(_ORIGINS, 15)
    for row in found.rows:
        assert sum(row.trend) == row.letters
        assert row.states == {"waiting": row.letters}
    assert min(row.first_ms for row in found.rows) == found.from_ms == NOW
    assert max(row.last_ms for row in found.rows) == NOW + 59_000


def test_a_summary_counts_distinct_texts(index: Index) -> None:
    """The most frequent first, and how many there are."""
    for row in index.summary((By.EXCEPTION,), texts=1).rows:
        [(text, letters)] = row.texts
        assert (row.distinct, text[:3]) == (2, "no ")
        assert row.letters / 2 <= letters < row.letters
    assert {row.texts for row in index.summary((By.EXCEPTION,)).rows} == {()}


def test_kinds_that_are_new(index: Index) -> None:
    """Of a kind that is not new no letter counts, also none that died since."""
    found = index.summary((By.ORIGIN,))
    newest = max(row.first_ms for row in found.rows)
    new = found.new_since(newest)
    assert (len(new.rows), new.letters) == (1, 15)
    assert found.new_since(newest + 1).rows == []


@pytest.mark.parametrize("selection", [Selection(since_ms=NOW + 30_000), Selection(ids=frozenset({f"{TOPIC}-0@40"}))])
def test_a_kind_is_not_new_because_a_selection_leaves_out_its_first_letters(index: Index, selection: Selection) -> None:
    """Its first letter counts, whatever is selected."""
    found = index.summary((By.ORIGIN,), index.condition(selection))
    born = {row.kind[By.ORIGIN]: row.first_ms for row in index.summary((By.ORIGIN,)).rows}
    assert all(row.first_ms >= NOW + 30_000 for row in found.rows)
    assert {row.kind[By.ORIGIN]: row.born_ms for row in found.rows}.items() <= born.items()
    assert found.new_since(NOW + 30_000).rows == []


def test_rows_are_ordered_and_limited(index: Index) -> None:
    """By the time of death, unless another order is given."""
    assert [row.died_ms for row in index.select(limit=3)] == [NOW, NOW + 1000, NOW + 2000]
    assert [row.died_ms for row in index.select(order="died DESC", limit=1)] == [NOW + 59_000]


def test_values_are_text_and_headers_have_all_names(index: Index) -> None:
    """What --where sees; the failure has columns of its own."""
    (row,) = index.rows('SELECT value, headers, died, key FROM letters WHERE "offset" = 7')
    assert row[0] == '{"n":7}'
    assert row[1] == {
        "_AMQ_ORIG_ADDRESS": "",
        "_AMQ_ORIG_QUEUE": "billing",
        "_AMQ_ORIG_MESSAGE_ID": "orders-0@107",
        "JMSXDeliveryCount": None,
        "tenant": "t1",
    }
    assert row[2].replace(tzinfo=UTC).timestamp() * 1000 == NOW + 7000
    assert row[3] == "k1"


def test_without_values_no_payload_is_on_the_disk(tmp_path: Path) -> None:
    """Keys, header values and values; selecting by them needs the topics."""
    basis = Basis(version=BASIS.version, cluster="c", group="billing", values=False, class_only=False)
    secret = Fetched(TOPIC, 0, 0, b"secret key", b"secret value", [("tenant", b"secret header")], NOW)
    folder = published(tmp_path / "billing", [secret], basis)
    assert not any(b"secret" in each.read_bytes() for each in folder.path.iterdir())
    index = opened(folder, basis)
    row = (None, None, None, None, 12)
    assert index.rows("SELECT key, raw_key, value, headers['tenant'], size FROM letters") == [row]
    assert not index.can_select(Selection(keys=("secret key",)))
    with pytest.raises(IndexUnusableError, match=r"deadLetters\.index\.values"):
        index.condition(Selection(headers=(("tenant", "x"),)))


def test_no_expression_reads_another_file(index: Index, tmp_path: Path) -> None:
    """Should a condition get through that reads files, the engine refuses."""
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(Exception, match="Permission"):
        index.rows("FROM read_csv(?)", (str(other),))
    with pytest.raises(Exception, match="lock"):
        index.rows("SET enable_external_access = true")


def test_a_slow_query_is_ended(index: Index) -> None:
    """After the time that its caller gives."""
    with pytest.raises(ConsumersError, match=r"takes longer than 0\.5 s; make --where simpler"):
        index.rows("SELECT count(*) FROM range(100000000000) a, letters", within_s=0.5)
    assert index.rows("SELECT count(*) FROM letters") == [(60,)]
