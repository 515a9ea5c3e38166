"""On a broker that denies what no ACL allows, the ACLs that `redelivery topology acls` prints are enough."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.trimming import trim
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.commands import Done, redelivery
from tests.scenarios.letters import expiring, kept, letter, now_ms
from tests.scenarios.running import Group, Process, Role, exactly
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.secured import acls_of, secured_kafka
from tests.scenarios.waiting import until

_PARTITIONS = 2
_RETRIES = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
_DENIED = ("authoriz", "authoris", "denied", "forbidden", "grant the right")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthenticatedKafka]:
    """A broker that denies what no ACL allows."""
    with secured_kafka(tmp_path_factory.mktemp("tls")) as found:
        yield found


class Users:
    """A group of which every role has a user of its own, without rights at first."""

    def __init__(self, secured: AuthenticatedKafka, group: Group) -> None:
        self.secured = secured
        self.group = group
        secured.add_users(self.name(role) for role in AclRole)

    def name(self, role: str) -> str:
        """The name of the user of a role."""
        return f"{self.group.name}-{role}"

    def configure(self, **sections: object) -> None:
        """Write the configuration, and create source and output."""
        self.group.configure(
            kafka=self.secured.kafka, outputs=[{"topic": self.group.output}], limits={"batch": 100}, **sections
        )
        self.group.cluster.create(self.group.source, self.group.output, partitions=_PARTITIONS)

    def acls(self, role: str) -> list[Acl]:
        """What the command prints for a role."""
        done = redelivery("topology", "acls", f"--role={role}", file=self.group.file)
        assert done.code == 0, done.err
        found = acls_of(done.out)
        assert {acl.principal for acl in found} == {f"User:{self.name(role)}"}
        return found

    def grant(self, *roles: str) -> None:
        """Grant what the command prints for these roles."""
        self.secured.grant(acl for role in roles for acl in self.acls(role))

    def apply(self) -> None:
        """Grant the rights of `topology apply`, and run it."""
        self.grant("apply")
        applied = self.topology("apply")
        assert applied.code == 0, applied.err

    def settings(self, role: str) -> Settings:
        """The configuration with the user of a role."""
        user = f"kafka.sasl.username={self.name(role)}"
        return load_settings(self.group.file.read_text(encoding="utf-8"), overrides=[user])

    def topology(self, command: str) -> Done:
        """Run a command of `redelivery topology` as the user `apply`."""
        user = f"--set=kafka.sasl.username={self.name('apply')}"
        return redelivery("topology", command, user, file=self.group.file)

    def start(self, role: Role, *settings: str) -> Process:
        """Start a process as its user."""
        return self.group.start(role, f"{role}-1", f"kafka.sasl.username={self.name(role)}", *settings)


@pytest.fixture
def users(secured: AuthenticatedKafka, unique: str, tmp_path: Path) -> Iterator[Users]:
    """A group and its users."""
    found = Group(secured.cluster, unique, tmp_path)
    try:
        yield Users(secured, found)
    finally:
        found.close()


def _denials(process: Process) -> list[str]:
    return [line for line in process.log.splitlines() if any(word in line.lower() for word in _DENIED)]


def _no_denials(*processes: Process) -> None:
    for process in processes:
        assert not _denials(process)


_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "transacted": {"journal": True},
    "auto": {"mode": "auto"},
    "mixed": {
        "policyEntry": {"redeliveryPolicy": _RETRIES | {"useCollisionAvoidance": True, "collisionAvoidancePercent": 50}}
    },
}


@pytest.mark.kafka
@pytest.mark.parametrize("sections", _CONFIGURATIONS.values(), ids=_CONFIGURATIONS.keys())
def test_every_record_arrives(users: Users, sections: dict[str, Any]) -> None:
    """Successes, retries and dead letters arrive, nothing is denied, and what is finished is trimmed."""
    group = users.group
    users.configure(**{"policyEntry": {"redeliveryPolicy": _RETRIES}, "topics": {"auditHorizon": "1s"}} | sections)
    assert users.topology("apply").code != 0
    users.apply()
    users.grant("worker", "scheduler")
    scheduler, worker = users.start("scheduler"), users.start("worker")
    group.send([["ok"], ["raise", "ok"], ["raise", "raise"], ["reject"]] * 10)
    group.settle()
    assert group.outputs() == exactly(n for n in range(40) if n % 4 < 2)
    assert group.dead() == exactly(n for n in range(40) if n % 4 >= 2)
    checked = users.topology("check")
    assert checked.code == 0, checked.out + checked.err
    group.stop()
    _no_denials(scheduler, worker)
    trimmed = trim(users.settings("scheduler"), now_ms() + 60_000)
    kinds = {topic.removeprefix(f"{group.name}.").partition(".")[0] for topic, _ in trimmed}
    assert kinds == {"retry", "ready", *(["journal"] if sections.get("journal") else [])}


@pytest.mark.kafka
def test_dead_letters_are_counted_and_expire(users: Users) -> None:
    """A scheduler with a metrics port counts dead letters, and moves expired ones to their expiry topic."""
    group = users.group
    port = free_port()
    policy = expiring(3_600_000, expiryAddress="EXP.{topic}")
    users.configure(policyEntry=policy, metrics={"port": port, "host": "127.0.0.1"})
    users.apply()
    users.grant("scheduler")
    scheduler = users.start("scheduler")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])
    group.cluster.produce(group.dead_letters, [letter(group, n, now_ms() + 3_600_000) for n in range(5, 8)])
    until(lambda: kept(group) == [5, 6, 7], "expired dead letters are removed")
    assert kept(group, f"EXP.{group.source}") == list(range(5))
    until(lambda: value_of(port, "redelivery_dead_letter_depth") == 8, "all in both topics are counted")
    group.stop()
    _no_denials(scheduler)


@pytest.mark.kafka
def test_a_policy_changes(users: Users) -> None:
    """With the same ACLs a new tier is created, and the former one is still emptied."""
    group = users.group
    users.configure(policyEntry={"redeliveryPolicy": _RETRIES | {"initialRedeliveryDelay": 5000}})
    users.apply()
    users.grant("worker", "scheduler")
    worker = users.start("worker")
    group.send([["raise", "ok"]] * 10)
    until(lambda: len(group.cluster.read(group.tier("5s"))) == 10, "the records wait")
    worker.stop()

    group.configure(policyEntry={"redeliveryPolicy": _RETRIES})
    applied = users.topology("apply")
    assert applied.code == 0, applied.err
    worker, scheduler = users.start("worker"), users.start("scheduler")
    group.send([["raise", "ok"]] * 10, first=10)
    group.settle()
    assert group.outputs() == exactly(range(20))
    group.stop()
    _no_denials(worker, scheduler)
