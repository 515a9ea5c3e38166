"""A report counts dead letters and retries, and hostile content of records cannot harm its reader."""

import json
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, run_archive
from kafka_redelivery.pipeline.frames import DONE, IN_HAND, IN_PLACE, UNREAD
from kafka_redelivery.pipeline.lake.table import read_table
from kafka_redelivery.pipeline.report.figures import died_once, pending
from kafka_redelivery.pipeline.report.page import page
from kafka_redelivery.pipeline.report.report import Request, Tables, make_report
from kafka_redelivery.topology.policy.decision import Failure, FailureKind, Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import (
    HeaderList,
    expired_dead_letter_headers,
    ready_headers,
    retry_headers,
)
from tests.pipeline.letters import FIRST_MS, KEPT, document_of, letter, settings_of
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

_HOUR_MS = 3_600_000
_SCRIPT = '<script>alert(1)</script> $x^2$ \u202e "q" </svg>'


class _Tags(HTMLParser):
    """Collects the tags and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href", "onload"}]


def _failure(exception: str, message: str) -> Failure:
    return Failure(FailureKind.RAISED, exception, message)


def test_a_report_counts_archive_and_topics(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """Each dead letter in the archive or the topics counts once; records of aborted transactions do not count.

    Without a journal, a record counts as recovered if it was retried, is not a dead letter and does not wait. A record
    waits while the group has not finished it.
    """
    session, source, other = archive_session(spark), f"{unique}.orders", f"{unique}.bills"
    settings = settings_of(cluster, unique, source, other)
    tier, ready = f"{unique}.retry.1s", f"{unique}.ready.{source}"
    cluster.create(f"DLQ.{source}", f"DLQ.{other}", tier, ready, config=KEPT)
    cluster.produce(f"DLQ.{source}", [letter(source, number, deliveries=3) for number in range(3)])
    archive = Archive.of(settings, tmp_path, str(tmp_path / "table"))
    run_archive(session, archive)
    hostile = _failure(f"E{_SCRIPT}", _SCRIPT)
    cluster.produce(f"DLQ.{source}", [letter(source, 3, deliveries=3, at_ms=FIRST_MS + 5 * _HOUR_MS)])
    cluster.produce(f"DLQ.{other}", [letter(other, 0, deliveries=1, failure=hostile, headers=[("x", b"\x00")])])
    cluster.abort(f"DLQ.{source}", [letter(source, 4, deliveries=3)])
    # 10 recovered after its first redelivery, 11 is ready for its second, 12 waits for its first; 0 died.
    cluster.produce(tier, [_retry(source, number, 1) for number in (0, 10, 11, 12)])
    cluster.produce(ready, [_ready(source, number, 1) for number in (0, 10, 11)] + [_ready(source, 11, 2)])
    for group, topic in ((f"{unique}.scheduler", tier), (unique, ready)):
        until(partial(_commit, cluster, group, topic), f"{group} has an offset")
    older = tmp_path / "older"  # without a column that this version has
    table = read_table(session, archive.output).drop("original_expiration")
    table.write.format("delta").partitionBy("day", "origin").save(older.as_uri())
    output = (tmp_path / "report").as_uri()
    request = Request(settings=settings, archive=str(older), output=output, form=Tables.JSON)

    session.catalog.clearCache()  # of other tests; Delta keeps snapshots
    report = make_report(session, request, FIRST_MS)

    assert spark._jsparkSession.sharedState().cacheManager().isEmpty(), "frames stay cached"
    assert (report.letters, report.origins, report.unit) == (5, 2, "hour")
    assert [(row["origin"], row["letters"]) for row in report.by_origin] == [(source, 4), (other, 1)]
    assert [(row["reason"], row["letters"]) for row in report.by_reason] == [("redeliveries_exceeded", 5)]
    assert [(row["deliveries"], row["letters"]) for row in report.by_attempt] == [(3, 4), (1, 1)]
    assert sum(row["letters"] for row in report.trend) == 5
    first, second = report.fingerprints
    assert (first["letters"], first["normal_message"], first["exception"]) == (4, "no plane <number>", "KeyError")
    assert {sample["key"] for sample in first["samples"]} <= {f"key-{number}" for number in range(4)}
    assert (report.failed, report.recovered, report.journal, report.acked) == (8, 1, False, None)
    curve = [(row["attempt"], row["reached"], row["recovered"], row["dead"]) for row in report.survival]
    assert curve == [(1, 8, 0, 1), (2, 6, 1, 0), (3, 4, 0, 4)]
    assert [(row["records"], row["in_tiers"], row["ready"]) for row in report.pending] == [(2, 1, 1)]
    assert report.pending[0]["oldest_message_id"] == f"{source}-0@11"
    written = [
        json.loads(line)
        for path in (tmp_path / "report/by_origin").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert [row["letters"] for row in written] == [4, 1]
    text = page(report)
    assert "Most recovered at attempt 2: 1 of the 6 that had it (16.7 %). Attempt 3 recovered 0 of 4." in text
    for label in ("00:00", "01 Jan"):
        assert label in text
    _is_harmless(text, second["exception"])
    selecting = "attempts >= 3 and key <> 'key-1' and died < timestamp '2030-01-01T00:00'"
    chosen = make_report(session, replace(request, output=None, where=selecting), FIRST_MS)
    assert [(row["origin"], row["letters"]) for row in chosen.by_origin] == [(source, 3)]
    assert (chosen.letters, chosen.failed, chosen.recovered) == (3, report.failed, report.recovered)
    assert "attempts &gt;= 3 and" in page(chosen)


@pytest.mark.long
def test_page_and_tables_go_to_one_place(spark: SparkSession, cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """The command writes both through Spark's file systems; its jobs say which step they belong to.

    A file as the output is refused.
    """
    file = tmp_path / "redelivery.yaml"
    file.write_text(json.dumps(document_of(cluster, unique, f"{unique}.orders")), encoding="utf-8")
    output = f"file://{tmp_path}/a report"

    done = CliRunner().invoke(app, ["pipeline", "report", "--config", str(file), "--output", f"{output}/"])

    assert done.exit_code == 0, done.output
    assert f"the report is {output}/report.html" in done.stdout
    written = {each.name for each in (tmp_path / "a report").iterdir() if not each.name.startswith(".")}
    assert written >= {"report.html", "by_origin", "pending"}
    # Spark notes its jobs on a thread of its own.
    until(lambda: "Some(redelivery report: counting the dead letters)" in _described(spark), "the job has its step")

    refused = CliRunner().invoke(app, ["pipeline", "report", "--config", str(file), "--output", str(file)])

    assert refused.exit_code == 2, refused.output
    assert "is a file" in refused.output


def _described(spark: SparkSession) -> set[str]:
    """Return the descriptions of the jobs that Spark has noted."""
    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return {jobs.apply(number).description().toString() for number in range(jobs.size())}


def _is_harmless(text: str, exception: str) -> None:
    assert "<script>" in exception  # it did get that far
    found = _Tags()
    found.feed(text)
    assert found.tags.isdisjoint({"script", "img", "iframe", "link", "object", "embed"})
    assert all(link.startswith("#") for link in found.links)
    assert not re.findall(r"url\((?!#)", text)
    assert "&lt;script&gt;" in text


def _commit(cluster: Cluster, group: str, topic: str) -> bool:
    """Return whether the group coordinator took the offset; on a new broker it needs a moment."""
    try:
        cluster.commit(group, topic, 0, 3)
    except (AssertionError, KafkaException):
        return False
    return True


def _retry(source: str, offset: int, deliveries: int) -> Sent:
    lineage = Lineage(source, 0, offset, FIRST_MS + offset, deliveries)
    return Sent(b"{}", b"k", retry_headers(lineage, "billing", [], Retry(1000, FIRST_MS + 1000)), 0, FIRST_MS)


def _ready(source: str, offset: int, deliveries: int) -> Sent:
    return Sent(b"{}", b"k", ready_headers(_retry(source, offset, deliveries).headers), 0, FIRST_MS + 1000 * deliveries)


def test_a_letter_that_was_moved_counts_once(spark: SparkSession) -> None:
    """When it died, if the archive or its topic has that, and otherwise when it was moved."""
    old: HeaderList = [("redrive", b"job/0@1/1"), ("JMSExpiration", b"5")]
    found = [("_AMQ_ACTUAL_EXPIRY", b"4")]
    rows = [
        ("DLQ", 0, "billing", "orders-0@1", "rejected", old),
        ("EXP", 0, "billing", "orders-0@1", "rejected", expired_dead_letter_headers(old, 6)),
        ("DLQ", 1, "billing", "orders-0@1", "rejected", old[1:]),  # before it was sent again
        ("EXP", 1, "billing", "orders-0@2", "rejected", expired_dead_letter_headers(old, 6)),
        ("DLQ", 2, "billing", "orders-0@3", "expired", found),
        ("EXP", 2, "billing", "orders-0@3", "expired", expired_dead_letter_headers(found, 6)),
        ("EXP", 3, "billing", "orders-0@4", "expired", found),
        ("EXP", 4, None, None, None, None),
    ]
    kinds = "topic string, offset int, origin_group string, origin_message_id string, reason string"
    letters = spark.createDataFrame(rows, f"{kinds}, headers array<struct<key: string, value: binary>>")
    kept = {(row["topic"], row["offset"]) for row in died_once(letters).collect()}
    assert kept == {("DLQ", 0), ("DLQ", 1), ("EXP", 1), ("DLQ", 2), ("EXP", 3), ("EXP", 4)}


def test_records_in_a_handler_count_as_waiting(spark: SparkSession) -> None:
    """A record waits until it is done: unread, in a handler, or in place."""
    copies = spark.createDataFrame([(status,) for status in (DONE, IN_HAND, IN_PLACE, UNREAD)], "status string")

    assert {row["status"] for row in pending(copies).collect()} == {IN_HAND, IN_PLACE, UNREAD}


def test_an_empty_report_has_a_page(spark: SparkSession, cluster: Cluster, unique: str) -> None:
    """Without topics and dead letters, the report succeeds and the page says that no record waits."""
    settings = settings_of(cluster, unique, f"{unique}.orders")

    report = make_report(archive_session(spark), Request(settings=settings), FIRST_MS)

    assert (report.letters, report.failed, report.curve) == (0, 0, [])
    assert "no record waits" in page(report)
