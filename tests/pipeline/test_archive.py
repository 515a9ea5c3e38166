"""Dead letters are archived exactly once, with the content that they had in their topic."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.pipeline.archive.archive import (
    Archive,
    archive_session,
    count_pending,
    read_positions,
    run_archive,
)
from kafka_redelivery.pipeline.archive.dead_letters import ARCHIVE_SCHEMA, UNKNOWN_ORIGIN
from kafka_redelivery.pipeline.errors import PipelineError, PipelineRefusedError
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.wire.headers import EXPIRATION, FAILURE_CAUSE, ORIG_ADDRESS, ORIG_MESSAGE_ID
from tests.pipeline.archive_command import command
from tests.pipeline.delta_table import files, forget_delta, remove_column
from tests.pipeline.letters import DAY_MS, FIRST_MS, KEPT, document_of, letter, settings_of
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

Rows = Mapping[tuple[str, int, int], dict[str, Any]]

_HOSTILE = (
    (ORIG_ADDRESS, b"../\xff"),
    (ORIG_MESSAGE_ID, b"orders-9999999999@9999999999999999999"),
    (FAILURE_CAUSE, b"{\xff"),
    (EXPIRATION, b"9" * 19),
)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session with the settings of the archive."""
    return archive_session(spark)


def test_the_archive_holds_what_the_topics_hold(
    session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """Each dead letter is one row with its bytes, headers and decoded value. A second run adds new dead letters.

    Later runs say what became of them, also in a table of an earlier version.
    """
    source, other = f"{unique}.orders", f"{unique}.shared"
    letters, strange = f"DLQ.{source}", f"DLQ.{other}"
    cluster.create(letters, strange, partitions=2, config=KEPT)
    own = [("traceparent", b"00-1"), ("twice", b"1"), ("twice", None)]
    undecodable = letter(source, 8, at_ms=FIRST_MS + DAY_MS, value=b"\xff")
    cluster.produce(letters, [letter(source, 7, headers=own), undecodable])
    cluster.produce(strange, [Sent(None, None, _HOSTILE, 1, FIRST_MS), Sent(b"bare", b"key", (), 1, FIRST_MS)])
    archive = Archive.of(settings_of(cluster, unique, source, other), tmp_path, str(tmp_path / "table"))
    pending = count_pending(session, archive, read_positions(session, archive))

    runs = [run_archive(session, archive), run_archive(session, archive)]
    cluster.produce(letters, [letter(source, number, group=unique) for number in (9, LONG_MAX)])
    later = count_pending(session, archive, read_positions(session, archive))
    runs.append(run_archive(session, archive))

    assert pending == {(letters, 0): 2, (strange, 1): 2}
    assert later == {(letters, 0): 2}
    assert [run.letters for run in runs] == [4, 0, 2]
    table = read_table(session, archive.output)
    assert {each.name: each.dataType for each in table.schema} == {each.name: each.dataType for each in ARCHIVE_SCHEMA}
    rows = read(session, archive)
    assert {(topic, offset) for topic, _, offset in rows} == {
        *((letters, offset) for offset in range(4)),
        *((strange, offset) for offset in range(2)),
    }
    _is_as_written(rows[letters, 0, 0], source)
    damaged = rows[letters, 0, 1]
    assert (damaged["value"], damaged["value_json"], str(damaged["day"])) == (b"\xff", None, "2026-01-02")
    assert "not_utf8" in damaged["decode_error"]
    assert damaged["fingerprint"] == rows[letters, 0, 2]["fingerprint"] is not None
    for offset in range(2):
        row = rows[strange, 1, offset]
        assert (row["origin"], row["reason"], row["expiration"]) == (UNKNOWN_ORIGIN, None, None)
        assert (row["origin_partition"], row["origin_offset"]) == (None, None)
        assert [(each["key"], each["value"]) for each in row["headers"] or ()] == [list(_HOSTILE), []][offset]

    assert all(f"{unique}.dlq.jobs" in run.states_problem for run in runs)
    _discard(cluster, archive, letters, 2)
    remove_column(tmp_path / "table", "decided_at")  # an earlier version did not write it
    forget_delta(session)
    known = [run_archive(session, archive) for _ in range(2)]
    assert [(run.states, run.states_problem) for run in known] == [(1, ""), (0, "")]
    found = read(session, archive)
    assert len(found) == 6
    assert [found[letters, 0, offset]["state"] for offset in range(4)] == [None, None, "discarded", "waiting"]
    assert [found[letters, 0, offset]["job"] for offset in range(1, 4)] == [None, "aside", None]
    assert [found[letters, 0, offset]["decided_at"] is None for offset in range(1, 4)] == [True, False, True]
    assert found[letters, 0, 2]["value"] == rows[letters, 0, 2]["value"]
    assert found[letters, 0, 3]["origin_offset"] == LONG_MAX


def _discard(cluster: Cluster, archive: Archive, letters: str, offset: int) -> None:
    """Let a job set a dead letter aside."""
    naming, place = archive.settings.naming(), SliceId(letters, 0)
    cluster.create(naming.jobs_topic(), naming.actions_topic())
    ledger, options = Ledger(archive.settings), JobOptions(group=archive.settings.group, discard=True)
    spec = JobSpec(job="aside", at_ms=0, by="a test", seen=ledger.seen, options=options, selection={}, slices=(place,))
    ledger.append("aside", job_records(spec, {place: OffsetSet([offset])}))
    assert OpenJob(archive.settings, ledger, "aside").run(Event(), no_progress)


def _is_as_written(row: dict[str, Any], source: str) -> None:
    assert (row["key"], row["value"], row["value_json"]) == (b"key-7", b'{"n":1}', '{"n":1}')
    assert [each["value"] for each in row["headers"] if each["key"] == "twice"] == [b"1", None]
    assert (row["origin"], row["origin_address"], row["origin_group"]) == (source, source, "billing")
    assert (row["origin_partition"], row["origin_offset"], row["delivery_count"]) == (0, 7, 5)
    assert (row["reason"], row["exception"], row["message"]) == ("redeliveries_exceeded", "KeyError", "no plane 7")
    assert (row["normal_message"], row["decode_error"]) == ("no plane <number>", None)
    times = (row["dead_lettered_at"], row["origin_timestamp"])
    assert [time.isoformat() for time in times] == ["2026-01-01T00:00:00", "2025-12-31T23:59:59"]


def test_a_batch_that_is_written_again_is_in_the_table_once(
    session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """If a run dies before its micro-batch is committed or in the table, no row is lost or doubled."""
    source = f"{unique}.orders"
    cluster.create(f"DLQ.{source}", config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, source), tmp_path, str(tmp_path / "table"))
    commits, log = tmp_path / "table/_checkpoint/commits", tmp_path / "table/_delta_log"
    for number in range(3):
        cluster.produce(f"DLQ.{source}", [letter(source, number)])
        run_archive(session, archive)

    _forget(commits, "2")
    committed = run_archive(session, archive)
    _forget(commits, "2")
    for suffix in ("json", "crc"):
        _forget(log, f"{2:020}.{suffix}")
    forget_delta(session)
    written = run_archive(session, archive)

    assert (committed.letters, written.letters) == (0, 1)  # written again only if the table had it not
    assert len(read(session, archive)) == 3
    assert len(list((tmp_path / "table").rglob("part-*.parquet"))) == 4  # what was left is there, and no reader sees it


def _forget(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / f".{name}.crc").unlink(missing_ok=True)


def test_letters_removed_before_they_are_archived_are_reported(
    session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """A run fails and names the removed offsets. It continues without them only with ``skip_removed``."""
    source = f"{unique}.orders"
    cluster.create(f"DLQ.{source}", config=KEPT)
    archive = Archive.of(settings_of(cluster, unique, source), tmp_path, str(tmp_path / "table"))
    cluster.produce(f"DLQ.{source}", [letter(source, 0)])
    run_archive(session, archive)
    cluster.produce(f"DLQ.{source}", [letter(source, number) for number in range(1, 5)])
    cluster.delete_before(f"DLQ.{source}", 0, 3)

    with pytest.raises(PipelineError, match=rf"DLQ\.{source}-0@1\.\.2\. .*--skip-removed"):
        run_archive(session, archive)
    run = run_archive(session, replace(archive, skip_removed=True))

    assert run.letters == 2


def test_a_topic_that_was_created_again(session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """The new one is archived from its start, also after an interrupted run. Rows of the older one stay."""
    source = f"{unique}.orders"
    letters = f"DLQ.{source}"
    archive = Archive.of(settings_of(cluster, unique, source), tmp_path, str(tmp_path / "table"))
    cluster.create(letters, config=KEPT)
    cluster.produce(letters, [letter(source, number) for number in range(5)])
    runs = [run_archive(session, archive)]
    cluster.delete(letters)
    cluster.create(letters, config=KEPT)
    cluster.produce(letters, [letter(source, number) for number in range(100, 107)])

    pending = count_pending(session, archive, read_positions(session, archive))
    runs += [run_archive(session, archive), run_archive(session, archive)]
    assert pending == {(letters, 0): 7}
    assert [run.letters for run in runs] == [5, 7, 0]

    _forget(tmp_path / "table/_checkpoint/commits", "1")  # the run was interrupted when the rows were in the table
    cluster.delete(letters)
    cluster.create(letters, config=KEPT)
    cluster.produce(letters, [letter(source, number) for number in range(200, 203)])
    run_archive(session, archive)

    rows = read_table(session, archive.output, ARCHIVE_SCHEMA).collect()
    assert sorted(row["origin_offset"] for row in rows) == [*range(5), *range(100, 107), *range(200, 203)]
    assert len({row["topic_mark"] for row in rows}) == 3
    assert len({(row["topic_mark"], row["partition"], row["offset"]) for row in rows}) == 15


def test_a_table_of_parquet_is_refused(session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """For writing and for reading, because rows would be missing. The error names the command that converts it."""
    table, told = tmp_path / "table", "is a table of Parquet, .*: redelivery pipeline convert --table .*table"
    table.mkdir()
    (table / "part-0.parquet").touch()
    with pytest.raises(PipelineRefusedError, match=told):
        read_table(session, str(table))
    (table / "_spark_metadata").mkdir()
    (table / "_spark_metadata" / "0.compact").touch()
    with pytest.raises(PipelineRefusedError, match=told):
        run_archive(session, Archive.of(settings_of(cluster, unique, f"{unique}.orders"), tmp_path, str(table)))
    with pytest.raises(PipelineRefusedError, match=told):
        read_table(session, str(table))


def test_a_table_of_an_earlier_version_has_the_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that were written without a column have null there, also beside files with it."""
    schema = "topic string, offset bigint, added string, day date, origin string"
    row = ("DLQ", 1, "new", date(2026, 11, 1), "1")
    newer = spark.createDataFrame([row], schema)
    newer.drop("added").write.format("delta").partitionBy("day").save(str(tmp_path / "table"))

    older = read_table(spark, str(tmp_path / "table"), newer.schema).collect()
    newer.write.format("delta").mode("append").option("mergeSchema", "true").save(str(tmp_path / "table"))

    assert [tuple(each) for each in older] == [("DLQ", 1, None, *row[3:])]
    assert {tuple(each) for each in read_table(spark, str(tmp_path / "table"), newer.schema).collect()} == {
        ("DLQ", 1, None, *row[3:]),
        row,
    }


def test_a_missing_table_is_named(session: SparkSession, tmp_path: Path) -> None:
    """The error names the table and a fix."""
    with pytest.raises(PipelineRefusedError, match=r"there is no table at .*nothing; correct the path"):
        read_table(session, str(tmp_path / "nothing"))


@pytest.mark.long
def test_a_killed_run_is_finished_by_the_next(
    session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """The command and its processes are killed after the first micro-batch; the next run archives the rest once."""
    source = f"{unique}.orders"
    cluster.create(f"DLQ.{source}", config=KEPT)
    cluster.produce(f"DLQ.{source}", [letter(source, number) for number in range(40)])
    (tmp_path / "redelivery.yaml").write_text(json.dumps(document_of(cluster, unique, source)), encoding="utf-8")
    archive = Archive.of(settings_of(cluster, unique, source), tmp_path, str(tmp_path / "table"))
    with command(tmp_path, "--batch", "8") as killed:
        until(lambda: files(tmp_path / "table"), "a batch is in the table", within_s=180)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(60)
    run = run_archive(session, replace(archive, compact=True))

    assert 0 < run.letters < 40
    assert run.compacted is not None
    assert run.compacted.after == 1
    assert len(read(session, archive)) == 40


@pytest.mark.long
def test_a_second_archive_of_a_table_says_that_another_one_runs(
    session: SparkSession, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    """One of two that start together ends, and says why. Each letter is in the table once."""
    source = f"{unique}.orders"
    cluster.create(f"DLQ.{source}", config=KEPT)
    cluster.produce(f"DLQ.{source}", [letter(source, number) for number in range(40)])
    (tmp_path / "redelivery.yaml").write_text(json.dumps(document_of(cluster, unique, source)), encoding="utf-8")
    archive = Archive.of(settings_of(cluster, unique, source), tmp_path, str(tmp_path / "table"))
    said = tmp_path / "first", tmp_path / "second"
    with (
        command(tmp_path, "--batch", "4", errors=said[0]) as first,
        command(tmp_path, "--batch", "4", errors=said[1]) as second,
    ):
        ended = [each.wait(180) for each in (first, second)]
    run_archive(session, archive)

    assert len(read(session, archive)) == 40
    for code, file in zip(ended, said, strict=True):
        text = file.read_text(encoding="utf-8")
        assert code == 0 or (code == exit_codes.FAILED and "another archive of" in text), text


def read(session: SparkSession, archive: Archive) -> Rows:
    """Read the table by the position of the dead letter, and check that no position occurs twice."""
    found = read_table(session, archive.output).collect()
    rows = {(row["topic"], row["partition"], row["offset"]): row.asDict(recursive=True) for row in found}
    assert len(rows) == len(found)
    return rows
