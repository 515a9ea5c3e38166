"""The audit finds exactly the missing and doubled records, from the topics alone."""

import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
from kafka_redelivery.pipeline.audit.result import AuditResult
from kafka_redelivery.pipeline.audit.snapshot import parse_bound
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.wire.topic_mark import marked
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.topics import topic_marks
from tests.scenarios.cluster import Cluster, Partition, Seen, Sent
from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]

_SCRIPTS = {1: ["raise", "ok"], 2: ["raise", "raise", "ok"], 3: ["raise"], 4: ["reject"], 5: ["broken"]}
_EXPIRED = 7
"""The number of records that have expired before their delivery."""


@pytest.fixture
def group(cluster: Cluster, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group with a journal, whose records have every outcome."""
    found = Group(cluster, unique, tmp_path)
    try:
        found.prepare(
            journal=True,
            handler={"notRetryable": ["tests.scenarios.handlers:BrokenPromiseError"], "slots": 2, "ordering": "key"},
            policyEntry={
                "redeliveryPolicy": {"initialRedeliveryDelay": 200, "redeliveryDelay": 200, "maximumRedeliveries": 2},
                "deadLetterStrategy": {"processExpired": False},
            },
        )
        yield found
    finally:
        found.close()


@pytest.fixture
def finished(group: Group) -> Group:
    """The group without processes, after failures of all kinds."""
    # Without names, so that they leave their groups when they stop: offsets are only set in groups without members.
    worker, scheduler = group.worker(None), group.scheduler(None)
    _send_all_kinds(group, 100)
    group.settle()
    worker.stop()
    scheduler.stop()
    _write_nonsense(group)
    return group


def test_exactly_what_was_removed_or_doubled(spark: SparkSession, finished: Group) -> None:
    """After failures of all kinds only the removed and doubled records are found."""
    group = finished
    done = _vandalise(group)

    found = _audit(spark, group, listed=1, output=group.folder / "findings.jsonl")
    listed = [json.loads(line) for line in (group.folder / "findings.jsonl").read_text().splitlines()]
    assert {line["record"]: line["why"] for line in listed} == done
    assert (len(found.findings), found.count("missing") + found.count("doubled")) == (1, len(done))
    assert all(line["copies"] for line in listed if line["why"] in {"two_letters", "two_copies", "left_its_tier"})


@pytest.mark.long
def test_nothing_is_missing_after_failures_of_all_kinds(spark: SparkSession, finished: Group) -> None:
    """Each record has the state that its script says."""
    group = finished
    counted = _audit(spark, group)
    assert counted.conserved
    assert _states(counted) == {"acked": 46, "recovered": 20, "dead_lettered": 28, "discarded": 7}
    assert set(counted.unattributed) == {group.tier("200ms"), group.ready, group.dead_letters}


@pytest.mark.long
def test_without_a_journal_or_with_an_archive(spark: SparkSession, finished: Group) -> None:
    """Without a journal only what the topics tell is found. A letter that the archive has is not missing."""
    group = finished
    blind = _audit(spark, group, journal=False)
    assert blind.conserved
    assert _states(blind) == {"dead_lettered": 28, "untraced": 73}
    assert "cannot tell whether it was acked or lost" in " ".join(blind.notes)

    done = _vandalise(group)

    _archive(spark, group, next(record for record, why in done.items() if why == "letter_gone"))
    archived = _audit(spark, group, listed=100, archive=str(group.folder / "archive"))
    assert {each.message_id for each in archived.findings} == {r for r, why in done.items() if why != "letter_gone"}

    without = _audit(spark, group, listed=100, journal=False)
    assert archived.unattributed[group.dead_letters] == without.unattributed[group.dead_letters] + 1
    traceable = {record: why for record, why in done.items() if why in {"two_letters", "two_copies", "left_its_tier"}}
    assert {each.message_id: each.why for each in without.findings} == traceable


def test_a_source_that_was_created_again(spark: SparkSession, finished: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a finding. Journal and copies of the older topic say nothing about the new one, whose losses are found."""
    group = finished
    group.cluster.delete(group.source)
    group.cluster.create(group.source, partitions=2)
    worker, scheduler = group.worker(None), group.scheduler(None)
    _send_all_kinds(group, 40)
    group.settle()
    worker.stop()
    scheduler.stop()

    intact = _audit(spark, group)
    assert not intact.conserved
    assert (intact.created_again, intact.findings) == ((group.source,), ())
    assert _states(intact) == {"acked": 16, "recovered": 8, "dead_lettered": 10, "discarded": 7}

    group.cluster.produce(group.source, [script(900 + n, ["ok"], partition=0) for n in range(2)])
    end = group.cluster.ends(group.source)[group.source, 0]
    group.cluster.commit(group.name, group.source, 0, end)
    monkeypatch.setattr("kafka_redelivery.pipeline.spark.session.spark_session", lambda *_: nullcontext(spark))
    told = CliRunner().invoke(app, ["pipeline", "audit", "--json", "--config", str(group.file)])
    document = json.loads(told.stdout)
    assert (told.exit_code, document["ok"], document["created_again"]) == (1, False, [group.source])
    skipped = [f"{group.source}-0@{offset}" for offset in (end - 2, end - 1)]
    assert [(each["record"], each["why"]) for each in document["findings"]] == [
        (each, "no_outcome") for each in skipped
    ]
    text = CliRunner().invoke(app, ["pipeline", "audit", "--config", str(group.file)])
    assert text.exit_code == 1
    assert f"topic {group.source} was deleted and created again" in text.stdout


def test_entries_of_an_older_source_hide_no_loss(spark: SparkSession, group: Group) -> None:
    """The journal has an outcome for each offset that was skipped in the new topic, but these were other records."""
    for sent in (range(50), range(100, 180)):
        if sent.start:
            group.cluster.delete(group.source)
            group.cluster.create(group.source, partitions=2)
        group.cluster.produce(group.source, [script(n, ["ok"], partition=n % 2) for n in sent])
        mark = topic_marks(AdminCalls({"bootstrap.servers": group.cluster.servers}, timeout_s=10), [group.source])
        for number in range(2) if sent.start else ():  # it skips 25 records of the new topic
            group.cluster.commit(group.name, group.source, number, 25, marked(mark[group.source], ""))
        worker = group.worker(None)
        group.settle()
        worker.stop()
    found = _audit(spark, group)
    assert not found.conserved
    assert found.created_again == (group.source,)
    assert sum("25 records without a trace" in note for note in found.notes) == 2


@pytest.mark.long
def test_a_running_group_causes_no_findings(spark: SparkSession, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """While records move, audits find nothing. Records that are deleted from a tier unread are found."""
    worker, scheduler = group.worker(), group.scheduler()
    stop = threading.Event()
    producing = threading.Thread(target=_keep_sending, args=(group, stop))
    producing.start()
    try:
        until(lambda: group.cluster.ends(group.dead_letters)[group.dead_letters, 0] > 0, "letters come")
        audits = [_audit(spark, group) for _ in range(2)]
    finally:
        stop.set()
        producing.join()
    assert [each.findings for each in audits] == [(), ()]
    assert all(each.conserved and sum(_states(each).values()) > 0 for each in audits)

    group.settle()
    scheduler.stop()
    group.cluster.produce(group.source, [script(5000 + n, ["raise", "ok"], partition=0) for n in range(3)])
    until(lambda: _waiting(group) == 3, "three wait in the tier")
    worker.stop()
    partition = (group.tier("200ms"), 0)
    _delete(group, partition, group.cluster.ends(partition[0])[partition])

    end = group.cluster.ends(group.source)[group.source, 0]
    last = _audit(spark, group, first=parse_bound([f"{group.source}-0@{end - 4}", f"{group.source}-1@{10**9}"], "from"))
    assert sorted(each.offset for each in last.findings) == _last_offsets(group, 3)
    assert {each.why for each in last.findings} == {"no_outcome"}
    assert [each.partition for each in last.snapshot.removed] == [partition]
    monkeypatch.setattr("kafka_redelivery.pipeline.spark.session.spark_session", lambda *_: nullcontext(spark))
    told = CliRunner().invoke(app, ["pipeline", "audit", "--no-journal", "--json", "--config", str(group.file)])
    document = json.loads(told.stdout)
    assert (told.exit_code, document["ok"], document["findings"]) == (1, False, [])
    assert [(each["topic"], each["partition"]) for each in document["removed_unread"]] == [partition]


def _audit(spark: SparkSession, group: Group, **options: Any) -> AuditResult:  # noqa: ANN401 - of AuditOptions
    return audit(spark, load_settings(group.file.read_text(encoding="utf-8")), AuditOptions(**options))


def _states(result: AuditResult) -> dict[str, int]:
    states = dict.fromkeys((state for part in result.partitions for state in part.states), 0)
    return {state: result.count(state) for state in states if result.count(state)}


def _send_all_kinds(group: Group, number: int) -> None:
    """Send records, and one that cannot be decoded."""
    group.send(_SCRIPTS.get(n % 10, ["ok"]) for n in range(number - _EXPIRED))
    group.send([["ok"]] * _EXPIRED, first=number - _EXPIRED, headers=[("JMSExpiration", b"1")])
    group.cluster.produce(group.source, [Sent(b"not json")])


def _keep_sending(group: Group, stop: threading.Event) -> None:
    n = 0
    while not stop.wait(0.05):
        group.send([_SCRIPTS.get(number % 10, ["ok"]) for number in range(n, n + 5)], first=n)
        n += 5


def _write_nonsense(group: Group) -> None:
    """Write records of another program into the group's topics; none of them names a source record."""
    number, text = "JMSXDeliveryCount", "_AMQ_ORIG_MESSAGE_ID"
    ours = ("_AMQ_ORIG_QUEUE", group.name.encode())
    source = group.source.encode()
    strange: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        ((text, None), (number, b"1")),
        ((text, b"\xff\xfe\x00"), (number, b"\xff")),
        ((text, source), (number, b"1")),
        ((text, source + b"-0@" + b"9" * 19), (number, b"9" * 400)),
        ((text, source + b"-99999999999@0"), (number, b"-1")),
        ((text, source + b"-0@-1"), ("JMSExpiration", b"9" * 30)),
        ((text, b"x" * 100_000 + b"-0@1"), (number, b"1e3")),
        (("", b""), ("\u0000", b"\x00"), (text, b"\n" + source + b"-0@0")),
    ]
    for topic in (group.tier("200ms"), group.ready, group.dead_letters):
        records = [Sent(b"?", headers=(*headers, ours), partition=0) for headers in strange]
        group.cluster.produce(topic, records)
    entry = {"v": 1, "group": group.name, "topic": group.source, "partition": 0}
    group.cluster.produce(
        group.journal,
        [
            Sent(None),
            Sent(b"\xff\xfe"),
            Sent(b"[" * 5000),
            Sent(json.dumps(entry | {"acked": [[5, 1], [], [1], ["a", "b"]]}).encode()),
            Sent(json.dumps(entry | {"acked": "all"}).encode()),
            Sent(json.dumps(entry | {"group": "another", "acked": [[0, 2**62]]}).encode()),
            Sent(json.dumps(entry | {"partition": 7, "acked": [[0, 2**62]]}).encode()),
        ],
    )


def _vandalise(group: Group) -> dict[str, str]:
    """Remove and double records. Return the expected finding of each record."""
    done = {}
    # One letter doubled, one removed (the first of partition 1, with nothing in front of it).
    letters = [record for record in group.cluster.read(group.dead_letters) if record.header("dlqDeliveryFailureCause")]
    again = next(record for record in letters if record.partition == 0)
    _copy(group, again)
    done[_origin(again)] = "two_letters"
    first = next(record for record in letters if record.partition == 1)
    _delete(group, (group.dead_letters, 1), first.offset + 1)
    done[_origin(first)] = "letter_gone"
    # Two records are skipped in the source, and one in the tier, by commits of another program.
    group.cluster.produce(group.source, [script(900 + n, ["ok"], partition=0) for n in range(2)])
    skipped = [record.offset for record in group.cluster.read(group.source) if record.partition == 0][-2:]
    group.cluster.commit(group.name, group.source, 0, skipped[-1] + 1)
    done |= dict.fromkeys((f"{group.source}-0@{offset}" for offset in skipped), "no_outcome")
    worker = group.worker()
    group.cluster.produce(group.source, [script(950, ["raise", "ok"], partition=1)])
    lost = until(
        lambda: [r for r in group.cluster.read(group.tier("200ms")) if r.value and b'"n": 950,' in r.value],
        "it waits in the tier",
    )[0]
    worker.stop()
    group.cluster.commit(f"{group.name}.scheduler", lost.topic, lost.partition, lost.offset + 1)
    done[_origin(lost)] = "left_its_tier"
    # A retry record that was released before is there again.
    tier = [record for record in group.cluster.read(group.tier("200ms")) if record.header("AMQ_SCHEDULED_DELAY")]
    others = {_origin(record) for record in (*letters, lost)}
    stale = next(record for record in tier if _origin(record) not in others)
    _copy(group, stale)
    done[_origin(stale)] = "two_copies"
    return done


def _archive(spark: SparkSession, group: Group, record: str) -> None:
    """Write the columns of ``pipeline archive`` that an audit reads: a letter of this record, and one of ActiveMQ."""
    offsets = int(record.rpartition("@")[2]), LONG_MAX
    rows = [(group.dead_letters, 1, 0, group.name, group.source, 1, offset) for offset in offsets]
    columns = "topic string, partition int, offset bigint, origin_group string, origin_address string"
    letters = spark.createDataFrame(rows, f"{columns}, origin_partition int, origin_offset bigint")
    letters.selectExpr(
        "*",
        "timestamp_millis(1) AS dead_lettered_at",
        "timestamp_millis(1) AS origin_timestamp",
        "1 AS delivery_count",
        "CAST(NULL AS timestamp) AS expiration",
        "CAST(NULL AS timestamp) AS actual_expiry",
    ).write.format("delta").save(str(group.folder / "archive"))


def _copy(group: Group, record: Seen) -> None:
    group.cluster.produce(record.topic, [Sent(record.value, record.key, record.headers, record.partition)])


def _origin(record: Seen) -> str:
    return record.header("_AMQ_ORIG_MESSAGE_ID") or ""


def _delete(group: Group, partition: Partition, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": group.cluster.servers})
    wanted = [TopicPartition(*partition, offset)]
    for answer in admin.delete_records(wanted).values():
        answer.result(30)


def _waiting(group: Group) -> int:
    return len(group.cluster.unfinished(f"{group.name}.scheduler", group.tier("200ms")))


def _last_offsets(group: Group, number: int) -> list[int]:
    return [record.offset for record in group.cluster.read(group.source) if record.partition == 0][-number:]
