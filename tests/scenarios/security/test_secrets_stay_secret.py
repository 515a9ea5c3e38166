"""A secret of the configuration is in nothing that a group writes: no topic, commit, metric, probe or log."""

import pytest

from tests.scenarios.canary import CANARY, REGISTRY, SECRETS, SPARK
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import topology
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until


def test_a_canary_in_every_secret(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is down, so log and probe describe a failure of a secret address. Dead letters need no registry."""
    ports = {"worker": free_port(), "scheduler": free_port()}
    group.prepare(
        kafka=SECRETS | {"log_level": 7, "debug": "all"},
        sources=[{"topic": group.source, "value": {"format": "avro", "registry": REGISTRY}}],
        pipeline={"checkpoint": "checkpoint", "spark": SPARK},
        journal=True,
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}},
    )
    monkeypatch.setenv("REDELIVERY_LOG_LEVEL", "debug")
    group.start("worker", "w1", f"metrics.port={ports['worker']}", "metrics.host=127.0.0.1")
    group.start("scheduler", "s1", f"metrics.port={ports['scheduler']}", "metrics.host=127.0.0.1")
    worker = group.processes[0]
    group.cluster.produce(group.source, [Sent(b"\x01%d" % n, b"k", partition=0) for n in range(4)])
    group.cluster.produce(group.source, [Sent(b"\x00\x00\x00\x00\x07%d" % n, b"k", partition=1) for n in range(4)])
    until(lambda: len(group.cluster.read(group.dead_letters)) == 4, "these are dead letters")
    until(lambda: "waits at offset 0, uncounted" in get(ports["worker"], "/readyz")[1], "the others wait")
    until(lambda: get(ports["scheduler"], "/readyz")[0] == 200, "the scheduler is ready")
    pages = [get(port, path) for port in ports.values() for path in ("/metrics", "/readyz", "/healthz")]
    checked = topology("check", file=group.file)
    group.stop()

    cause = group.cluster.read(group.dead_letters)[0].header("dlqDeliveryFailureCause") or ""
    assert "bad_magic" in cause, cause
    assert {status for status, _ in pages} == {200}
    topics = sorted(topic for topic in group.cluster.topics() if group.name in topic)
    assert {group.tier("200ms"), group.ready, group.journal, f"{group.name}.control"} < set(topics)
    assert "schema source registry http://********@127.0.0.1:1 is unavailable" in worker.log
    written = group.cluster.read(*topics)
    assert {record.topic for record in written} >= {group.journal, f"{group.name}.control", group.dead_letters}
    commits = [group.cluster.committed(name, *topics) for name in (group.name, f"{group.name}.scheduler")]
    assert all(commits)
    logs = [process.log for process in group.processes]
    assert all("DEBUG" in log for log in logs)
    assert CANARY not in str([written, commits, pages, logs, checked])
