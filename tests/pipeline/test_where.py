"""`--where` selects the same letters from an archive as from the index: those of the test of the index."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.where.columns import COLUMNS
from kafka_redelivery.dead_letters.where.grammar import ExpressionError
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive import condition as evaluator
from kafka_redelivery.pipeline.archive.condition import condition
from kafka_redelivery.pipeline.archive.dead_letters import SourceCodecs, dead_letters
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.topology.errors import OptionError
from tests.pipeline.where_expressions import conditions
from tests.unit.consumers.records import NOW
from tests.unit.dead_letters.index.stored import published
from tests.unit.dead_letters.index.test_selecting import opened
from tests.unit.dead_letters.index.test_where import LETTERS

pytestmark = pytest.mark.spark

_RECORDS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
_IN_A_JOB = 50


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """The letters in a Delta table."""
    rows = [
        (
            each.source,
            each.number,
            each.place,
            datetime.fromtimestamp(each.stamp_ms / 1000, UTC),
            each.key_bytes,
            each.value_bytes,
            [{"key": name, "value": value} for name, value in each.pairs or ()],
        )
        for each in LETTERS
    ]
    path = str(tmp_path_factory.mktemp("archive") / "table")
    made = dead_letters(spark.createDataFrame(rows, _RECORDS), SourceCodecs({}, ""), {}, "billing")
    made.coalesce(1).write.format("delta").partitionBy("day").save(path)
    return read_table(spark, path)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of the same letters."""
    return opened(published(tmp_path_factory.mktemp("index") / "billing", LETTERS))


def _in(index: Index, where: Where) -> list[int]:
    met = index.condition(Selection(where=where))
    return sorted(int(row.id.partition("@")[2]) for row in index.select(met.sql, met.parameters))


def _drawn(strategy: st.SearchStrategy[str], number: int) -> list[str]:
    """Return texts that hypothesis makes: a Spark job for each would take hours."""
    made: list[str] = []

    @settings(
        max_examples=number,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(text: str) -> None:
        made.append(text)

    draw()
    return made


def _conditions(texts: Sequence[str]) -> Iterator[Where]:
    for text in texts:
        try:
            where = Where.of(text, NOW + 30_000)
        except ExpressionError as error:
            assert "bytes" in error.problem  # noqa: PT017 - the only fault that they may have
        else:
            yield where


@pytest.mark.slow
@pytest.mark.parametrize("number", [40, pytest.param(2_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_archive_and_index_agree(archive: DataFrame, index: Index, number: int) -> None:
    """Otherwise `erase` would remove other letters than `list` shows."""
    wheres = list(_conditions(_drawn(conditions(3), number)))
    for start in range(0, len(wheres), _IN_A_JOB):
        asked = wheres[start : start + _IN_A_JOB]
        met = [F.coalesce(condition(each), F.lit(False)).alias(f"c{n}") for n, each in enumerate(asked)]  # noqa: FBT003
        rows = archive.select("offset", *met).orderBy("offset").collect()
        for n, where in enumerate(asked):
            assert [row["offset"] for row in rows if row[f"c{n}"]] == _in(index, where), where.duckdb


def test_what_is_selected(archive: DataFrame) -> None:
    """The examples of the index, in one job."""
    wanted = {
        "attempts between 1 and 3": [1, 2, 3],
        "died - now() = interval '7 seconds'": [7],
        "headers['h'] is null and headers['n'] = '5' and offset < 10": [5],
        "offset = 3 and 1 = 1": [3],
    }
    met = [condition(Where.of(text, NOW)).alias(text) for text in wanted]
    rows = archive.select("offset", *met).orderBy("offset").collect()
    assert {text: [row["offset"] for row in rows if row[text]] for text in wanted} == wanted
    [alone] = archive.where(condition(Where.of("offset = 3", NOW))).collect()
    assert alone["offset"] == 3


@pytest.mark.parametrize(
    ("text", "pushed"),
    [
        ("died >= now() - interval '3 days' and contains(key, 'a')", r"\d{4}-\d\d-\d\d <= day#\d+"),
        ("key = 'a' and (size > 1 and now() > died)", r"day#\d+ <= \d{4}-\d\d-\d\d"),
        ("died between timestamp '2026-11-01' and timestamp '2026-11-02' and key = 'a'", r"day#\d+ <= 2026-11-03"),
        ("origin = lower('ORDERS') and key = 'a'", r"origin#\d+ IN \(\(unknown\),orders\)"),
        ("'orders' = origin and key = 'a'", r"origin#\d+ IN \(\(unknown\),orders\)"),
    ],
)
def test_files_are_skipped(archive: DataFrame, text: str, pushed: str) -> None:
    """By Spark itself, before a row is sent to Python. What is not looked at could not be meant."""
    plan = _plan(archive.where(condition(Where.of(text, NOW))))
    below = plan[plan.index("ArrowEvalPython") :]
    assert re.search(pushed, below), plan


@pytest.mark.parametrize(
    "text",
    [
        "died > now() or key = 'a'",
        "not (died > now())",
        "died > cast(key as timestamp)",
        "origin <> 'orders'",
        "died > timestamp '1969-01-01'",
        "died < timestamp '9999-12-31T23:00' + interval '99 weeks'",
    ],
)
def test_all_files_are_read(archive: DataFrame, text: str) -> None:
    """Of other conditions nothing is known before Python has evaluated them."""
    plan = _plan(archive.where(condition(Where.of(text, NOW))))
    assert "dead_lettered_at#" not in plan.partition("PartitionFilters")[2], plan
    assert "isnotnull(day" not in plan, plan


def _plan(frame: DataFrame) -> str:
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return str(plan.toString())


@pytest.mark.usefixtures("spark")
def test_the_archive_lacks_what_comes_after_it() -> None:
    """The error names the columns."""
    with pytest.raises(OptionError, match="no sends, state here: an archive has the states of its last run"):
        condition(Where.of("state = 'waiting' and sends = 0 and attempts > 1", NOW))


@pytest.mark.usefixtures("spark")
def test_each_column_is_in_the_archive_or_comes_after_it() -> None:
    """A new one cannot be forgotten."""
    known = {*evaluator._columns(Where.of("true", NOW)), *evaluator._LACKING}
    assert known == {column.name for column in COLUMNS}


def test_a_condition_reads_no_file() -> None:
    """Should a function of the database get through, it finds nothing."""
    opened = evaluator._duckdb()
    for attack in ("SELECT * FROM read_text('/etc/passwd')", "SET enable_external_access = true", "INSTALL httpfs"):
        with pytest.raises(Exception, match=r"disabled|locked|lock"):
            opened.execute(attack)
    assert opened.execute("SELECT current_setting('threads'), current_setting('TimeZone')").fetchone() == (1, "UTC")
