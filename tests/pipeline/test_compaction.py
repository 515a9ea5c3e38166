"""Compaction merges the small files of an archive. Readers see each row once, also after a crash at any step."""

import os
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.compaction import CompactionResult, compact
from kafka_redelivery.pipeline.errors import CompactionError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import TableFormat
from tests.pipeline.crashing import STEPS, DiedError, traps
from tests.pipeline.letters import DAY_MS, FIRST_MS, KEPT, letter, settings_of
from tests.scenarios.cluster import Cluster

_PARQUET = TableFormat.PARQUET
_NOW_MS = 2**62
"""A time after every grace period."""

_ROUNDS = 3
_ORIGINS = 2


@pytest.fixture
def archive(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> Archive:
    """A table with three small files in each of two folders, and one in a third."""
    sources = [f"{unique}.{number}" for number in range(_ORIGINS)]
    cluster.create(*(f"DLQ.{source}" for source in sources), config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(tmp_path / "a table"), _PARQUET)
    for number in range(_ROUNDS):
        for source in sources:
            cluster.produce(f"DLQ.{source}", [letter(source, number)])
        if not number:
            cluster.produce(f"DLQ.{sources[0]}", [letter(sources[0], 9, at_ms=FIRST_MS + DAY_MS)])
        run_archive(archive_session(spark), archive)
    return archive


@pytest.mark.long
def test_small_files_become_one(spark: SparkSession, archive: Archive, cluster: Cluster) -> None:
    """Each folder has one file with the same rows. Files that are in no log stay for the grace period, then go.

    The archive goes on as before. In a table that was moved, whose log names other files, nothing is deleted.
    """
    session, before = archive_session(spark), _rows(spark, archive)
    files = LakeFiles(session, archive.output)

    for file in Path(archive.output).rglob("*.parquet"):
        os.utime(file, (0, 0))  # what is replaced is kept from then on, however old it is
    left = next(Path(archive.output).glob("day=*/origin=*")) / "part-left.zstd.parquet"
    left.touch()  # by a batch that was killed, or is written at this moment
    done = compact(session, files, wall_clock_ms())
    kept = len(_files(archive))
    nothing = compact(session, files, wall_clock_ms())
    later = compact(session, files, _NOW_MS)
    source = archive.settings.sources[0].topic
    cluster.produce(f"DLQ.{source}", [letter(source, 5)])
    run_archive(session, archive)

    assert (done, nothing, later) == (CompactionResult(2, 6, 2), CompactionResult(), CompactionResult(deleted=6 + 1))
    assert (kept, len(_files(archive))) == (6 + 1 + 2 + 1, 1 + 2 + 1)
    after = _rows(spark, archive)
    assert [row for row in after if row["origin_offset"] != 5] == before
    assert len(after) == len(before) + 1

    moved = Path(archive.output).rename(f"{archive.output} moved")
    with pytest.raises(CompactionError, match="was moved"):
        compact(session, LakeFiles(session, str(moved)), _NOW_MS)
    assert len(list(moved.rglob("*.parquet"))) == 1 + 2 + 1


@pytest.mark.long
def test_a_crash_at_any_step_loses_and_doubles_no_row(
    spark: SparkSession, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash before or after any file operation, the rows are unchanged and compaction can run again."""
    session, before = archive_session(spark), _rows(spark, archive)
    died = 0
    for trap in traps(monkeypatch):
        try:
            compact(session, LakeFiles(session, archive.output), _NOW_MS)
        except DiedError:
            died += 1
            assert _rows(spark, archive) == before, trap
        else:
            monkeypatch.undo()
            break

    assert died > 2 * (len(STEPS) + _ORIGINS)
    compact(session, LakeFiles(session, archive.output), _NOW_MS)
    assert _rows(spark, archive) == before
    assert len(_files(archive)) == 3


def _rows(spark: SparkSession, archive: Archive) -> list[Row]:
    return spark.read.parquet(archive.output).orderBy("topic", "partition", "offset").collect()


def _files(archive: Archive) -> list[Path]:
    return [path for path in Path(archive.output).rglob("*.parquet") if "_compaction" not in path.parts]
