"""Tables that earlier versions made are converted, continued, read, compacted and erased from.

``tables`` has what each version made that wrote something else: four dead letters of two sources.

- ``parquet``: the first archive, divided by day and origin
- ``marked``: the last one of Parquet, with marks of topics, and compacted
- ``delta``: the first one of Delta, which is continued as it is
- ``sink``: a sink table of Parquet with three records
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.archive.conversion import Conversion, convert
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA
from kafka_redelivery.pipeline.archive.delta_table import Predicate, erase
from kafka_redelivery.pipeline.errors import PipelineError, PipelineRefusedError
from kafka_redelivery.pipeline.lake.files import LakeFiles
from kafka_redelivery.pipeline.lake.table import is_delta, read_table
from kafka_redelivery.pipeline.report.report import Request, Tables, make_report
from tests.pipeline.crashing import DiedError, traps
from tests.pipeline.delta_table import forget_delta, remove_column
from tests.pipeline.letters import FIRST_MS, KEPT, letter, settings_of
from tests.pipeline.streaming import prepare, run
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import COMMAND, Group, exactly

pytestmark = [pytest.mark.spark]

_TABLES = Path(__file__).with_name("tables")
_RECORDED = ("orders", "bills")
_FILES = {"parquet": 4, "marked": 2, "sink": 1}


def _copied(name: str, path: Path, topics: dict[str, str]) -> Path:
    """Copy a recorded table, for other topics than the recorded ones."""
    shutil.copytree(_TABLES / name, path)
    for file in (*path.glob("_checkpoint/**/*"), *path.glob("_spark_metadata/*")):
        if file.is_file():
            text = file.read_text(encoding="utf-8").replace("@TABLE@", quote(str(path)))
            for recorded, topic in topics.items():
                text = text.replace(f'"{recorded}"', f'"{topic}"')
            file.write_text(text, encoding="utf-8")
    return path


class Table(NamedTuple):
    """A table that was recorded, for topics of this test."""

    archive: Archive
    sources: list[str]
    files: int | None
    """Those of a table of Parquet."""


@pytest.fixture(params=["parquet", "marked", pytest.param("delta", marks=pytest.mark.long)])
def table(request: pytest.FixtureRequest, cluster: Cluster, unique: str, tmp_path: Path) -> Table:
    """The topics have the four dead letters, and one that is not archived yet."""
    sources = [f"{unique}.{name}" for name in _RECORDED]
    topics = {f"DLQ.{name}": f"DLQ.{source}" for name, source in zip(_RECORDED, sources, strict=True)}
    path = _copied(request.param, tmp_path / "a table", topics)
    cluster.create(*topics.values(), config=KEPT)
    for source in sources:
        cluster.produce(f"DLQ.{source}", [letter(source, number) for number in range(2)])
    cluster.produce(f"DLQ.{sources[0]}", [letter(sources[0], 2)])
    archive = Archive.of(settings_of(cluster, unique, *sources), tmp_path, str(path))
    return Table(archive, sources, _FILES.get(request.param))


def test_a_table_of_an_earlier_version_is_continued(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    """It keeps its folders. A column that was added is null in its rows; erasure finds old and new.

    Its last run was killed when the rows were in the table, and is not repeated.
    """
    session, archive, path = archive_session(spark), table.archive, Path(table.archive.output)
    wanted = None if table.files is None else Conversion(4, table.files)
    if wanted is None:
        remove_column(path, "fingerprint")
    else:
        max((path / "_checkpoint" / "commits").iterdir()).unlink()
        data = next(path.glob("day=*/origin=orders/*.parquet"))
        shutil.copy(data, data.with_name("part-left.parquet"))

    assert convert(spark, archive.output, dry_run=True) == wanted
    assert (path / "_spark_metadata").exists() is (wanted is not None)
    assert convert(spark, archive.output) == wanted
    assert convert(spark, archive.output) is None
    assert not (path / "_spark_metadata").exists()
    run = run_archive(session, replace(archive, compact=True))

    assert run.letters == 1
    assert run.compacted is not None
    assert (run.compacted.before, run.compacted.after) == (0, 0), "each folder has one file"
    rows = read_table(session, archive.output, ARCHIVE_SCHEMA).collect()
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
    left = read_table(session, archive.output, ARCHIVE_SCHEMA).collect()
    assert {(row["origin"], row["origin_offset"]) for row in left} == {("bills", 1), ("orders", 1)}
    assert run_archive(session, archive).letters == 0
    if wanted is not None:
        log = "".join(each.read_text(encoding="utf-8") for each in (path / "_delta_log").glob("*.json"))
        assert not [text for text in ("no plane", '\\"n\\"') if text in log], "the log tells of records"


@pytest.mark.long  # as an archive's, and then a query
def test_a_sink_table_of_an_earlier_version_is_continued(spark: SparkSession, group: Group) -> None:
    """It gets each record once."""
    prepare(group, pipeline={"sink": {"topic": group.output, "path": "table"}})
    group.cluster.produce(group.output, [Sent(b"%d" % n, partition=0) for n in range(5)])
    path = _copied("sink", group.folder / "table", {"outcomes": group.output})

    assert convert(spark, str(path)) == Conversion(3, _FILES["sink"])
    run(group, spark)

    rows = read_table(spark, str(path)).collect()
    assert Counter(int(row.value) for row in rows) == exactly(range(5))
    assert {row.day for row in rows} == {row.timestamp.date() for row in rows}


@pytest.mark.long
@pytest.mark.parametrize("name", ["parquet", "sink"])
def test_a_conversion_that_is_killed_can_be_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After a crash before or after any step the table has the same rows, and the next conversion completes it."""
    path, died = tmp_path / "table", 0
    steps = [(LakeFiles, step) for step in ("write", "move", "delete")]
    for trap in traps(monkeypatch, *steps, (SparkSession, "sql")):
        _copied(name, path, {})
        max((path / "_checkpoint" / "commits").iterdir()).unlink()
        forget_delta(spark)
        rows = spark.read.parquet(str(path)).count()
        try:
            convert(spark, str(path))
        except DiedError:
            died += 1
            monkeypatch.undo()
            converted = is_delta(LakeFiles(spark, str(path)))
            between = read_table(spark, str(path)) if converted else spark.read.parquet(str(path))
            assert between.count() == rows, trap
            convert(spark, str(path))
            ended = False
        else:
            monkeypatch.undo()
            ended = True
        assert read_table(spark, str(path)).count() == rows, trap
        assert not (path / "_spark_metadata").exists(), trap
        assert len(list((path / "_checkpoint" / "commits").glob("[0-9]*"))) == 1, trap
        if ended:
            break
        shutil.rmtree(path)

    assert died >= 2 * 5


def test_what_cannot_be_converted_is_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    """A table whose log names other files, one that is not divided by day, and one that is not there."""
    moved = _copied("parquet", tmp_path / "table", {}).rename(tmp_path / "moved")
    copy, flat = tmp_path / "copy", tmp_path / "flat"
    for source in moved.glob("day=*"):
        shutil.copytree(source, copy / source.name)
    spark.read.parquet(str(copy)).drop("day").write.parquet(str(flat))

    with pytest.raises(PipelineError, match=r"names files that do not exist there, .*the table was moved"):
        convert(spark, str(moved))
    with pytest.raises(PipelineError, match=r"is not divided by day; write it into another folder with Spark"):
        convert(spark, str(flat))
    with pytest.raises(PipelineRefusedError, match=r"there is no table at .*nothing"):
        convert(spark, str(tmp_path / "nothing"))
    begun = _copied("delta", tmp_path / "begun", {})
    shutil.rmtree(begun / "_delta_log")
    for use in (convert, read_table):
        with pytest.raises(PipelineRefusedError, match=r"there is no table at .*begun"):
            use(spark, str(begun))
    assert not any((each / "_delta_log").exists() for each in (moved, flat))
    assert (moved / "_spark_metadata").exists()
    assert convert(spark, str(copy)) == Conversion(4, 4), "a copy has no log"
    assert read_table(spark, str(copy), ARCHIVE_SCHEMA).where("origin = 'bills' and day = '2026-01-01'").count() == 1


@pytest.mark.long
@pytest.mark.slow
def test_the_command_says_what_it_did(cluster: Cluster, tmp_path: Path) -> None:
    """Also that there is nothing to do."""
    path, config = _copied("parquet", tmp_path / "table", {}), tmp_path / "redelivery.yaml"
    document = {"group": "g", "kafka": {"bootstrap.servers": cluster.servers}, "sources": [{"topic": "orders"}]}
    config.write_text(json.dumps(document), encoding="utf-8")
    command = [sys.executable, *COMMAND, "pipeline", "convert", "--table", str(path), "--config", str(config)]
    command += ["--spark", "spark.master=local[1]"]
    told = [
        subprocess.run([*command, *options], capture_output=True, text=True, timeout=240, check=True).stdout
        for options in (["--dry-run"], ["--json"], [])
    ]
    assert told[0] == f"{path} would become a Delta table: 4 rows in 4 files, which stay as they are\n"
    assert json.loads(told[1]) == {
        "ok": True,
        "dryRun": False,
        "table": str(path),
        "converted": True,
        "rows": 4,
        "files": 4,
    }
    assert told[2] == f"{path} is a Delta table already\n"
