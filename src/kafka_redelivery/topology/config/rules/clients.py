"""Rules about Kafka client settings: which are required, which must not be set, and which are unsafe."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import Violation

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.", "spark.")
"""A client setting with one of these prefixes is for that client only."""

DEFAULT_MAX_POLL_INTERVAL_MS = 300_000

PASSWORD_FILE = "sasl.password.file"  # noqa: S105 - the name of a setting
"""A setting of ours: the file that holds the password."""

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

_OFF = {"false", "f", "0", "no", "n", "off"}
_STARTS = {"earliest", "smallest", "beginning", "latest", "largest", "end"}


def client_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the ``kafka`` settings that are missing, reserved or unsafe."""
    kafka = settings.kafka
    if not any(str(kafka.get(name, "")).strip() for name in _SERVERS):
        yield Violation(("kafka",), "has no bootstrap.servers", "add bootstrap.servers: host:9092")
    protocol = kafka.get("consumer.group.protocol", kafka.get("group.protocol", "classic"))
    new_protocol = str(protocol).strip().lower() == "consumer"
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


def timing_rules(settings: Settings) -> Iterator[Violation]:
    """Yield time limits that contradict each other or the broker's."""
    limits = settings.limits
    timeout = limits.rebalance_timeout
    if limits.shutdown_timeout < timeout:
        yield Violation(
            ("limits", "shutdownTimeout"),
            "is shorter than limits.rebalanceTimeout, which is part of a shutdown",
            "raise it to limits.rebalanceTimeout or more",
        )
    names = ("consumer.max.poll.interval.ms", "max.poll.interval.ms")
    values = [settings.kafka[name] for name in names if name in settings.kafka]
    interval_ms = str(values[0] if values else DEFAULT_MAX_POLL_INTERVAL_MS)
    if interval_ms.isdigit() and timeout.total_seconds() * 1000 >= int(interval_ms):
        yield Violation(
            ("limits", "rebalanceTimeout"),
            f"is not below max.poll.interval.ms ({interval_ms}): the group would evict the worker while it waits",
            "lower it, or raise max.poll.interval.ms in kafka",
        )


def bare_name(name: str) -> str:
    """Return a client setting without the prefix of a client."""
    return next((name.removeprefix(prefix) for prefix in CLIENT_PREFIXES if name.startswith(prefix)), name)
