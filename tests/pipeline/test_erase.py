"""The rows of one person are erased from an archive: from all files and versions of its table, and no other row is."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrameWriter, Row, SparkSession
from pyspark.sql import functions as F

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive import delta_table
from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.archive.delta_table import Predicate, erase, optimize
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.topology.errors import OptionError
from tests.pipeline.crashing import DiedError, traps
from tests.pipeline.delta_table import files, forget_delta
from tests.pipeline.letters import DAY_MS, FIRST_MS, KEPT, letter, settings_of
from tests.scenarios.cluster import Cluster

pytestmark = [pytest.mark.spark]


@pytest.fixture
def archive(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> Archive:
    """A table with the keys 0 to 3 of two origins. Another version wrote keys 2 and 3, which have the second day.

    That version had no ``message``, and a column that this one does not know.
    """
    session, sources = archive_session(spark), [f"{unique}.{number}" for number in range(2)]
    cluster.create(*(f"DLQ.{source}" for source in sources), config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(tmp_path / "a table"))
    for source in sources:
        cluster.produce(f"DLQ.{source}", [letter(source, number, at_ms=FIRST_MS + DAY_MS) for number in (2, 3)])
    run_archive(session, archive)
    older = read_table(session, archive.output).drop("message").withColumn("unknown", F.lit("kept"))
    writer = older.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy("day").save(archive.output)
    for number in range(2):
        for source in sources:
            cluster.produce(f"DLQ.{source}", [letter(source, number)])
        run_archive(session, archive)
    return archive


_TOLD = ("key-1", b"key-1".hex().upper(), "no plane", '\\"n\\"')
"""What the log of the table would say of the rows."""


def _where(text: str) -> Where:
    return Where.of(text, wall_clock_ms())


def test_rows_are_erased_from_all_files(spark: SparkSession, archive: Archive, cluster: Cluster) -> None:
    """Also from files that compaction has replaced or a killed run has left, and the log tells nothing of them.

    Compaction leaves a file for each day, ordered by origin. The archive goes on after the erased rows.
    """
    session, table = archive_session(spark), Path(archive.output)
    first, second = (each.topic for each in archive.settings.sources)
    assert optimize(session, LakeFiles(session, archive.output), wall_clock_ms(), min_files=2).before == 2
    compacted = [path for path in files(table) if b"key-1" in _keys(path)]
    assert [path.parent.name for path in compacted] == ["day=2026-01-01"]
    data = next(path for path in table.glob("day=*/*.parquet") if b"key-1" in _keys(path))
    shutil.copy(data, data.with_name("part-left.parquet"))
    before = _rows(session, archive)
    both, patterns = (
        {first, second},
        ("*", f"{first[:-1]}?", "*.1", first[:-1], first[:-2] + "*x", first.replace(".", "?.")),
    )
    columns = [Predicate("key-1", pattern).column().alias(pattern) for pattern in patterns]
    met = read_table(session, archive.output).select("origin", *columns).collect()
    found = [{row["origin"] for row in met if row[1 + number]} for number in range(len(patterns))]
    assert found == [both, both, {second}, set(), set(), set()]
    condition = Predicate("key-1", first, _where("value ->> '$.n' = '1' and died < timestamp '2026-01-02'"))

    counted = erase(session, archive.output, condition, dry_run=True)
    assert _rows(session, archive) == before
    erased = erase(session, archive.output, condition)

    assert counted == erased
    assert (erased.rows, erased.files, erased.origins) == (1, 1, {first: 1})
    kept = _rows(session, archive)
    assert kept == [row for row in before if (row["origin"], bytes(row["key"])) != (first, b"key-1")]
    assert len(kept) == 7
    assert [row["unknown"] for row in kept].count("kept") == 4
    assert sum(_keys(path).count(b"key-1") for path in _files(table)) == 1
    log = "".join(path.read_text(encoding="utf-8") for path in (table / "_delta_log").glob("*.json"))
    assert r'"zOrderBy":"[\"origin\"]"' in log
    assert not [text for text in _TOLD if text in log]
    assert {pq.read_metadata(path).row_group(0).column(0).compression for path in _files(table)} == {"ZSTD"}

    cluster.produce(f"DLQ.{first}", [letter(first, 5)])
    assert run_archive(archive_session(spark), archive).letters == 1
    assert sorted(row["origin_offset"] for row in _rows(session, archive)) == [0, 0, 1, 2, 2, 3, 3, 5]


@pytest.mark.long
def test_several_erasures(spark: SparkSession, archive: Archive) -> None:
    """By columns that older files lack, by a whole key, by nothing that is there, and by a column of letters alone."""
    session, table = archive_session(spark), Path(archive.output)
    missing_there = Predicate("key-2", where=_where("message IS NULL or 'a column' = 'that it lacks'"))
    assert erase(session, archive.output, missing_there).rows == 2
    assert erase(session, archive.output, Predicate("key-1")).rows == 2
    assert all(not {b"key-1", b"key-2"} & set(_keys(path)) for path in _files(table))
    log = "".join(path.read_text(encoding="utf-8") for path in (table / "_delta_log").glob("*.json"))
    assert not [text for text in _TOLD if text in log]
    assert erase(session, archive.output, Predicate(where=_where("reason = 'unheard of'")), dry_run=True).rows == 0
    with pytest.raises(OptionError, match="there is no state here"):
        erase(session, archive.output, Predicate(where=_where("state = 'waiting'")))
    with pytest.raises(OptionError, match="nothing says which rows"):
        Predicate()


@pytest.mark.long
def test_an_erasure_that_is_killed_can_be_repeated(
    spark: SparkSession, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash before or after any step no other row is gone, and the next erasure completes it."""
    session, table = archive_session(spark), Path(archive.output)
    saved = table.rename(table.with_name("saved"))
    condition = Predicate(where=_where("key IN ('key-1', 'key-2')"))
    died = 0
    for trap in traps(monkeypatch, (DataFrameWriter, "save"), (SparkSession, "sql")):
        shutil.copytree(saved, table)
        forget_delta(session)
        try:
            erase(session, archive.output, condition)
        except DiedError:
            died += 1
            monkeypatch.undo()
            between = {bytes(row["key"]) for row in _rows(session, archive)}
            assert {b"key-0", b"key-3"} <= between, trap
            erase(session, archive.output, condition)
            ended = False
        else:
            monkeypatch.undo()
            ended = True
        assert sorted(bytes(row["key"]) for row in _rows(session, archive)) == [b"key-0"] * 2 + [b"key-3"] * 2, trap
        assert all(not {b"key-1", b"key-2"} & set(_keys(path)) for path in _files(table)), trap
        if ended:
            break
        shutil.rmtree(table)

    assert died >= 6


def _files(table: Path) -> list[Path]:
    return [path for path in table.rglob("*.parquet") if "_delta_log" not in path.parts]


def _keys(path: Path) -> list[bytes]:
    return list(pq.read_table(path, columns=["key"], partitioning=None)["key"].to_pylist())


def _rows(session: SparkSession, archive: Archive) -> list[Row]:
    return read_table(session, archive.output).orderBy("topic", "partition", "offset").collect()


def test_rows_that_came_meanwhile_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that runs beside it appends between the count and the erasure: what is removed is reported."""
    session, path = archive_session(spark), str(tmp_path / "table")

    def append(number: int) -> None:
        letters = session.range(number).select(F.lit(b"k").alias("key"), F.lit("orders").alias("origin"))
        lacking = {
            each.name: F.lit(None).cast(each.dataType) for each in ARCHIVE_SCHEMA if each.name not in {"key", "origin"}
        }
        rows = letters.withColumns(lacking | {"day": F.to_date(F.lit("2026-01-01"))})
        rows.write.format("delta").mode("append").partitionBy("day").save(path)

    append(3)
    real = delta_table._erase

    def beside(*arguments: Any) -> Any:  # noqa: ANN401 - as the original
        append(4)
        return real(*arguments)

    monkeypatch.setattr(delta_table, "_erase", beside)
    erased = erase(session, path, Predicate("k", None, None))
    assert (erased.rows, erased.origins) == (7, {"orders": 7})
    assert read_table(session, path).count() == 0
