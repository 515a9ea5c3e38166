"""600 records are handled exactly once on each Kafka of docs/compatibility.md, with each protocol that it offers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import in_process, redelivery
from tests.scenarios.consoles import Browser, console, text_of
from tests.scenarios.redriving import dlq_json
from tests.scenarios.running import SHORT_SESSION, Group, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_SESSIONS: Final = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
_POLICY: Final = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}}


@contextmanager
def _group(version: str, name: str, folder: Path, protocol: str) -> Iterator[Group]:
    with EmbeddedKafka(version=version, properties=_SESSIONS) as kafka:
        group = Group(Cluster(kafka.bootstrap_servers), name, folder)
        session = SHORT_SESSION if protocol == "classic" else {}
        try:
            group.prepare(partitions=4, policyEntry=_POLICY, kafka={"group.protocol": protocol, **session})
            yield group
        finally:
            group.close()


def _runs(group: Group) -> None:
    """Let a worker be killed, dead letters be sent again, and a person look at the console."""
    fixed = group.folder / "fixed"
    group.send([["ok"]] * 540 + [["raise", "ok"]] * 40 + [[f"until {fixed}"]] * 20)
    group.scheduler()
    worker = group.worker()
    until(lambda: len(group.deliveries.began()) >= 100, "the worker is busy")
    worker.kill()
    group.worker()
    until(lambda: group.dead() == exactly(range(580, 600)), "the rest is dead")
    fixed.touch()
    assert dlq_json(group, "redrive", "--yes")["sent"] == 20
    group.settle()
    until(lambda: dlq_json(group, "jobs")["jobs"][0]["recovered"] == 20, "all outcomes are known")
    with console(group) as running, Browser(running) as browser:
        until(lambda: "20 dead letters" in text_of(browser.get("/failures?state=any")), "the console has read them")
    until(lambda: "no faults" in in_process("status", file=group.file).out, "status sees both processes")
    group.stop()
    assert group.outputs() == exactly(range(600))


@pytest.mark.parametrize(
    "version",
    ["3.6.2", *(pytest.param(each, marks=pytest.mark.long) for each in ("3.7.2", "3.9.2", "4.0.2", "4.3.1", "4.4.0"))],
)
def test_the_classic_protocol(version: str, unique: str, tmp_path: Path) -> None:
    """With a worker that is killed. What a broker before 4.0 does not offer is refused at the start."""
    with _group(version, unique, tmp_path, "classic") as group:
        _runs(group)
        if version < "4":
            group.configure(kafka={"group.protocol": "consumer"})
            for command, code in (
                ("worker", exit_codes.TOPOLOGY_REFUSED),
                ("scheduler", exit_codes.TOPOLOGY_REFUSED),
                ("topology check", exit_codes.FAILED),
            ):
                refused = redelivery(*command.split(), file=group.file)
                assert refused.code == code, refused
                assert "these brokers do not offer the consumer protocol (Kafka 4.0)" in refused.out + refused.err


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.0.2", "4.3.1", "4.4.0"])
def test_the_consumer_protocol(version: str, unique: str, tmp_path: Path) -> None:
    """The same. With 4.4.0, which all other tests use, many of them prove it in each run."""
    with _group(version, unique, tmp_path, "consumer") as group:
        _runs(group)
