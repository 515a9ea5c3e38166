"""With ``failureDetails: class-only`` no text of an exception and no key is in a header, a log or a metric."""

import json
import time

import pytest

from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import in_process
from tests.scenarios.redriving import dlq, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until

_CANARY = "canary7741"
_RECORDS = 12


def _damaged(group: Group) -> Sent:
    """Make a retry or ready record with a header that cannot be read."""
    headers = {
        "_AMQ_ORIG_ADDRESS": group.source,
        "_AMQ_ORIG_MESSAGE_ID": f"{group.source}-0@99",
        "JMSTimestamp": _CANARY,
        "JMSXDeliveryCount": "1",
        "_AMQ_SCHED_DELIVERY": str(int(time.time() * 1000)),
    }
    return Sent(b"{}", _CANARY.encode(), [(name, text.encode()) for name, text in headers.items()], 0)


@pytest.mark.long
def test_a_canary_in_exception_cause_and_key(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots in threads and in child processes, and the scheduler; the records themselves keep key and value."""
    monkeypatch.setenv("REDELIVERY_LOG_FORMAT", "json")  # its lines have the text and more
    ports = [free_port(), free_port(), free_port()]
    group.prepare(
        failureDetails="class-only",
        journal=True,
        handler={"callable": "tests.scenarios.handlers:telling"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}},
    )
    group.start("worker", "w1", f"metrics.port={ports[0]}", "metrics.host=127.0.0.1")
    group.start("worker", "w2", f"metrics.port={ports[1]}", "metrics.host=127.0.0.1", "handler.isolation=process")
    group.start("scheduler", "s1", f"metrics.port={ports[2]}", "metrics.host=127.0.0.1")
    until(lambda: sum(map(bool, group.cluster.members(group.name).values())) == 2, "both workers own partitions")

    group.cluster.produce(group.source, [Sent(b"{}", _CANARY.encode(), (), n % 2) for n in range(_RECORDS)])
    group.cluster.produce(group.ready, [_damaged(group)])
    group.cluster.produce(group.tier("200ms"), [_damaged(group)])
    until(lambda: len(group.cluster.read(group.dead_letters)) == _RECORDS + 2, "all are dead letters")
    group.settle()
    pages = [get(port, path) for port in ports for path in ("/metrics", "/readyz", "/healthz")]
    group.stop()

    letters = group.cluster.read(group.dead_letters)
    assert {letter.key for letter in letters} == {_CANARY.encode()}
    causes = [json.loads(letter.header("dlqDeliveryFailureCause") or "") for letter in letters]
    assert {(*cause.values(),)[:3] for cause in causes} == {
        ("redeliveries_exceeded", "ValueError", ""),
        ("bad_headers", "HeaderError", ""),
    }
    assert {len(cause["frames"]) for cause in causes if cause["exception"] == "ValueError"} == {1}
    assert not any(":" in frame for cause in causes for frame in cause["frames"])
    assert {status for status, _ in pages} == {200}
    assert _CANARY not in str(pages)
    for process in group.processes:
        assert _CANARY not in process.log
    # The index keeps no keys. Where letters are selected by one, they are read.
    for selected in ([], ["--key", _CANARY]):
        assert len(dlq_json(group, "list", "--each", *selected)["each"]) == _RECORDS + 2
        for form in ([], ["--json"]):
            listed = dlq(group, "list", "--each", *selected, *form)
            assert listed.code == 0
            assert _CANARY not in listed.out, (selected, form)
    # Dead letters that were written in full: their text is not shown either.
    failure = Failure(FailureKind.RAISED, "KeyError", _CANARY)
    in_full = [
        dead_letter_headers(
            Lineage(group.source, 0, n, 1_700_000_000_000, deliveries=1),
            group.name,
            [],
            DeadLetter(Reason.REJECTED, failure),
            int(time.time() * 1000),
        )
        for n in range(50, 52)
    ]
    group.cluster.produce(group.dead_letters, [Sent(b"{}", b"other", headers, 0) for headers in in_full])
    last = max(each.offset for each in group.cluster.read(group.dead_letters) if each.key == b"other")
    name = f"{group.dead_letters}-0@{last}"
    for command in (
        "list --each",
        "summary",
        f"show {name}",
        f"show {name} --diff {name}",
        "redrive --dry-run",
        "jobs",
    ):
        for form in ([], ["--json"]):
            said = dlq(group, *command.split(), *form)
            assert (said.code, _CANARY in said.out + said.err) == (0, False), (command, said)
    for words in (["find", "other"], ["find", f"{group.source}-0@50"], ["status"]):
        for form in ([], ["--json"]):
            found = in_process(*words, *form, file=group.file)
            assert _CANARY not in found.out + found.err, (words, found)
    assert "KeyError" in in_process("find", "other", file=group.file).out
    assert all("caused by KeyError" in process.log for process in group.processes[:2])
    topics = sorted(topic for topic in group.cluster.topics() if group.name in topic)
    assert {group.journal, f"{group.name}.control"} < set(topics)
    written = group.cluster.read(*topics)
    written = [each for each in written if each.key != b"other"]
    damaged = {(group.ready, _CANARY), (group.tier("200ms"), _CANARY)}
    assert {
        (each.topic, each.header("JMSTimestamp")) for each in written if _CANARY in str(each.headers)
    } == damaged  # as this test has written them
    own = [each for each in written if each.topic in {group.journal, f"{group.name}.control"}]
    assert own
    assert _CANARY not in str(own)
    for name in (group.name, f"{group.name}.scheduler"):
        assert _CANARY not in str(group.cluster.committed(name, *topics))
