"""The audit works on the records of a streaming query as on those of workers."""

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.archive.archive import archive_session
from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
from kafka_redelivery.pipeline.audit.result import AuditResult
from kafka_redelivery.pipeline.report.report import Request, make_report
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from tests.pipeline.streaming import prepare, run
from tests.scenarios.cluster import Seen, Sent
from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]


@pytest.mark.long
def test_exactly_what_was_removed_or_doubled(spark: SparkSession, group: Group) -> None:
    """After a query, audit and report agree and nothing is missing. Then each removed or doubled record is found."""
    policy = {"initialRedeliveryDelay": 200, "redeliveryDelay": 200, "maximumRedeliveries": 1}
    prepare(group, journal=True, policyEntry={"redeliveryPolicy": policy})
    group.send([["ok"]] * 40 + [["raise", "ok"]] * 6 + [["raise"]] * 6 + [["reject"]] * 3 + [["kill", "ok"]])
    run(group, spark)
    scheduler = group.scheduler()
    tier, scheduling = group.tier("200ms"), f"{group.name}.scheduler"
    until(lambda: not group.cluster.unfinished(scheduling, tier), "all are released", within_s=60)
    scheduler.stop()
    run(group, spark)

    counted = _audit(spark, group)
    assert counted.conserved
    assert _states(counted) == {"acked": 40, "recovered": 7, "dead_lettered": 9}
    report = make_report(archive_session(spark), Request(settings=_settings(group)), 0)
    assert (report.journal, report.acked, report.recovered, report.letters, report.waiting) == (True, 40, 7, 9, 0)
    assert sum(row["dead"] for row in report.survival) == 9

    done = _vandalise(group)

    found = _audit(spark, group)
    assert {each.message_id: each.why for each in found.findings} == done
    assert found.count("missing") + found.count("doubled") == len(done)


def _vandalise(group: Group) -> dict[str, str]:
    """Remove and double records. Return the expected finding of each record."""
    letters = group.cluster.read(group.dead_letters)
    doubled = next(letter for letter in letters if letter.partition == 0)
    removed = next(letter for letter in letters if letter.partition == 1)
    died = {_origin(letter) for letter in letters}
    stale = next(copy for copy in group.cluster.read(group.tier("200ms")) if _origin(copy) not in died)
    for record in (doubled, stale):
        again = Sent(record.value, record.key, record.headers, record.partition)
        group.cluster.produce(record.topic, [again])
    group.cluster.delete_before(group.dead_letters, 1, removed.offset + 1)
    # Two records are skipped by a commit of somebody else.
    group.cluster.produce(group.source, [script(900 + n, ["ok"], partition=0) for n in range(2)])
    skipped = [record.offset for record in group.cluster.read(group.source) if record.partition == 0][-2:]
    group.cluster.commit(group.name, group.source, 0, skipped[-1] + 1)
    return {
        _origin(doubled): "two_letters",
        _origin(removed): "letter_gone",
        _origin(stale): "two_copies",
        **dict.fromkeys((f"{group.source}-0@{offset}" for offset in skipped), "no_outcome"),
    }


def _audit(spark: SparkSession, group: Group) -> AuditResult:
    return audit(spark, _settings(group), AuditOptions(listed=100))


def _settings(group: Group) -> Settings:
    return load_settings(group.file.read_text(encoding="utf-8"))


def _states(result: AuditResult) -> dict[str, int]:
    states = dict.fromkeys((state for part in result.partitions for state in part.states), 0)
    return {state: result.count(state) for state in states if result.count(state)}


def _origin(record: Seen) -> str:
    return record.header("_AMQ_ORIG_MESSAGE_ID") or ""
