"""A file with certificates or keys that the Kafka client cannot use is named before the client gets it."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.transport.certificates import unusable_files
from kafka_redelivery.transport.clients.setting_check import setting_violations
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.opening import open_admin, open_consumer, open_producer
from tests.scenarios.secured import certificate

_TLS = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Good ones and wrong ones."""
    (tmp_path / "other").mkdir()
    authority, identity = certificate(tmp_path)
    key = load_pem_private_key(identity.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open"))
    store = pkcs12.serialize_key_and_certificates(b"x", key, None, None, NoEncryption())  # type: ignore[arg-type]
    content = {
        "locked": locked,
        "store": store,
        "cut store": store[:-9],
        "store of no length": b"\x30\x80\x02\x01\x03\0\0",
        "cut store of no length": b"\x30\x80\x02\x01\x03",
        "cut": authority.read_bytes()[:-60],
        "empty": b"",
        "text": b"a password, perhaps",
    }
    found = {"authority": authority, "identity": identity, "other": certificate(tmp_path / "other")[1]}
    for name, each in content.items():
        found[name] = tmp_path / name
        found[name].write_bytes(each)
    return found | {"folder": tmp_path, "missing": tmp_path / "missing", "probe": Path("probe")}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ssl.ca.location": "missing"}, "cannot be read: No such file"),
        ({"ssl.ca.location": "empty"}, "has no certificate"),
        ({"ssl.ca.location": "text"}, "has no certificate"),
        ({"ssl.ca.location": "cut"}, "or a damaged one"),
        ({"https.ca.location": "cut"}, "or a damaged one"),
        ({"https.ca.location": "probe"}, "cannot be read: No such file"),
        ({"ssl.crl.location": "cut"}, "or a damaged one"),
        ({"ssl.certificate.location": "folder"}, "cannot be read: Is a directory"),
        ({"ssl.certificate.location": "text", "ssl.key.location": "identity"}, "has no certificate"),
        ({"ssl.certificate.location": "identity", "ssl.key.location": "text"}, "has no private key"),
        ({"ssl.certificate.location": "identity", "ssl.key.location": "other"}, "is not the key of"),
        ({"ssl.certificate.location": "identity", "ssl.key.location": "locked"}, "another password"),
        ({"ssl.keystore.location": "cut store"}, "cut off"),
        ({"ssl.keystore.location": "cut store of no length"}, "cut off"),
        ({"ssl.keystore.location": "identity"}, "no PKCS#12 file"),
        ({"ssl.keystore.location": "empty"}, "no PKCS#12 file"),
    ],
)
def test_a_file_that_cannot_be_used(files: dict[str, Path], settings: dict[str, str], problem: str) -> None:
    """`config check` and the opening of a client name the setting and the file."""
    given = _TLS | {name: str(files[each]) for name, each in settings.items()}
    (found,) = unusable_files(given)
    assert list(unusable_files(given | {"security.protocol": "SASL_SSL"})) == [found]
    assert found.setting in settings
    assert given[found.setting] in found.problem
    assert problem in found.problem
    for open_client in (open_admin, open_consumer, open_producer):
        with pytest.raises(ClientSettingsError, match=f"kafka.{found.setting} names "):
            open_client(dict(given))


def test_files_that_can_be_used(files: dict[str, Path]) -> None:
    """A key may need its password, and authorities may be a folder, or found by the client."""
    pair = {"ssl.certificate.location": str(files["identity"])}
    for settings in (
        {"ssl.ca.location": str(files["authority"])},
        {"ssl.ca.location": str(files["folder"])},
        {"ssl.ca.location": "probe"},
        pair,
        pair | {"ssl.key.location": str(files["identity"])},
        pair | {"ssl.key.location": str(files["locked"]), "ssl.key.password": "open"},
        {"ssl.keystore.location": str(files["store"])},
        {"ssl.keystore.location": str(files["store of no length"])},
    ):
        assert not list(unusable_files(_TLS | settings)), settings
    assert not list(unusable_files({"ssl.ca.location": "missing"})), "nothing is encrypted"


def test_a_configuration_is_checked_for_each_client(files: dict[str, Path]) -> None:
    """A file that all clients use is named once."""
    text = f"""
group: billing
kafka:
  bootstrap.servers: 127.0.0.1:1
  security.protocol: SSL
  ssl.ca.location: {files["missing"]}
  producer.ssl.certificate.location: {files["text"]}
sources: [{{topic: orders}}]
"""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(text, checks=(setting_violations,))
    assert [each.location for each in caught.value.faults] == [
        "redelivery.yaml:6:20 kafka.ssl.ca.location",
        "redelivery.yaml:7:38 kafka.producer.ssl.certificate.location",
    ]
