"""Values with a schema are in the index as decoded JSON; one whose schema cannot be had waits."""

import json
from collections.abc import Container, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_redelivery.dead_letters import decoding
from kafka_redelivery.dead_letters.decoding import SchemaLackingError, ValueTexts
from kafka_redelivery.dead_letters.index.files import Basis, IndexFolder, Manifest
from kafka_redelivery.dead_letters.index.index import Index, _digest
from kafka_redelivery.dead_letters.index.refresh import Question, Refresh
from kafka_redelivery.dead_letters.index.rows import RowMaker, table_of
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import AvroSchema
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.errors import SchemaSourceUnavailable
from kafka_redelivery.serdes.framing import SchemaId
from kafka_redelivery.serdes.schemas import LocalSchemas
from kafka_redelivery.topology.config.settings import CodecSection, SerdeSection
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, SLOTS, TOPIC, batch_of, published
from tests.unit.dead_letters.index.test_selecting import opened

_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
_BASIS = replace(BASIS, decoded=(("orders", "as today"),))


class _Registry(LocalSchemas):
    """It has the schemas 1 to 8 and 12, refuses some, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((*range(1, 9), 12), _SCHEMA))
        self.refused: Container[SchemaId] = ()
        self.asked = list[SchemaId]()

    def by_id(self, schema_id: SchemaId) -> AvroSchema:
        """Return the schema, if it is not refused."""
        self.asked.append(schema_id)
        if schema_id in self.refused:
            raise SchemaSourceUnavailable("the registry", "no answer")
        return super().by_id(schema_id)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> _Registry:
    """A registry that all codecs ask."""
    found = _Registry()

    def codecs(*_: object) -> tuple[Codec, Codec]:
        return RawCodec(), AvroCodec(found)

    monkeypatch.setattr(decoding, "codecs", codecs)
    return found


def _value(amount: int, schema: int = 7) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + bytes([2 * amount])


def _letters(values: Sequence[bytes | None], origin: str = "orders", first: int = 0) -> list[Fetched]:
    headers: list[tuple[str, bytes | None]] = [("_AMQ_ORIG_ADDRESS", origin.encode()), ("_AMQ_ORIG_QUEUE", b"billing")]
    return [Fetched(TOPIC, 0, first + number, None, each, headers, NOW) for number, each in enumerate(values)]


def _texts() -> dict[str, ValueTexts]:
    return {"orders": ValueTexts(CodecSection(), Path())}


def _written(folder: IndexFolder, store: Store, letters: Sequence[Fetched], texts: dict[str, ValueTexts]) -> Manifest:
    rows = RowMaker({(each.topic, each.partition): each.number for each in SLOTS}, _BASIS, texts)
    file = store.write("letters", [table_of(rows.columns(batch_of(letters)))])
    found = Manifest(basis=_BASIS, next_slot=2, slots=SLOTS, letter_files=(file,), lacking=rows.lacking)
    folder.publish(found)
    return found


def _selected(folder: IndexFolder, text: str) -> tuple[list[int], str]:
    wanted = Selection(where=Where.of(text, NOW))
    with closing(opened(folder, _BASIS)) as index:
        condition = index.condition(wanted)
        found = [int(row.id.partition("@")[2]) for row in index.select(condition.sql, condition.parameters)]
        return found, index.undecoded(wanted)


def test_conditions_on_decoded_values(tmp_path: Path, registry: _Registry) -> None:
    """As on the command line; what is no value of its schema is NULL, and counted. Other sources stay as they are."""
    del registry
    folder = IndexFolder(tmp_path / "index")
    letters = _letters([_value(1), _value(5), b"\0\0\0\0\7", None, b"no"])
    with closing(Store(folder)) as store:
        _written(folder, store, [*letters, *_letters([b'{"amount":9}', b"\xff"], "plain", 5)], _texts())
    assert _selected(folder, "cast(value ->> '$.amount' as integer) > 3") == (
        [1, 5],
        "2 values cannot be decoded, and are NULL in --where",
    )
    assert _selected(folder, "origin = 'plain'") == ([5, 6], "")


def test_a_value_waits_for_its_schema(tmp_path: Path, registry: _Registry) -> None:
    """While the registry is away, and while it has no such schema. Its bytes are deleted then."""
    folder, texts = IndexFolder(tmp_path / "index"), _texts()
    with closing(Store(folder)) as store:
        registry.refused = range(100)
        manifest = _written(folder, store, _letters([_value(1), _value(5), _value(6, 9)]), texts)
        assert sum(each.waiting for each in manifest.letter_files) == 3
        asked = "cast(value ->> '$.amount' as integer) > 3"
        found, said = _selected(folder, asked)
        assert (found, said.partition(":")[0]) == (
            [],
            "3 values cannot be decoded, and are NULL in --where; some wait for a schema",
        )
        registry.refused = ()
        texts["orders"].again()
        [file] = manifest.letter_files
        decoded = store.decoded(file, lambda origin, value, header: texts[origin](value, header))
        assert (file.rows, decoded.rows, decoded.waiting) == (3, 3, 1)
        assert store.decoded(decoded, lambda origin, value, header: texts[origin](value, header)) == decoded
        folder.publish(replace(manifest, letter_files=(decoded,)))
        assert _selected(folder, asked)[0] == [1]


def test_what_cannot_be_decoded_is_counted_in_the_selection(tmp_path: Path, registry: _Registry) -> None:
    """Without the letters that another condition leaves out, those of other groups, and expired ones."""
    registry.refused = (8,)
    folder, now = IndexFolder(tmp_path / "index"), b"%d" % NOW
    letters = _letters([b"no", _value(1), _value(1, 8), b"no", b"no"])
    letters[3] = replace(letters[3], pairs=[*(letters[3].pairs or [])[:1], *[("_AMQ_ORIG_QUEUE", b"shipping")]])
    letters[4] = replace(letters[4], pairs=[*(letters[4].pairs or []), ("JMSExpiration", now)])
    with closing(Store(folder)) as store:
        _written(folder, store, letters, _texts())
    where = Where.of("value is null", NOW)
    one, both = Selection(where=where, ids=frozenset({"DLQ.orders-0@0"})), Selection(where=where)
    with closing(opened(folder, _BASIS)) as index:
        assert index.undecoded(one) == "1 value cannot be decoded, and is NULL in --where"
        assert index.undecoded(both).startswith("2 values cannot be decoded, and are NULL in --where; some wait for a")
        assert not index.undecoded(replace(both, origins=("other",)))
    for wanted, number in ((one, (1, 0)), (both, (2, 1)), (replace(both, states=(LetterState.RECOVERED,)), (0, 0))):
        basis = replace(_BASIS, values=False, question=True)
        rows = RowMaker({(each.topic, each.partition): each.number for each in SLOTS}, basis, _texts())
        question = Question(wanted, basis)
        question.chosen(folder.path, Manifest(basis=basis, slots=SLOTS), table_of(rows.columns(batch_of(letters))), NOW)
        assert question.undecoded == number


def test_values_are_decoded_for_questions_about_values_alone(tmp_path: Path) -> None:
    """A question about keys asks no registry."""
    basis = replace(BASIS, values=False, undecodable=("orders",))
    value = SerdeSection(format="avro", registry={"url": "http://127.0.0.1:9"})
    source = SimpleNamespace(topic="orders", value=value)
    for asked, decodes in ((Selection(keys=("7",)), False), (Selection(where=Where.of("value = 'a'", NOW)), True)):
        index = Index(cast("Any", SimpleNamespace(sources=[source])), basis, IndexFolder(tmp_path / "index"))
        index._question = Question(asked, basis)
        assert bool(index._texts) == decodes


@pytest.mark.parametrize("changed", ["order.avsc", "own.avsc", "named.avsc"])
def test_a_schema_file_that_changes_makes_another_index(tmp_path: Path, changed: str) -> None:
    """Its path alone does not say how values are decoded."""
    section = SerdeSection(format="avro", schemas={1: "order.avsc"}, reader="own.avsc")
    for name in ("order.avsc", "own.avsc", "named.avsc"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    before = _digest(section, tmp_path)
    assert _digest(section, tmp_path) == before
    (tmp_path / changed).write_text('{"type": "int"}', encoding="utf-8")
    assert _digest(section, tmp_path) != before


def test_the_place_of_a_schema_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same configuration is named in several ways: absolute, or from the present folder."""
    (tmp_path / "schemas").mkdir()
    for name in ("order.avsc", "money.avsc"):
        (tmp_path / "schemas" / name).write_text("{}", encoding="utf-8")
    section = SerdeSection(format="avro", schemas={1: "schemas/order.avsc"})
    monkeypatch.chdir(tmp_path)
    assert _digest(section, tmp_path) == _digest(section, Path())


def test_a_command_that_reads_no_letters_keeps_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not know the folder of the schemas. If something else differs the index is built anew."""
    kept = published(tmp_path / "index", _letters([b"\x02"]), _BASIS)
    begun_with = list[Manifest]()
    monkeypatch.setattr(Refresh, "_run", lambda _, before, **__: begun_with.append(before))

    def refresh(basis: Basis, *, letters: bool) -> Basis:
        found = Refresh(cast("Any", None), basis, kept, no_progress, True, NOW, cast("Any", None), {})  # noqa: FBT003
        found.run(lambda: None, letters=letters)
        return found.basis

    elsewhere = replace(_BASIS, decoded=(("orders", "from another folder"),))
    assert refresh(elsewhere, letters=False) == _BASIS
    assert begun_with.pop() == kept.manifest()
    for basis, letters in ((elsewhere, True), (replace(elsewhere, values=False), False)):
        assert refresh(basis, letters=letters) == basis
        assert begun_with.pop() == Manifest(basis=basis)


def test_a_registry_is_asked_once(registry: _Registry) -> None:
    """One that does not answer takes seconds each time. What it has given before is decoded without it."""
    texts = _texts()["orders"]
    assert json.loads(texts(_value(3)) or "") == {"amount": 3}
    registry.asked.clear()
    for _ in range(3):
        with pytest.raises(SchemaLackingError, match="schema with id 9"):
            texts(_value(1, 9))
    assert registry.asked == [9]
    registry.refused = range(100)
    for schema in (8, 8, 10, 11, 12, 13):
        with pytest.raises(SchemaLackingError, match="no answer"):
            texts(_value(1, schema))
    assert registry.asked == [9, 8, 10, 11]
    assert json.loads(texts(_value(3)) or "") == {"amount": 3}
    registry.refused = ()
    texts.again()
    assert json.loads(texts(_value(4, 12)) or "") == {"amount": 4}


def test_refused_schemas_keep_no_other_from_being_asked_for(registry: _Registry) -> None:
    """Such as one that the user of the registry may not read: it comes first in each round."""
    texts, registry.refused = _texts()["orders"], (1, 2, 3, 4, 5)
    for _ in range(3):  # rounds
        found = [_json_of(texts, _value(6, schema)) for schema in (1, 2, 3, 4, 5, 7, 8)]
        assert found[:5] == [None] * 5
        texts.again()
    assert found[5:] == ['{"amount":6}'] * 2
    registry.refused = ()
    for _ in range(3):
        found = [_json_of(texts, _value(6, schema)) for schema in (1, 2, 3, 4, 5)]
        texts.again()
    assert found == ['{"amount":6}'] * 5


def test_one_refused_schema_is_no_outage(registry: _Registry) -> None:
    """The others are asked for in the same round."""
    texts, registry.refused = _texts()["orders"], (1, 2, 3, 4)
    found = [_json_of(texts, _value(6, schema)) for schema in (1, 2, 7, 3, 4, 8)]
    assert found == [None, None, '{"amount":6}', None, None, '{"amount":6}']


def test_values_that_name_any_schema(registry: _Registry) -> None:
    """Bytes that are no value may do so: in each round the registry is asked for a hundred others."""
    texts = _texts()["orders"]
    for last in (100, 200, 250, 350):
        for number in range(1000, 1250):
            with pytest.raises(SchemaLackingError):
                texts(_value(1, number))
        assert len(registry.asked) == last
        texts.again()
    assert len(set(registry.asked)) == 250
    assert json.loads(texts(_value(4)) or "") == {"amount": 4}


def _json_of(texts: ValueTexts, value: bytes) -> str | None:
    try:
        return texts(value)
    except SchemaLackingError:
        return None
