"""An archive is a Delta table, divided by day and ordered by origin."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.delta_table import CompactionResult, optimize
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.topology.exit_codes import CONFIGURATION
from tests.pipeline.archive_command import command
from tests.pipeline.delta_table import files
from tests.pipeline.letters import DAY_MS, FIRST_MS, KEPT, document_of, letter, settings_of
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import COMMAND

pytestmark = [pytest.mark.spark]

_ORIGINS = 4
_TODAY_MS = FIRST_MS + DAY_MS + 1


@pytest.fixture
def archive(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> Archive:
    """A table with two files of the keys 0 and 1 of each origin on the first day, and of 2 and 3 on the second."""
    sources = [f"{unique}.{number}" for number in range(_ORIGINS)]
    cluster.create(*(f"DLQ.{source}" for source in sources), config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(tmp_path / "a table"))
    for number in range(2):
        for source in sources:
            later = letter(source, number + 2, at_ms=FIRST_MS + DAY_MS)
            cluster.produce(f"DLQ.{source}", [letter(source, number), later])
        run_archive(archive_session(spark), archive)
    return archive


@pytest.mark.slow
@pytest.mark.long
def test_the_command_makes_it(cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """With nothing of a record in its log."""
    source, table = f"{unique}.orders", tmp_path / "table"
    cluster.create(f"DLQ.{source}", config=KEPT)
    cluster.produce(f"DLQ.{source}", [letter(source, 0)])
    (tmp_path / "redelivery.yaml").write_text(json.dumps(document_of(cluster, unique, source)), encoding="utf-8")

    with command(tmp_path, "--compact") as running:
        assert running.wait(240) == 0

    (file,) = files(table)
    assert file.parent.relative_to(table) == Path("day=2026-01-01")
    assert _keys(file) == {b"key-0"}
    log = (table / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
    assert "redeliveries_exceeded" in log, "the lowest and the highest value"
    assert "no plane" not in log


def test_it_is_divided_by_day_and_ordered_by_origin(spark: SparkSession, archive: Archive) -> None:
    """A run writes one file for each day. Compaction orders days that are over, and has nothing to do again."""
    session, table = archive_session(spark), Path(archive.output)
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(files(table)[0].stat().st_size // 2))
    lake = LakeFiles(session, archive.output)
    before = _rows(session, archive)
    assert sorted(file.parent.name for file in files(table)) == ["day=2026-01-01"] * 2 + ["day=2026-01-02"] * 2

    waiting = optimize(session, lake, _TODAY_MS, min_files=3)

    assert waiting.before == 2, "today has fewer files than three"
    ordered = [pq.read_table(file, partitioning=None)["origin"].to_pylist() for file in files(table)]
    assert min(len(set(origins)) for origins in ordered) < _ORIGINS
    session.conf.unset("spark.databricks.delta.optimize.maxFileSize")
    assert optimize(session, lake, _TODAY_MS + DAY_MS, min_files=3).after == 2
    assert optimize(session, lake, _TODAY_MS + DAY_MS, min_files=2) == CompactionResult()
    assert [file.parent.name for file in sorted(files(table))] == ["day=2026-01-01", "day=2026-01-02"]
    assert _rows(session, archive) == before


@pytest.mark.long
@pytest.mark.slow
def test_a_session_without_delta_refuses_the_table(archive: Archive, tmp_path: Path) -> None:
    """The settings of the job override those of Delta: the error says what to do, and nothing is erased."""
    servers = archive.settings.kafka["bootstrap.servers"]
    document = {"group": "billing", "kafka": {"bootstrap.servers": servers}, "sources": [{"topic": "orders"}]}
    (tmp_path / "redelivery.yaml").write_text(json.dumps(document), encoding="utf-8")
    options = ["--config", str(tmp_path / "redelivery.yaml"), "--archive", archive.output, "--key", "key-1", "--yes"]
    erasing = [sys.executable, *COMMAND, "pipeline", "erase", *options, "--spark", "spark.sql.extensions="]

    ended = subprocess.run(erasing, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == CONFIGURATION, ended.stderr
    assert "this Spark session has no Delta Lake: " in ended.stderr
    assert len(files(Path(archive.output))) == 4


def _keys(path: Path) -> set[bytes]:
    return set(pq.read_table(path, columns=["key"], partitioning=None)["key"].to_pylist())


def _rows(session: SparkSession, archive: Archive) -> list[Row]:
    return read_table(session, archive.output).orderBy("topic", "partition", "offset").collect()
