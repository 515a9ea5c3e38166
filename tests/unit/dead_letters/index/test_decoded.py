"""Values with a schema are in the index as decoded JSON; one whose schema cannot be had waits."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_redelivery.dead_letters import decoding
from kafka_redelivery.dead_letters.decoding import SchemaLackingError, ValueTexts
from kafka_redelivery.dead_letters.index.files import IndexFolder, Manifest
from kafka_redelivery.dead_letters.index.rows import RowMaker, table_of
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import AvroSchema
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.errors import SchemaSourceUnavailable
from kafka_redelivery.serdes.framing import SchemaId
from kafka_redelivery.serdes.schemas import LocalSchemas
from kafka_redelivery.topology.config.settings import CodecSection
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, SLOTS, TOPIC, batch_of
from tests.unit.dead_letters.index.test_selecting import opened

_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
_BASIS = replace(BASIS, decoded=(("orders", "as today"),))


class _Registry(LocalSchemas):
    """It has the schema 7, answers if it is not away, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__({7: _SCHEMA, 8: _SCHEMA})
        self.away, self.asked = False, list[SchemaId]()

    def by_id(self, schema_id: SchemaId) -> AvroSchema:
        """Return the schema, if it is not away."""
        self.asked.append(schema_id)
        if self.away:
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
        registry.away = True
        manifest = _written(folder, store, _letters([_value(1), _value(5), _value(6, 9)]), texts)
        assert manifest.waiting == 3
        asked = "cast(value ->> '$.amount' as integer) > 3"
        found, said = _selected(folder, asked)
        assert (found, said.partition(":")[0]) == (
            [],
            "3 values cannot be decoded, and are NULL in --where; some wait for a schema",
        )
        registry.away = False
        texts["orders"].again()
        [file] = manifest.letter_files
        decoded = store.decoded(file, lambda origin, value, header: texts[origin](value, header))
        assert (file.rows, decoded.rows, decoded.waiting) == (3, 3, 1)
        assert store.decoded(decoded, lambda origin, value, header: texts[origin](value, header)) == decoded
        folder.publish(replace(manifest, letter_files=(decoded,)))
        assert _selected(folder, asked)[0] == [1]


def test_a_registry_is_asked_once(registry: _Registry) -> None:
    """One that does not answer takes seconds each time. What it has given before is decoded without it."""
    texts = _texts()["orders"]
    assert json.loads(texts(_value(3)) or "") == {"amount": 3}
    registry.asked.clear()
    for _ in range(3):
        with pytest.raises(SchemaLackingError, match="schema with id 9"):
            texts(_value(1, 9))
    assert registry.asked == [9]
    registry.away = True
    for schema in (8, 8, 10):
        with pytest.raises(SchemaLackingError, match="no answer"):
            texts(_value(1, schema))
    assert registry.asked == [9, 8]
    texts.again()
    registry.away = False
    assert json.loads(texts(_value(4, 8)) or "") == {"amount": 4}


def test_values_that_name_any_schema(registry: _Registry) -> None:
    """Bytes that are no value may do so: the registry is asked for a hundred of them."""
    texts = _texts()["orders"]
    for number in range(1000, 1300):
        with pytest.raises(SchemaLackingError):
            texts(_value(1, number))
    assert len(registry.asked) == 100
