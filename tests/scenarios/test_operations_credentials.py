"""Rotating credentials: the processes change to a new user one by one, and then the old user is deleted."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, exactly
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

_MECHANISM = ScramMechanism.SCRAM_SHA_512


class Users:
    """The users of a broker that has an anonymous listener for the tests and one with SCRAM."""

    def __init__(self, servers: str, authenticated: str) -> None:
        self.servers = servers
        self._authenticated = authenticated
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def create(self, user: str) -> dict[str, str]:
        """Create a user and return the client settings for it."""
        self._alter(UserScramCredentialUpsertion(user, ScramCredentialInfo(_MECHANISM, 4096), user.encode()))
        return {
            "bootstrap.servers": self._authenticated,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": user,
        }

    def delete(self, user: str) -> None:
        """Delete a user: its connections stay, but it can open no more."""
        self._alter(UserScramCredentialDeletion(user, _MECHANISM))

    def _alter(self, alteration: UserScramCredentialAlteration) -> None:
        for done in self._admin.alter_user_scram_credentials([alteration]).values():
            done.result(45)


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    """Start the broker."""
    ports = [free_port() for _ in range(3)]
    plain, controller, authenticated = (f"127.0.0.1:{port}" for port in ports)
    properties = {
        "listeners": f"CLIENT://{plain},CONTROLLER://{controller},NAMED://{authenticated}",
        "advertised.listeners": f"CLIENT://{plain},NAMED://{authenticated}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,NAMED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.named.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    with EmbeddedKafka(port=ports[0], properties=properties) as broker:
        yield Users(broker.bootstrap_servers, authenticated)


@pytest.fixture
def cluster(users: Users) -> Cluster:
    """That broker, instead of the one that all tests share."""
    return Cluster(users.servers)


@pytest.mark.kafka
def test_a_process_at_a_time(group: Group, users: Users) -> None:
    """Every record is handled once, also those sent during the change; a process with the old user does not start."""
    before, after = users.create("billing-1"), users.create("billing-2")
    group.prepare()
    group.configure(kafka=before)
    processes = {"w1": group.worker("w1"), "w2": group.worker("w2"), "s1": group.scheduler("s1")}
    sent = 0

    def send() -> None:
        nonlocal sent
        group.send([["ok"], ["raise", "ok"]] * 10, first=sent)
        sent += 20

    send()
    until(lambda: len(group.outputs()) == sent, "the first records are handled")
    group.configure(kafka=after)
    for name, process in processes.items():
        send()
        process.stop()
        group.start("scheduler" if name == "s1" else "worker", name)
        send()
    until(lambda: len(group.outputs()) == sent, "the records sent meanwhile are handled")

    users.delete("billing-1")
    send()
    group.settle()
    group.configure(kafka=before)
    late = group.worker("w3")
    assert late.wait(60) == exit_codes.FAILED
    assert "authentication" in late.log.lower()
    group.stop()
    assert group.outputs() == exactly(range(sent))
    assert group.dead() == exactly([])
