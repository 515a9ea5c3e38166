"""Settings of connections that let others read or change what is sent are warned of."""

import json
from typing import Any

import pytest

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.rules.clients import exposed


def _found(kafka: dict[str, Any], registry: dict[str, str] | None = None) -> list[str]:
    value = {"format": "avro", "registry": registry} if registry else {}
    source, output = {"topic": "orders", "value": value}, {"topic": "receipts", "value": value}
    document = {"group": "g", "kafka": {"bootstrap.servers": "x"} | kafka, "sources": [source], "outputs": [output]}
    return [each.topic for each in exposed(load_settings(json.dumps(document)))]


@pytest.mark.parametrize(
    ("kafka", "where"),
    [
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "kafka.security.protocol"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER"}, "kafka.security.protocol"),
        (
            {"producer.security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "kafka.producer.security.protocol",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "spark.sasl.mechanism": "PLAIN"},
            "kafka.spark.security.protocol",
        ),
        ({"ssl.endpoint.identification.algorithm": "none"}, "kafka.ssl.endpoint.identification.algorithm"),
        (
            {"producer.ssl.endpoint.identification.algorithm": "none"},
            "kafka.producer.ssl.endpoint.identification.algorithm",
        ),
        ({"enable.ssl.certificate.verification": False}, "kafka.enable.ssl.certificate.verification"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "HTTP://login/token"},
            "kafka.sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_an_exposed_connection(kafka: dict[str, Any], where: str) -> None:
    """The warning names the setting."""
    assert _found(kafka) == [where]


@pytest.mark.parametrize(
    "kafka",
    [
        {},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "admin.security.protocol": "SSL"},
        {"ssl.endpoint.identification.algorithm": "https", "enable.ssl.certificate.verification": True},
        {"sasl.oauthbearer.token.endpoint.url": "https://login/token"},
    ],
)
def test_nothing_to_warn_of(kafka: dict[str, Any]) -> None:
    """SCRAM does not send the password."""
    assert _found(kafka) == []


def test_a_registry_with_a_password() -> None:
    """Over http others read it, of a source and of an output, and if it is one address of several."""
    where = ["value.registry.url of source orders", "value.registry.url of output receipts"]
    assert _found({}, {"url": "http://u:p@registry"}) == where
    assert _found({}, {"url": "http://registry", "basic.auth.user.info": "u:p"}) == where
    assert _found({}, {"url": "https://one, http://two", "basic.auth.user.info": "u:p"}) == where
    assert _found({}, {"url": "http://registry"}) == []
    assert _found({}, {"url": "https://u:p@registry"}) == []
