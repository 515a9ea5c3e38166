"""With ``failureDetails: class-only`` query, archive and report write no text of an exception and no key."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.report.page import page
from kafka_redelivery.pipeline.report.report import Request, Tables, make_report
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.pipeline.letters import FIRST_MS, letter
from tests.pipeline.streaming import prepare, run
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group

pytestmark = [pytest.mark.spark]

_CANARY = "canary7741"


@pytest.mark.long
def test_a_canary_from_the_query_to_the_report(spark: SparkSession, group: Group, tmp_path: Path) -> None:
    """Archive and report also leave out the texts of dead letters that were written in full."""
    session = archive_session(spark)
    prepare(
        group,
        failureDetails="class-only",
        handler={"callable": "tests.scenarios.handlers:telling"},
        sources=[{"topic": group.source, "key": {"format": "string"}, "value": {"format": "json"}}],
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    key = _CANARY.encode()
    group.cluster.produce(group.source, [Sent(b"{}", key, (), 0)])
    run(group, spark)
    [written] = group.cluster.read(group.dead_letters)
    assert written.key == key
    assert _CANARY not in str(written.headers)
    assert json.loads(written.header("dlqDeliveryFailureCause") or "")["exception"] == "ValueError"

    failure = Failure(FailureKind.RAISED, "KeyError", _CANARY)
    in_full = [letter(group.source, n, failure=failure) for n in range(3)]
    group.cluster.produce(group.dead_letters, [Sent(b"{}", key, each.headers, 0) for each in in_full])
    class_only = load_settings(group.file.read_text(encoding="utf-8"))
    full = load_settings(group.file.read_text(encoding="utf-8"), overrides=["failureDetails=full"])
    before = Archive.of(full, tmp_path, str(tmp_path / "before"))
    archive = Archive.of(class_only, tmp_path, str(tmp_path / "table"))
    for each in (before, archive):
        assert run_archive(session, each).letters == 4
    rows = [row.asDict() | {"value": None, "value_json": None} for row in read_table(spark, archive.output).collect()]
    assert _CANARY not in str(rows)
    assert {(row["exception"], row["message"], row["key"]) for row in rows} == {
        ("ValueError", "", None),
        ("KeyError", "", None),
    }
    assert _CANARY in str(read_table(spark, before.output).select("key", "message").collect())

    for table in (None, before.output):
        output = tmp_path / f"report-{table is None}"
        request = Request(settings=class_only, archive=table, output=output.as_uri(), form=Tables.JSON)
        report = make_report(session, request, FIRST_MS)
        assert report.letters == 4
        assert _CANARY not in json.dumps(report.document()) + page(report)
        files = [path.read_text(encoding="utf-8") for path in output.glob("*/*.json")]
        assert any("KeyError" in text for text in files)
        assert _CANARY not in str(files)
