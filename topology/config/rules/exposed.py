"""Connections over which a secret or a record could be read or changed on its way: they work, and deserve a warning."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.topology.config.rules.clients import bare_name
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import Severity, TopologyFault

_OFF = {"false", "f", "0", "no", "n", "off"}
_SECRETS = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""What a mechanism sends as it is."""


def exposed(settings: Settings) -> Iterator[TopologyFault]:
    """Yield the settings of connections that let others read or change what is sent; none if there are none."""
    kafka = {name: str(value).strip() for name, value in settings.kafka.items()}
    protocol = kafka.get("security.protocol", "plaintext").upper()
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "GSSAPI")).upper()
    if protocol == "SASL_PLAINTEXT" and mechanism in _SECRETS:
        problem, loss = f"is {protocol} with {mechanism}", f"{_SECRETS[mechanism]} crosses the network unencrypted"
        yield TopologyFault(Severity.WARN, "kafka.security.protocol", problem, loss, "write SASL_SSL")
    for name, value in kafka.items():
        bare = bare_name(name)
        if bare == "ssl.endpoint.identification.algorithm" and value.lower() in {"", "none"}:
            loss = "each server with a certificate of the same authority is taken for a broker"
            fix = "remove it, and give the brokers certificates with their host names"
            yield TopologyFault(Severity.WARN, f"kafka.{name}", "is off", loss, fix)
        elif bare == "enable.ssl.certificate.verification" and value.lower() in _OFF:
            loss = "each server is taken for a broker, and may get the password"
            fix = "remove it, and name the authority with ssl.ca.location"
            yield TopologyFault(Severity.WARN, f"kafka.{name}", "is off", loss, fix)
    for source in settings.sources:
        for part, serde in (("key", source.key), ("value", source.value)):
            url = serde.registry.get("url", "").lower()
            secret = "@" in url or any("auth" in name for name in serde.registry)
            if secret and url.startswith("http:"):
                loss = "the registry's password crosses the network unencrypted"
                where = f"{part}.registry.url of source {source.topic}"
                yield TopologyFault(Severity.WARN, where, "is http", loss, "use https")
