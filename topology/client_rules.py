"""Rules about Kafka client settings: what must be there, and what is not the user's to set."""

from __future__ import annotations

from collections.abc import Iterator

from topology.settings import Settings
from topology.violations import Violation

CLIENT_PREFIXES = ("producer.", "consumer.", "admin.", "spark.")
"""Put before a client setting, they give it to that client alone."""

DEFAULT_MAX_POLL_INTERVAL_MS = 300_000

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_OWNED = {
    "group.id": "remove it; the group is named by group at the top of the file",
    "group.instance.id": "remove it; it is made of group and instance",
    "transactional.id": "remove it; it is made of group and instance",
    "enable.auto.commit": "remove it; offsets are committed when the work is done",
    "enable.auto.offset.store": "remove it; offsets are stored when the work is done",
    "isolation.level": "remove it; everything is read committed",
    "enable.partition.eof": "remove it; it tells when all is read",
    "allow.auto.create.topics": "remove it; topics are made by: redelivery topology apply",
}
_CLASSIC_ONLY = {
    "session.timeout.ms": "remove it; the broker says how long: group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "remove it; the broker says how often: group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "remove it; the broker assigns, see group.remote.assignor",
    "group.protocol.type": "remove it",
}
"""What the client refuses with ``group.protocol`` ``consumer``."""

_OFF = {"false", "f", "0", "no", "n", "off"}
_STARTS = {"earliest", "smallest", "beginning", "latest", "largest", "end"}


def client_rules(settings: Settings) -> Iterator[Violation]:
    """What is missing, owned or dangerous among the ``kafka`` settings."""
    kafka = settings.kafka
    if not any(str(kafka.get(name, "")).strip() for name in _SERVERS):
        yield Violation(("kafka",), "has no bootstrap.servers", "add bootstrap.servers: host:9092")
    protocol = kafka.get("consumer.group.protocol", kafka.get("group.protocol", "classic"))
    new_protocol = str(protocol).strip().lower() == "consumer"
    for name, value in kafka.items():
        bare = bare_name(name)
        text = str(value).strip().lower()
        path = ("kafka", name)
        if bare in _OWNED:
            yield Violation(path, "is not yours to set: what is promised rests on it", _OWNED[bare], key=True)
        elif new_protocol and bare in _CLASSIC_ONLY:
            problem = "does not exist with group.protocol consumer"
            yield Violation(path, problem, _CLASSIC_ONLY[bare], (("kafka", "group.protocol"),), key=True)
        elif bare == "enable.idempotence" and text in _OFF:
            yield Violation(path, "is off: a retried write could be doubled or change places", "remove it")
        elif bare in {"acks", "request.required.acks"} and text not in {"all", "-1"}:
            yield Violation(path, "lets a write count as done before its replicas have it", "remove it, or write all")
        elif bare == "auto.offset.reset" and text not in _STARTS:
            problem = "tells where a new group starts in a source, and is neither earliest nor latest"
            yield Violation(path, problem, "write earliest or latest")


def timing_rules(settings: Settings) -> Iterator[Violation]:
    """Whether what a rebalance takes fits into what the broker allows."""
    limits = settings.limits
    timeout = limits.rebalance_timeout
    if limits.shutdown_timeout < timeout:
        yield Violation(
            ("limits", "shutdownTimeout"),
            "is shorter than limits.rebalanceTimeout, which a shutdown waits for, too",
            "make it at least as long",
            (("limits", "rebalanceTimeout"),),
        )
    for name in ("consumer.max.poll.interval.ms", "max.poll.interval.ms", ""):
        if name in settings.kafka or not name:
            given = str(settings.kafka.get(name, DEFAULT_MAX_POLL_INTERVAL_MS))
            if given.isdigit() and timeout.total_seconds() * 1000 >= int(given):
                yield Violation(
                    ("limits", "rebalanceTimeout"),
                    f"is not below max.poll.interval.ms ({given}): the worker would be evicted while it waits",
                    "make it shorter, or kafka: max.poll.interval.ms longer",
                    (("kafka", name),) if name else (("kafka",),),
                )
            return


def bare_name(name: str) -> str:
    """A client setting without the prefix that gives it to one client."""
    return next((name.removeprefix(prefix) for prefix in CLIENT_PREFIXES if name.startswith(prefix)), name)
