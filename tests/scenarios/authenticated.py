"""A broker with users and ACLs: it has an anonymous listener for the tests, and one on which clients log in."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

ADDRESS = "127.0.0.1"
_PASSWORD = "correct horse"  # noqa: S105 - of users of a test
_ANSWER_S = 45.0
_TYPES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Acl(NamedTuple):
    """One ACL that allows or denies an operation, in the words of ``kafka-acls.sh``."""

    principal: str
    flag: str
    pattern: str
    name: str
    operation: str
    permission: str = "allow"


class AuthenticatedKafka:
    """The tests themselves may do anything; the rights of users depend on ACLs."""

    def __init__(self, cluster: Cluster, address: str, protocol: str) -> None:
        self.cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.servers, "log_level": 0})
        self.kafka = {
            "bootstrap.servers": address,
            "security.protocol": protocol,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.password": _PASSWORD,
        }
        """Client settings of all users; ``sasl.username`` is to be added."""

    def settings(self, user: str) -> dict[str, str]:
        """Return the client settings of a user."""
        return self.kafka | {"sasl.username": user}

    def add_users(self, names: Iterable[str]) -> None:
        """Create users with one password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter_users(UserScramCredentialUpsertion(name, info, _PASSWORD.encode()) for name in names)

    def delete_user(self, name: str) -> None:
        """Delete a user: its connections stay, but it can open no more."""
        self._alter_users([UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)])

    def _alter_users(self, alterations: Iterable[UserScramCredentialAlteration]) -> None:
        for answer in self._admin.alter_user_scram_credentials(list(alterations)).values():
            answer.result(_ANSWER_S)

    def grant(self, acls: Iterable[Acl]) -> None:
        """Create ACLs, and wait until the broker has them."""
        wanted = list(acls)
        for answer in self._admin.create_acls([AclBinding(*_fields(acl)) for acl in wanted]).values():
            answer.result(_ANSWER_S)
        until(lambda: all(self.exists(acl) for acl in wanted), "the ACLs exist")

    def revoke(self, acl: Acl) -> None:
        """Delete an ACL, and wait until the broker has forgotten it."""
        for answer in self._admin.delete_acls([AclBindingFilter(*_fields(acl))]).values():
            assert len(answer.result(_ANSWER_S)) == 1
        until(lambda: not self.exists(acl), "the ACL is deleted")

    def exists(self, acl: Acl) -> bool:
        """Whether there is an ACL."""
        return bool(self._admin.describe_acls(AclBindingFilter(*_fields(acl))).result(_ANSWER_S))


_Fields = tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]


def _fields(acl: Acl) -> _Fields:
    """Return what the client calls an ACL by; it writes ``DescribeConfigs`` as ``DESCRIBE_CONFIGS``."""
    pattern = ResourcePatternType[acl.pattern.upper()]
    operation = AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", acl.operation).upper()]
    return _TYPES[acl.flag], acl.name, pattern, acl.principal, "*", operation, AclPermissionType[acl.permission.upper()]


@contextmanager
def authenticated_kafka(protocol: str, properties: Mapping[str, str]) -> Iterator[AuthenticatedKafka]:
    """Start the broker, without users and ACLs.

    Args:
        protocol: the security protocol of the listener on which clients log in, whose name is ``NAMED``.
        properties: further properties of the broker.
    """
    client, controller, named = (f"{ADDRESS}:{free_port()}" for _ in range(3))
    whole = {
        "listeners": f"CLIENT://{client},CONTROLLER://{controller},NAMED://{named}",
        "advertised.listeners": f"CLIENT://{client},NAMED://{named}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": f"CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,NAMED:{protocol}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.named.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **properties,
    }
    with EmbeddedKafka(port=int(client.rpartition(":")[2]), properties=whole) as broker:
        yield AuthenticatedKafka(Cluster(broker.bootstrap_servers), named, protocol)
