"""A broker with TLS, SCRAM and authorization that denies what no ACL allows."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.scenarios.authenticated import ADDRESS, Acl, AuthenticatedKafka, authenticated_kafka

_FLAGS = ("--topic", "--group", "--transactional-id")


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
            if flag in _FLAGS
            for word, operation in pairs
            if word == "--operation"
        ]
    return found


@contextmanager
def secured_kafka(folder: Path) -> Iterator[AuthenticatedKafka]:
    """Start the broker.

    Args:
        folder: gets the broker's key and certificate.
    """
    authority, identity = certificate(folder)
    properties = {
        "listener.name.named.ssl.keystore.type": "PEM",
        "listener.name.named.ssl.keystore.location": str(identity),
        "allow.everyone.if.no.acl.found": "false",
    }
    with authenticated_kafka("SASL_SSL", properties) as broker:
        broker.kafka["ssl.ca.location"] = str(authority)
        yield broker


def certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate that is its own authority, and the same with its key; return both files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a broker of a test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(ADDRESS))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, identity = folder / "authority.pem", folder / "broker.pem"
    authority.write_bytes(public)
    identity.write_bytes(private + public)
    return authority, identity
