"""A broker with authorization, and a user whose rights the tests restrict."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster


class Gatekeeper:
    """A broker with authorization: the tests may do anything, the user ``limited`` anything that no ACL restricts."""

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
        """Allow the user only these operations on the topic from now on."""
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


@contextmanager
def guarded_kafka() -> Iterator[Gatekeeper]:
    """Start a broker with two listeners: an anonymous one for the tests and one with SASL."""
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
