"""A broker with TLS, SCRAM and authorization that denies what no ACL allows."""

import shlex
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
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
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until

_ADDRESS = "127.0.0.1"
_PASSWORD = "correct horse"  # noqa: S105 - of users of a test
_MECHANISM = "SCRAM-SHA-512"
_ANSWER_S = 30.0
_TYPES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Acl(NamedTuple):
    """One ACL, in the words of ``kafka-acls.sh``."""

    principal: str
    flag: str
    pattern: str
    name: str
    operation: str


class SecuredKafka:
    """The tests themselves may do anything; each user only what an ACL allows."""

    def __init__(self, cluster: Cluster, secured: str, authority: Path) -> None:
        self.cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.servers, "log_level": 0})
        self.kafka = {
            "bootstrap.servers": secured,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority),
            "sasl.mechanism": _MECHANISM,
            "sasl.password": _PASSWORD,
        }
        """Settings of all users; ``sasl.username`` is to be added."""

    def add_users(self, names: Iterable[str]) -> None:
        """Create users with one password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, _PASSWORD.encode()) for name in names
        ]
        for answer in self._admin.alter_user_scram_credentials(wanted).values():
            answer.result(_ANSWER_S)

    def grant(self, acls: Iterable[Acl]) -> None:
        """Create ACLs, and wait until the broker has them."""
        wanted = list(acls)
        for answer in self._admin.create_acls([_binding(acl) for acl in wanted]).values():
            answer.result(_ANSWER_S)
        until(lambda: all(self._exists(acl) for acl in wanted), "the ACLs exist")

    def revoke(self, acl: Acl) -> None:
        """Delete an ACL, and wait until the broker has forgotten it."""
        for answer in self._admin.delete_acls([_filter(acl)]).values():
            assert len(answer.result(_ANSWER_S)) == 1
        until(lambda: not self._exists(acl), "the ACL is deleted")

    def _exists(self, acl: Acl) -> bool:
        return bool(self._admin.describe_acls(_filter(acl)).result(_ANSWER_S))


def acls_of(script: str) -> list[Acl]:
    """Return what a script of ``kafka-acls.sh`` commands grants."""
    found = []
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "kafka-acls.sh"
        assert "--add" in words
        pairs = [(word, words[at + 1]) for at, word in enumerate(words[:-1]) if word.startswith("--")]
        values = dict(pairs)
        found += [
            Acl(values["--allow-principal"], flag, values["--resource-pattern-type"], name, operation)
            for flag, name in pairs
            if flag in _TYPES
            for word, operation in pairs
            if word == "--operation"
        ]
    return found


def _binding(acl: Acl) -> AclBinding:
    allow = AclPermissionType.ALLOW
    return AclBinding(_TYPES[acl.flag], acl.name, _pattern(acl), acl.principal, "*", _operation(acl), allow)


def _filter(acl: Acl) -> AclBindingFilter:
    allow = AclPermissionType.ALLOW
    return AclBindingFilter(_TYPES[acl.flag], acl.name, _pattern(acl), acl.principal, "*", _operation(acl), allow)


def _pattern(acl: Acl) -> ResourcePatternType:
    return ResourcePatternType[acl.pattern.upper()]


def _operation(acl: Acl) -> AclOperation:
    return AclOperation[
        {"DescribeConfigs": "DESCRIBE_CONFIGS", "AlterConfigs": "ALTER_CONFIGS"}.get(
            acl.operation, acl.operation.upper()
        )
    ]


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Start a broker with two listeners: an anonymous one for the tests, and one with TLS and SCRAM.

    Args:
        folder: gets the broker's key and certificate.
    """
    authority, identity = _certificate(folder)
    ports = [_free() for _ in range(3)]
    plain, controller, secured = (f"{_ADDRESS}:{port}" for port in ports)
    listener = "listener.name.secured"
    properties = {
        "listeners": f"CLIENT://{plain},CONTROLLER://{controller},SECURED://{secured}",
        "advertised.listeners": f"CLIENT://{plain},SECURED://{secured}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        "sasl.enabled.mechanisms": _MECHANISM,
        f"{listener}.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(identity),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }
    with EmbeddedKafka(port=ports[0], properties=properties) as broker:
        yield SecuredKafka(Cluster(broker.bootstrap_servers), secured, authority)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate that is its own authority, and the same with its key; return both files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a broker of a test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(_ADDRESS))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, identity = folder / "authority.pem", folder / "broker.pem"
    authority.write_bytes(public)
    identity.write_bytes(private + public)
    return authority, identity


def _free() -> int:
    with socket.socket() as probe:
        probe.bind((_ADDRESS, 0))
        number: int = probe.getsockname()[1]
        return number
