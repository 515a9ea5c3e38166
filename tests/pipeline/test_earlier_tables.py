"""Archives that earlier versions made are continued, read, compacted and erased from.

``tables`` has what ``redelivery pipeline archive`` made when it could first write each format: four dead letters of two
days and two sources. All versions since then write the same columns. Both formats were divided by day and origin.
"""

import shutil
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.erasure import Predicate, erase
from kafka_redelivery.pipeline.archive.schema import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.archive.service import ArchiveService
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.report.report import Request, Tables, make_report
from tests.pipeline.delta_table import remove_column
from tests.pipeline.letters import FIRST_MS, KEPT, letter, settings_of
from tests.scenarios.cluster import Cluster

pytestmark = [pytest.mark.spark]

_TABLES = Path(__file__).with_name("tables")
_RECORDED = ("orders", "bills")


class Table(NamedTuple):
    """A table that was recorded, for topics of this test."""

    archive: Archive
    sources: list[str]


@pytest.fixture(params=["parquet", pytest.param("delta", marks=pytest.mark.long)])
def table(request: pytest.FixtureRequest, cluster: Cluster, unique: str, tmp_path: Path) -> Table:
    """The topics have the four dead letters, and one that is not archived yet."""
    path = tmp_path / "table"
    shutil.copytree(_TABLES / request.param, path)
    sources = [f"{unique}.{name}" for name in _RECORDED]
    for file in (*path.glob("_checkpoint/**/*"), *path.glob("_spark_metadata/*")):
        if file.is_file():
            text = file.read_text(encoding="utf-8").replace("@TABLE@", str(path))
            for name, source in zip(_RECORDED, sources, strict=True):
                text = text.replace(f'"DLQ.{name}"', f'"DLQ.{source}"')
            file.write_text(text, encoding="utf-8")
    cluster.create(*(f"DLQ.{source}" for source in sources), config=KEPT)
    for source in sources:
        cluster.produce(f"DLQ.{source}", [letter(source, number) for number in range(2)])
    cluster.produce(f"DLQ.{sources[0]}", [letter(sources[0], 2)])
    return Table(Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(path)), sources)


def test_a_table_of_an_earlier_version_is_continued(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    """It keeps its format and its folders. A column that was added is null in its rows; erasure finds old and new."""
    session, archive = archive_session(spark), table.archive
    if (tmp_path / "table" / "_delta_log").exists():
        remove_column(tmp_path / "table", "fingerprint")

    run, compacted = ArchiveService(spark=session, archive=archive, compact=True).once(Event())

    assert run.letters == 1
    assert compacted is not None
    assert (compacted.before, compacted.after) == (0, 0), "each folder has one file"
    rows = read_table(session, archive.output, schema=ARCHIVE_SCHEMA).collect()
    assert sorted((row["origin"], row["origin_offset"]) for row in rows) == [
        ("bills", 0),
        ("bills", 1),
        ("orders", 0),
        ("orders", 1),
        (table.sources[0], 2),
    ]
    assert {row["value_json"] for row in rows} == {'{"n":1}'}
    output = (tmp_path / "report").as_uri()
    request = Request(settings=archive.settings, archive=archive.output, output=output, form=Tables.CSV)
    newer = 2  # those of the second source: the rows of the table have the name of the recorded topic
    assert make_report(session, request, FIRST_MS).letters == 5 + newer

    assert erase(session, archive.output, Predicate("key-0")).rows == 2
    assert erase(session, archive.output, Predicate(origin=table.sources[0])).rows == 1
    left = read_table(session, archive.output, schema=ARCHIVE_SCHEMA).collect()
    assert {(row["origin"], row["origin_offset"]) for row in left} == {("bills", 1), ("orders", 1)}
    assert run_archive(session, archive).letters == 0
