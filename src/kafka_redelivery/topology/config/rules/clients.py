"""Rules about Kafka client settings: which are required, which must not be set, and which are unsafe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from kafka_redelivery.topology.config.settings import OutputSection, Settings, SourceSection
from kafka_redelivery.topology.faults import TopologyFault, Violation, warning

JAVA_PREFIX = "spark."
"""Prefix of settings of the Java client, which only Spark uses."""

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.", JAVA_PREFIX)
"""A client setting with one of these prefixes is for that client only."""

DEFAULT_MAX_POLL_INTERVAL_MS = 300_000

DEFAULT_TRANSACTION_TIMEOUT_MS = 30_000
"""Together with the broker's scan every 10 s this is shorter than the default session time-out of 45 s, for which a
killed process without a stable name keeps its partitions anyway."""

PASSWORD_FILE = "sasl.password.file"  # noqa: S105 - the name of a setting
"""A setting of ours: the file that holds the password."""

OAUTH_CB = "oauth_cb"
"""A setting of ours: the name of the function that the Python client takes under this name."""

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_OWNED = {
    "group.id": "remove it; the setting group at the top of the file names the group",
    "group.instance.id": "remove it; it is derived from group and instance",
    "transactional.id": "remove it; it is derived from group and instance",
    "enable.auto.commit": "remove it; offsets are committed when records are finished",
    "enable.auto.offset.store": "remove it; offsets are stored when records are finished",
    "isolation.level": "remove it; consumers always read committed records only",
    "enable.partition.eof": "remove it; the consumers rely on end-of-partition events",
    "allow.auto.create.topics": "remove it; create topics with: redelivery topology apply",
}
_CLASSIC_ONLY = {
    "session.timeout.ms": "remove it; set group.consumer.session.timeout.ms on the broker",
    "heartbeat.interval.ms": "remove it; set group.consumer.heartbeat.interval.ms on the broker",
    "partition.assignment.strategy": "remove it; the broker assigns partitions, see group.remote.assignor",
    "group.protocol.type": "remove it",
}
"""Settings that the client refuses with ``group.protocol`` ``consumer``."""

_SHORTEST = timedelta(seconds=1)

_FUNCTION = re.compile(r"[\w.]+:[\w.]+")
_OFF = {"false", "f", "0", "no", "n", "off"}
_STARTS = {"earliest", "smallest", "beginning", "latest", "largest", "end"}


def client_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the ``kafka`` settings that are missing, reserved or unsafe."""
    kafka = settings.kafka
    yield from _token_rules(kafka)
    if not any(str(kafka.get(name, "")).strip() for name in _SERVERS):
        yield Violation(("kafka",), "has no bootstrap.servers", "add bootstrap.servers: host:9092")
    new_protocol = wants_consumer_protocol(settings)
    if new_protocol and settings.leave_on_stop and settings.instance is not None:
        problem = "is true, but with group.protocol: consumer a process with an instance name cannot leave its group"
        yield Violation(("leaveOnStop",), problem, "remove it, or remove instance")
    for name, value in kafka.items():
        bare = bare_name(name)
        text = str(value).strip().lower()
        path = ("kafka", name)
        if bare in _OWNED:
            problem = "must not be set: the delivery guarantees depend on its value"
            yield Violation(path, problem, _OWNED[bare], key=True)
        elif new_protocol and bare in _CLASSIC_ONLY:
            problem = "does not exist with group.protocol: consumer"
            yield Violation(path, problem, _CLASSIC_ONLY[bare], key=True)
        elif bare == PASSWORD_FILE and name.removesuffix(".file") in kafka:
            problem = f"is set beside {name.removesuffix('.file')}"
            yield Violation(path, problem, "remove one of the two", key=True)
        elif bare == "enable.idempotence" and text in _OFF:
            yield Violation(path, "is off: a retried write could be duplicated or reordered", "remove it")
        elif bare in {"acks", "request.required.acks"} and text not in {"all", "-1"}:
            problem = "acknowledges writes before all in-sync replicas have them"
            yield Violation(path, problem, "remove it, or write all")
        elif bare == "auto.offset.reset" and text not in _STARTS:
            problem = "is where a new group starts to read a source, and is neither earliest nor latest"
            yield Violation(path, problem, "write earliest or latest")


def _token_rules(kafka: Mapping[str, str | float]) -> Iterator[Violation]:
    for name, value in kafka.items():
        if bare_name(name) != OAUTH_CB:
            continue
        own = name.removesuffix(OAUTH_CB)
        if own == JAVA_PREFIX:
            fix = "remove it; Spark reads with the Java client, which needs a login handler in Java (docs/security.md)"
            yield Violation(("kafka", name), "is for clients in Python only", fix, key=True)
            continue
        clients = [_merged(kafka, client) for client in ([own] if own else CLIENT_PREFIXES[:3])]
        if not _FUNCTION.fullmatch(str(value)):
            fix = "name a function of yours, or one of kafka_redelivery.logins"
            yield Violation(("kafka", name), f"must be package.module:function, not {value!r}", fix)
        elif not any(takes_tokens(client) for client in clients):
            fix = "add security.protocol: SASL_SSL and sasl.mechanism: OAUTHBEARER"
            yield Violation(("kafka", name), "gives tokens, but no client logs in with one", fix, key=True)
        elif any(client.get("sasl.oauthbearer.method", "").lower() == "oidc" for client in clients):
            problem = "is set beside sasl.oauthbearer.method: oidc, with which the client gets its tokens by itself"
            yield Violation(("kafka", name), problem, "remove one of the two", key=True)


def takes_tokens(client: Mapping[str, object]) -> bool:
    """Whether a client logs in with a token, by its settings."""
    protocol = str(client.get("security.protocol", ""))
    return mechanism_of(client) == "OAUTHBEARER" and protocol.upper().startswith("SASL_")


def mechanism_of(client: Mapping[str, object]) -> str:
    """Return the SASL mechanism among the settings of a client, which has two names there; empty if there is none."""
    return str(client.get("sasl.mechanism", client.get("sasl.mechanisms", "")))


def _merged(kafka: Mapping[str, str | float], client: str) -> dict[str, str]:
    """Return the settings of one kind of client as text, under names without its prefix."""
    own = {name.removeprefix(client): value for name, value in kafka.items() if name.startswith(client)}
    return {name: str(value).strip() for name, value in {**kafka, **own}.items()}


def timing_rules(settings: Settings) -> Iterator[Violation]:
    """Yield time limits that contradict each other or the broker's."""
    limits = settings.limits
    timeout = limits.rebalance_timeout
    for path, limit in (
        (("limits", "shutdownTimeout"), limits.shutdown_timeout),
        (("metrics", "stalledAfter"), settings.metrics.stalled_after),
    ):
        if limit < _SHORTEST:
            yield Violation(path, "is less than a second, in which no process ends or reports", "write 1s or more")
    if limits.shutdown_timeout < timeout:
        yield Violation(
            ("limits", "shutdownTimeout"),
            "is shorter than limits.rebalanceTimeout, which is part of a shutdown",
            "raise it to limits.rebalanceTimeout or more",
        )
    interval_ms = _of_client(settings, "consumer", "max.poll.interval.ms", DEFAULT_MAX_POLL_INTERVAL_MS)
    if interval_ms.isdigit() and timeout.total_seconds() * 1000 >= int(interval_ms):
        yield Violation(
            ("limits", "rebalanceTimeout"),
            f"is not below max.poll.interval.ms ({interval_ms}): the group would evict the worker while it waits",
            "lower it, or raise max.poll.interval.ms in kafka",
        )


def wants_consumer_protocol(settings: Settings) -> bool:
    """Whether the group uses the consumer protocol (KIP-848), in which the broker assigns partitions."""
    return _of_client(settings, "consumer", "group.protocol", "classic").lower() == "consumer"


def transaction_timeout_ms(settings: Settings) -> int | None:
    """Return how long a transaction may be open; ``None`` if the setting is no number."""
    text = _of_client(settings, "producer", "transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    return int(text) if text.isdigit() else None


def _of_client(settings: Settings, client: str, name: str, default: str | int) -> str:
    kafka = settings.kafka
    return str(kafka.get(f"{client}.{name}", kafka.get(name, default))).strip()


def bare_name(name: str) -> str:
    """Return a client setting without the prefix of a client."""
    return next((name.removeprefix(prefix) for prefix in CLIENT_PREFIXES if name.startswith(prefix)), name)


_LOGIN = ("security.protocol", "sasl.mechanism", "sasl.mechanisms")
_SECRETS = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""What a mechanism sends as it is."""


def exposed(settings: Settings) -> Iterator[TopologyFault]:
    """Yield the settings of connections that let others read or change what is sent; none if there are none."""
    kafka = {name: str(value).strip() for name, value in settings.kafka.items()}
    yield from _logins(kafka)
    for name, value in kafka.items():
        if found := _weak(bare_name(name), value.lower()):
            yield warning(f"kafka.{name}", *found)
    yield from _registries(settings)


def _logins(kafka: Mapping[str, str]) -> Iterator[TopologyFault]:
    for client in ("", *CLIENT_PREFIXES):
        if client and not any(f"{client}{name}" in kafka for name in _LOGIN):
            continue
        own = _merged(kafka, client)
        protocol = own.get("security.protocol", "plaintext").upper()
        mechanism = mechanism_of(own).upper()
        if protocol == "SASL_PLAINTEXT" and mechanism in _SECRETS:
            problem, loss = f"is {protocol} with {mechanism}", f"{_SECRETS[mechanism]} crosses the network unencrypted"
            yield warning(f"kafka.{client}security.protocol", problem, loss, "write SASL_SSL")


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
                yield warning(where, "is http", loss, "use https")
