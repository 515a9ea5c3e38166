"""What the user of the scheduler may not do is told with the right that is missing, and holds up nothing else."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery
from tests.scenarios.letters import emptied, expiring, kept, letter
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import until
from transport.embedded import EmbeddedKafka

_REFUSED = "redelivery_sweep_refused_total"
_ALL_BUT_DELETE = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")


class Gatekeeper:
    """A broker that asks who somebody is: tests may do anything, the user ``limited`` what nobody has forbidden."""

    def __init__(self, cluster: Cluster, limited: str) -> None:
        self.cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.servers, "log_level": 0})
        self.kafka = {
            "bootstrap.servers": limited,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "limited",
            "sasl.password": "secret",
        }
        """Settings of the limited user."""

    def allow(self, topic: str, *operations: str) -> None:
        """From now on only these on the topic."""
        for answer in self._admin.delete_acls([self._filter(topic)]).values():
            answer.result(30)
        granted = [self._binding(topic, AclOperation[operation]) for operation in operations]
        for done in self._admin.create_acls(granted).values():
            done.result(30)

    @staticmethod
    def _binding(topic: str, operation: AclOperation) -> AclBinding:
        literal = ResourcePatternType.LITERAL
        return AclBinding(ResourceType.TOPIC, topic, literal, "User:limited", "*", operation, AclPermissionType.ALLOW)

    @staticmethod
    def _filter(topic: str) -> AclBindingFilter:
        anything = AclOperation.ANY, AclPermissionType.ANY
        return AclBindingFilter(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:limited", "*", *anything)


@pytest.fixture(scope="module")
def gatekeeper() -> Iterator[Gatekeeper]:
    """It listens twice: as every broker of these tests, and for users who say who they are."""
    ports = [_free() for _ in range(3)]
    plain, controller, limited = (f"127.0.0.1:{port}" for port in ports)
    properties = {
        "listeners": f"CLIENT://{plain},CONTROLLER://{controller},NAMED://{limited}",
        "advertised.listeners": f"CLIENT://{plain},NAMED://{limited}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,NAMED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.named.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required user_limited="secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedKafka(port=ports[0], properties=properties) as broker:
        yield Gatekeeper(Cluster(broker.bootstrap_servers), limited)


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def group(gatekeeper: Gatekeeper, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group whose dead letters expire in an hour; who runs for it is the limited user."""
    found = Group(gatekeeper.cluster, unique, tmp_path)
    policy = expiring(3_600_000) | {"redeliveryPolicy": {"maximumRedeliveries": 3, "initialRedeliveryDelay": 200}}
    found.prepare(1, policyEntry=policy)
    found.configure(kafka=gatekeeper.kafka, metrics={"port": free_port(), "host": "127.0.0.1"})
    try:
        yield found
    finally:
        found.close()


@pytest.mark.kafka
def test_a_scheduler_that_may_not_delete_still_releases(group: Group, gatekeeper: Gatekeeper) -> None:
    """The log names topic and right, once; records are redelivered meanwhile; with the right all is removed."""
    port = group.configuration["metrics"]["port"]
    gatekeeper.allow(group.dead_letters, *_ALL_BUT_DELETE)
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    scheduler = group.scheduler()
    until(lambda: value_of(port, _REFUSED, dead_letter_topic=group.dead_letters) >= 2, "it was refused and tried again")
    told = [line for line in scheduler.log.splitlines() if "cannot be removed" in line]
    assert len(told) == 1
    assert f"{group.dead_letters}-0 cannot be removed" in told[0]
    assert "grant the right Delete on the topic" in told[0]

    group.configure(metrics={})
    group.worker()
    group.send([["raise", "ok"]] * 3)
    until(lambda: len(group.outputs()) == 3, "what failed is delivered again")
    assert kept(group) == list(range(5))

    done = redelivery("sweep", "--dry-run", file=group.file)
    assert "5 would be removed" in done.out
    gatekeeper.allow(group.dead_letters, *_ALL_BUT_DELETE, "DELETE")
    until(lambda: emptied(group), "they are removed when that is allowed")
    group.stop()


@pytest.mark.kafka
def test_a_topic_that_may_not_be_read_holds_up_no_other(group: Group, gatekeeper: Gatekeeper) -> None:
    """The log names it and the right; the other topic is swept, by the scheduler and by the command."""
    other = f"{group.name}.second"
    group.cluster.create(other, f"DLQ.{other}", f"{group.name}.ready.{other}", partitions=1)
    whole = [{"topic": group.source}, {"topic": other}]
    group.configure(kafka={})
    group.configure(sources=whole)
    group.apply()
    group.configure(kafka=gatekeeper.kafka)
    gatekeeper.allow(f"DLQ.{other}", "DESCRIBE", "DESCRIBE_CONFIGS", "WRITE")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    group.cluster.produce(f"DLQ.{other}", [letter(group, n, 1000) for n in range(5)])

    scheduler = group.scheduler(None)  # without a stable name it leaves the group when it ends
    until(lambda: emptied(group), "the topic that may be read is swept")
    until(lambda: f"topic DLQ.{other} may not be read" in scheduler.log, "the log tells the other one")
    assert "grant the right Read on it" in scheduler.log
    resting = "redelivery_sweep_resting_partitions"
    port = group.configuration["metrics"]["port"]
    until(lambda: value_of(port, resting, dead_letter_topic=f"DLQ.{other}", reason="refused") == 1, "and the metrics")
    group.stop()

    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    done = redelivery("sweep", "--json", file=group.file)
    assert done.code == 1, done.err
    first, second = sorted(json.loads(done.out)["topics"], key=lambda topic: topic["problem"] or "")
    assert (first["topic"], first["partitions"][0]["removed"]) == (group.dead_letters, 5)
    assert "grant the right Read on it" in second["problem"]
    assert emptied(group)
