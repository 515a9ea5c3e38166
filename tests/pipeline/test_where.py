"""An expression of `--where` selects the same letters in DuckDB and in Spark."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from kafka_redelivery.dead_letters.where.columns import COLUMNS, Kind
from kafka_redelivery.dead_letters.where.duckdb_sql import duckdb_sql
from kafka_redelivery.dead_letters.where.expression import Expression
from kafka_redelivery.dead_letters.where.parsing import parse
from kafka_redelivery.pipeline.archive import where
from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.archive.where import condition
from kafka_redelivery.pipeline.errors import PredicateError
from tests.pipeline.where_crossing import crossed
from tests.pipeline.where_expressions import LETTERS, NOW_MS, conditions

pytestmark = pytest.mark.spark

Letter = dict[str, Any]
Answers = list[list[bool | None]]

_TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.INTEGER: "BIGINT",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.MAP: "MAP(VARCHAR, VARCHAR)",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_A_JOB = 100
_IN_A_QUERY = 200
_MANY = int(os.environ.get("WHERE_EXPRESSIONS", "20000"))
"""How many expressions the long test evaluates."""


def _drawn(strategy: st.SearchStrategy[Any], number: int) -> list[Any]:
    """Return values that hypothesis makes: a Spark job for each would take days."""
    made: list[Any] = []

    @settings(
        max_examples=number,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:  # noqa: ANN401 - of any strategy
        made.append(value)

    draw()
    return made


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _in_index(letter: Letter) -> list[Any]:
    values = {
        **letter,
        **{name: letter[name] or None for name in ("group", "origin", "source_id", "reason", "exception", "message")},
        "id": f"{letter['topic']}-{letter['partition']}@{letter['offset']}",
        "died": _time(letter["died"]),
        "expires": _time(letter["expires"]),
        "key": _text(letter["key"]),
        "value": _text(letter["value"]),
        "size": None if letter["value"] is None else len(letter["value"]),
        "headers": {name: _text(value) for name, value in letter["headers"]},
        "state": "waiting",
        "job": None,
        "sends": 0,
    }
    return [values[column.name] for column in COLUMNS]


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None)


def _in_archive(letter: Letter) -> list[Any]:
    values = {
        **{name: letter[name] for name in ("topic", "partition", "offset", "key", "value", "reason", "exception")},
        **{name: letter[name] for name in ("message", "fingerprint")},
        "dead_lettered_at": _EPOCH + timedelta(milliseconds=letter["died"]),
        "headers": [{"key": name, "value": value} for name, value in letter["headers"]],
        "origin_address": letter["origin"],
        "origin_group": letter["group"],
        "origin_message_id": letter["source_id"],
        "delivery_count": letter["attempts"],
        "expiration": None if letter["expires"] is None else _EPOCH + timedelta(milliseconds=letter["expires"]),
    }
    return [values.get(field.name) for field in ARCHIVE_SCHEMA]


class Engines:
    """The same letters in both."""

    def __init__(self, frame: DataFrame, letters: Sequence[Letter]) -> None:
        """Take the letters of an archive, in the order of ``letters``."""
        self.frame = frame
        self._duckdb = duckdb.connect(config={"threads": 1})
        columns = ", ".join(f'"{column.name}" {_TYPES[column.kind]}' for column in COLUMNS)
        self._duckdb.execute(f"CREATE TABLE letters ({columns})")
        signs = ", ".join("?" * len(COLUMNS))
        self._duckdb.executemany(f"INSERT INTO letters VALUES ({signs})", [_in_index(each) for each in letters])  # noqa: S608

    def by_duckdb(self, expressions: Sequence[Expression]) -> Answers:
        """Return what each expression says of each letter."""
        made = [duckdb_sql(each, NOW_MS) for each in expressions]
        parameters = [each for one in made for each in one.parameters]
        sql = f"SELECT {', '.join(each.sql for each in made)} FROM letters"  # noqa: S608 - what is tested
        rows = self._duckdb.execute(sql, parameters).fetchall()
        return [list(each) for each in zip(*rows, strict=True)]

    def by_spark(self, expressions: Sequence[Expression]) -> Answers:
        """Return what each expression says of each letter."""
        made = [condition(each, NOW_MS).alias(f"c{number}") for number, each in enumerate(expressions)]
        return [list(each) for each in zip(*self.frame.select(*made).collect(), strict=True)]

    def differences(self, expressions: Sequence[Expression]) -> Iterator[str]:
        """Yield the expressions of which the engines say different things."""
        both = zip(expressions, self.by_duckdb(expressions), self.by_spark(expressions), strict=True)
        for expression, ours, theirs in both:
            if ours != theirs:
                number = next(n for n, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
                said = duckdb_sql(expression, NOW_MS)
                yield f"{said}\n  of letter {number}: DuckDB {ours[number]}, Spark {theirs[number]}"


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Engines:
    """Random letters."""
    letters = _drawn(LETTERS, 150)
    frame = spark.createDataFrame([_in_archive(each) for each in letters], ARCHIVE_SCHEMA)
    return Engines(frame.coalesce(1).cache(), letters)


@pytest.mark.slow
@pytest.mark.parametrize("number", [30, pytest.param(4_000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])])
def test_random_expressions_select_the_same_letters(engines: Engines, number: int) -> None:
    """Of each letter both engines say true, false or unknown alike."""
    expressions = [parse(each) for each in _drawn(conditions(3), number) if len(each) < 2000]
    wrong = [
        each
        for start in range(0, len(expressions), _IN_A_JOB)
        for each in engines.differences(expressions[start : start + _IN_A_JOB])
    ]
    assert not wrong, "\n".join(sorted(wrong, key=len)[:10])


@pytest.mark.slow
@pytest.mark.parametrize("number", [100, pytest.param(_MANY, marks=[pytest.mark.long, pytest.mark.timeout(14400)])])
def test_crossed_expressions_select_the_same_letters(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Some thousand expressions whose parts are exchanged again and again: ``WHERE_EXPRESSIONS=1000000`` of them.

    The letters are a constant of Spark's plan, so that its optimizer evaluates a query without compiling or a job.
    """
    letters = _drawn(LETTERS, 60)
    table = pa.Table.from_pylist(
        [dict(zip(ARCHIVE_SCHEMA.fieldNames(), _in_archive(each), strict=True)) for each in letters],
        schema=to_arrow_schema(ARCHIVE_SCHEMA, timezone="UTC"),
    )
    engines = Engines(spark.createDataFrame(table, ARCHIVE_SCHEMA), letters)
    monkeypatch.setattr(where, "_column", lru_cache(100_000)(where._column))  # a call of the JVM takes 0.1 ms
    texts = _drawn(conditions(3), min(5_000, number))
    made = crossed([parse(each) for each in texts if len(each) < 2000], seed=number)
    wrong: list[str] = []
    evaluated: set[int] = set()
    while len(evaluated) < number:
        expressions = list(dict.fromkeys(each for each in islice(made, _IN_A_QUERY) if hash(each) not in evaluated))
        wrong += engines.differences(expressions)
        evaluated |= {hash(each) for each in expressions}
    assert not wrong, "\n".join(sorted(wrong, key=len)[:10])


@pytest.mark.usefixtures("spark")
def test_the_archive_lacks_what_comes_after_it() -> None:
    """The error names the columns."""
    with pytest.raises(PredicateError, match="no sends, state: what became of a letter"):
        condition(parse("state = 'waiting' and sends = 0 and attempts > 1"), NOW_MS)
