"""The rows of one person are erased from an archive: from all of its files, and no other row is."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.compaction import compact
from kafka_redelivery.pipeline.archive.erasure import Predicate, count_rows, erase
from kafka_redelivery.pipeline.errors import PredicateError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.sink_log import SinkLog, entry_of
from kafka_redelivery.pipeline.lake.table import TableFormat, read_table
from tests.pipeline.crashing import DiedError, traps
from tests.pipeline.letters import DAY_MS, FIRST_MS, KEPT, letter, settings_of
from tests.scenarios.cluster import Cluster

pytestmark = [pytest.mark.spark]

_PARQUET = TableFormat.PARQUET


@pytest.fixture
def archive(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> Archive:
    """A table with the keys 0 to 3 of two origins. Another version wrote keys 2 and 3, which have the second day.

    That version had no ``fingerprint``, and a column that this one does not know.
    """
    sources = [f"{unique}.{number}" for number in range(2)]
    cluster.create(*(f"DLQ.{source}" for source in sources), config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(tmp_path / "a table"), _PARQUET)
    for number in range(2):
        for source in sources:
            later = letter(source, number + 2, at_ms=FIRST_MS + DAY_MS)
            cluster.produce(f"DLQ.{source}", [letter(source, number), later])
        run_archive(archive_session(spark), archive)
    _make_older(spark, archive, "day=2026-01-02")
    return archive


def _make_older(spark: SparkSession, archive: Archive, day: str) -> None:
    """Change the columns of the files of a day to those of another version."""
    files = LakeFiles(spark, archive.output)
    for path in Path(archive.output).glob(f"{day}/*/*.parquet"):
        table = pq.read_table(path, partitioning=None).drop_columns(["fingerprint"])
        # Without the metadata, in which Spark would find the columns of its own file.
        table = table.append_column("unknown", pa.array(["kept"] * len(table))).replace_schema_metadata(None)
        path.with_name(f".{path.name}.crc").unlink()
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)  # as Spark does
    log = SinkLog(files)
    last = log.latest()
    assert last is not None
    log.replace(last, [entry_of(files.file(str(entry["path"]))) for entry in log.entries(last)])


def _where(text: str) -> Where:
    return Where.of(text, wall_clock_ms())


def test_rows_are_erased_from_all_files(spark: SparkSession, archive: Archive, cluster: Cluster) -> None:
    """Also from files that compaction has replaced or a killed run has left. The archive goes on after them."""
    session, table = archive_session(spark), Path(archive.output)
    source = archive.settings.sources[0].topic
    assert compact(session, LakeFiles(session, archive.output), wall_clock_ms()).before == 8
    data = next(path for path in table.glob(f"*/origin={source}/*.parquet") if b"key-1" in _keys(path))
    shutil.copy(data, data.with_name("part-left.zstd.parquet"))
    before = _rows(session, archive)
    condition = Predicate("key-1", source)
    first, second = (each.topic for each in archive.settings.sources)
    for pattern, found in (
        ("*", {first: 1, second: 1}),
        (f"{first[:-1]}?", {first: 1, second: 1}),
        ("*.1", {second: 1}),
    ):
        assert count_rows(session, archive.output, Predicate("key-1", pattern)).origins == found, pattern
    for other in (first[:-1], first[:-2] + "*x", first.replace(".", "?.")):
        assert not count_rows(session, archive.output, Predicate("key-1", other)).rows, other

    counted = count_rows(session, archive.output, condition)
    assert _rows(session, archive) == before
    erased = erase(session, archive.output, condition)

    assert counted == erased
    assert (erased.rows, erased.files, erased.origins) == (1, 1, {source: 1})
    kept = _rows(session, archive)
    assert kept == [row for row in before if (row["origin"], bytes(row["key"])) != (source, b"key-1")]
    assert len(kept) == 7
    assert [row["unknown"] for row in kept].count("kept") == 4
    left = [path for path in table.rglob("*.parquet") if f"origin={source}" in str(path)]
    assert all(b"key-1" not in _keys(path) for path in left)

    missing_there = Predicate("key-2", where=_where("fingerprint IS NULL or 'a column' = 'that it lacks'"))
    assert erase(session, archive.output, missing_there).rows == 2
    assert all(b"key-2" not in _keys(path) for path in table.rglob("*.parquet"))
    assert erase(session, archive.output, Predicate(where=_where("reason = 'unheard of'"))).rows == 0
    with pytest.raises(PredicateError, match="the archive has no state"):
        erase(session, archive.output, Predicate(where=_where("state = 'waiting'")))
    with pytest.raises(PredicateError, match="nothing says which rows"):
        Predicate()

    cluster.produce(f"DLQ.{source}", [letter(source, 5)])
    assert run_archive(archive_session(spark), archive).letters == 1
    assert sorted(row["origin_offset"] for row in _rows(session, archive)) == [0, 0, 1, 3, 3, 5]


@pytest.mark.long
def test_an_erasure_that_is_killed_can_be_repeated(
    spark: SparkSession, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash before or after any file operation no other row is gone, and the next erasure completes it."""
    session, table = archive_session(spark), Path(archive.output)
    saved = table.rename(table.with_name("saved"))
    condition = Predicate(where=_where("key IN ('key-1', 'key-2')"))
    died = 0
    for trap in traps(monkeypatch):
        shutil.copytree(saved, table)
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
        assert all(not {b"key-1", b"key-2"} & _keys(path) for path in table.rglob("*.parquet")), trap
        if ended:
            break
        shutil.rmtree(table)

    assert died > 10


def _keys(path: Path) -> set[bytes]:
    return set(pq.read_table(path, columns=["key"], partitioning=None)["key"].to_pylist())


def _rows(session: SparkSession, archive: Archive) -> list[Row]:
    session.conf.set("spark.sql.parquet.mergeSchema", "true")
    return read_table(session, archive.output, _PARQUET).orderBy("topic", "partition", "offset").collect()
