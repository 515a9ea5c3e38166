"""``archive --follow`` keeps archiving."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.archive_command import command
from tests.pipeline.delta_table import files, remove_column
from tests.pipeline.letters import KEPT, document_of, letter
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import COMMAND
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_LONG_S = 150


@pytest.mark.long
def test_new_letters_are_archived_until_sigterm(cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """Later dead letters are added once, small files are merged, and SIGTERM ends the command gracefully.

    A report can read the table of a version that lacked a column, and the next run of the archive adds the column.
    """
    source, table = f"{unique}.orders", tmp_path / "table"
    cluster.create(f"DLQ.{source}", config=KEPT)
    (tmp_path / "redelivery.yaml").write_text(json.dumps(document_of(cluster, unique, source)), encoding="utf-8")

    options = ["--follow", "--every", "1s", "--compact", "--json"]
    options += ["--spark", "spark.databricks.delta.snapshotPartitions=1"]
    with command(tmp_path, *options) as running:
        for number in range(2):
            cluster.produce(f"DLQ.{source}", [letter(source, number)])
            wanted = [*range(number + 1)]
            until(lambda: _offsets(table) == wanted, f"letter {number} is there", within_s=_LONG_S)  # noqa: B023 - at once
        until(lambda: len(files(table)) == 1, "they are in one file", within_s=_LONG_S)
        running.terminate()
        told = running.communicate(timeout=_LONG_S)[0].decode()

    assert running.returncode == 0
    runs = [json.loads(line) for line in told.splitlines()]
    assert all(run["ok"] for run in runs)
    assert [run["letters"] for run in runs if run["letters"]] == [1, 1]
    assert sum(run["compacted"]["after"] for run in runs if run["compacted"]) > 0
    assert _offsets(table) == [0, 1]

    remove_column(table, "original_expiration")
    report = ["pipeline", "report", "--config", str(tmp_path / "redelivery.yaml"), "--output", str(tmp_path / "report")]
    report += ["--archive", str(table), "--json"]
    done = subprocess.run([sys.executable, *COMMAND, *report], stdout=subprocess.PIPE, timeout=_LONG_S, check=True)
    assert json.loads(done.stdout)["letters"] == 2

    cluster.produce(f"DLQ.{source}", [letter(source, 2)])
    with command(tmp_path) as again:
        assert again.wait(_LONG_S) == 0
    assert _offsets(table) == [0, 1, 2]
    assert "original_expiration" in _columns(table)


def _columns(table: Path) -> list[str]:
    """Return the columns of the table's latest schema."""
    found: list[str] = []
    for log in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
            if "metaData" in action:
                found = [each["name"] for each in json.loads(action["metaData"]["schemaString"])["fields"]]
    return found


def _offsets(table: Path) -> list[int]:
    return sorted(offset for file in files(table) for offset in pq.read_table(file)["origin_offset"].to_pylist())
