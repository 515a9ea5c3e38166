"""Connections over which a secret or a record could be read or changed on its way: they work, and deserve a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_redelivery.topology.config.rules.clients import CLIENT_PREFIXES, bare_name
from kafka_redelivery.topology.config.settings import OutputSection, Settings, SourceSection
from kafka_redelivery.topology.faults import Severity, TopologyFault

_LOGIN = ("security.protocol", "sasl.mechanism", "sasl.mechanisms")
_OFF = {"false", "f", "0", "no", "n", "off"}
_SECRETS = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""What a mechanism sends as it is."""


def exposed(settings: Settings) -> Iterator[TopologyFault]:
    """Yield the settings of connections that let others read or change what is sent; none if there are none."""
    kafka = {name: str(value).strip() for name, value in settings.kafka.items()}
    yield from _logins(kafka)
    for name, value in kafka.items():
        if found := _weak(bare_name(name), value.lower()):
            yield TopologyFault(Severity.WARN, f"kafka.{name}", *found)
    yield from _registries(settings)


def _logins(kafka: Mapping[str, str]) -> Iterator[TopologyFault]:
    for client in ("", *CLIENT_PREFIXES):
        if client and not any(f"{client}{name}" in kafka for name in _LOGIN):
            continue
        own = {
            **kafka,
            **{name.removeprefix(client): value for name, value in kafka.items() if name.startswith(client)},
        }
        protocol = own.get("security.protocol", "plaintext").upper()
        mechanism = own.get("sasl.mechanism", own.get("sasl.mechanisms", "GSSAPI")).upper()
        if protocol == "SASL_PLAINTEXT" and mechanism in _SECRETS:
            problem, loss = f"is {protocol} with {mechanism}", f"{_SECRETS[mechanism]} crosses the network unencrypted"
            yield TopologyFault(Severity.WARN, f"kafka.{client}security.protocol", problem, loss, "write SASL_SSL")


def _weak(name: str, value: str) -> tuple[str, str, str] | None:
    """Return problem, loss and fix of a setting that switches a protection off."""
    if name == "ssl.endpoint.identification.algorithm" and value in {"", "none"}:
        loss = "each server with a certificate of the same authority is taken for a broker"
        return "is off", loss, "remove it, and give the brokers certificates with their host names"
    if name == "enable.ssl.certificate.verification" and value in _OFF:
        loss = "each server is taken for a broker, and may get the password"
        return "is off", loss, "remove it, and name the authority with ssl.ca.location"
    if name == "sasl.oauthbearer.token.endpoint.url" and value.startswith("http:"):
        return "is http", "the client's secret and the token cross the network unencrypted", "use https"
    return None


def _registries(settings: Settings) -> Iterator[TopologyFault]:
    topics: list[tuple[str, SourceSection | OutputSection]] = [("source", each) for each in settings.sources]
    topics += [("output", each) for each in settings.outputs]
    for kind, section in topics:
        for part, serde in (("key", section.key), ("value", section.value)):
            urls = serde.registry.get("url", "").lower()
            secret = "@" in urls or any("auth" in name for name in serde.registry)
            if secret and any(url.strip().startswith("http:") for url in urls.split(",")):
                loss = "the registry's password crosses the network unencrypted"
                where = f"{part}.registry.url of {kind} {section.topic}"
                yield TopologyFault(Severity.WARN, where, "is http", loss, "use https")
