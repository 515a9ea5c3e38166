"""Client settings in Kafka's own two tongues: those of the ``kafka`` section are librdkafka's, Spark reads with Java's.

Names that begin with ``spark.`` are Java's already; they are for Spark alone, and stand above what is translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pipeline.errors import KafkaOptionError
from transport.client_config import JAVA_PREFIX, Value

_OTHERS: Final = ("producer.", "admin.")
_READING: Final = {
    # After every poll Spark asks where the partition begins and ends, and what was fetched beyond the poll is dropped.
    # So a poll takes all of a fetch, which is bounded by its bytes.
    "max.poll.records": "10000",
    # It reads only what is there. The client asks for what comes behind it, too, and whatever Spark asks next waits for
    # the answer: at the end of a topic half a second in each task.
    "fetch.max.wait.ms": "20",
}
"""How Spark's tasks read, unless the configuration says otherwise."""

_CONSUMER: Final = "consumer."

_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "security.protocol",
        "send.buffer.bytes",
        "ssl.cipher.suites",
    }
)
"""What both call the same, and mean the same by."""

_RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}

_MEANINGLESS: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",  # where a query begins is said by its start offsets
        "batch.num.messages",
        "batch.size",
        "broker.address.family",
        "client.id",
        "compression.codec",
        "compression.level",
        "compression.type",
        "debug",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.queue.backoff.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "linger.ms",
        "log_level",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "partition.assignment.strategy",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "session.timeout.ms",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "transaction.timeout.ms",
    }
)
"""What only tunes librdkafka, or is decided by the query: nothing is lost without it."""

_SASL: Final = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "sasl.jaas.config")
_TLS: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_TLS_TEXT: Final = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
}
_TLS_CHECKS: Final = ("ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification")

_LOGINS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def kafka_options(kafka: Mapping[str, Value], *, read: Callable[[Path], str] | None = None) -> dict[str, str]:
    """Options of Spark's Kafka source: every name with ``kafka.`` before it, and isolation ``read_committed``.

    Args:
        kafka: the ``kafka`` section; what stands there for producers or the admin client alone is left out.
        read: reads a file with certificates or a key, ``None`` = as it is on this machine.

    Raises:
        KafkaOptionError: a setting has no translation; names it and the mend.
    """
    own = {name.removeprefix(JAVA_PREFIX): value for name, value in kafka.items() if name.startswith(JAVA_PREFIX)}
    java = _translated(_consumers_own(kafka), set(own), read or _text)
    java = _READING | java | {name: _plain(value) for name, value in own.items()}
    java["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in java.items()}


def _consumers_own(kafka: Mapping[str, Value]) -> dict[str, Value]:
    """What a consumer of librdkafka would get."""
    shared = {n: v for n, v in kafka.items() if not n.startswith((*_OTHERS, _CONSUMER, JAVA_PREFIX))}
    return shared | {n.removeprefix(_CONSUMER): v for n, v in kafka.items() if n.startswith(_CONSUMER)}


def _translated(settings: Mapping[str, Value], own: set[str], read: Callable[[Path], str]) -> dict[str, str]:
    java: dict[str, str] = {}
    for name, value in settings.items():
        java |= _setting(name, value, own, read)
    if "ssl.truststore.certificates" in java:
        java["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in java or "ssl.keystore.certificate.chain" in java:
        java["ssl.keystore.type"] = "PEM"
    return java | _login(settings, own)


def _setting(name: str, value: Value, own: set[str], read: Callable[[Path], str]) -> dict[str, str]:
    if name == "security.protocol":
        return {name: str(value).upper()}
    if name in _SAME:
        return {name: _plain(value)}
    if name in _RENAMED:
        return {_RENAMED[name]: _plain(value)}
    if name in _TLS:
        return {_TLS[name]: _read(name, str(value), read)}
    if name in _TLS_TEXT:
        return {_TLS_TEXT[name]: str(value)}
    if name in _TLS_CHECKS:
        return _host_check(name, _plain(value))
    if name in _SASL or name in _MEANINGLESS or name in own:
        return {}
    raise KafkaOptionError(
        name,
        "has no translation for Spark, which reads with the Java client",
        f"say it a second time in the Java client's words, as kafka: {{'{JAVA_PREFIX}NAME': ...}} "
        f"('{JAVA_PREFIX}{name}' if the name is the same), or remove it",
    )


def _login(settings: Mapping[str, Value], own: set[str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if mechanism is None or "sasl.jaas.config" in own:
        return {} if mechanism is None else {"sasl.mechanism": str(mechanism)}
    module = _LOGINS.get(str(mechanism))
    if module is None:
        raise KafkaOptionError(
            "sasl.mechanism",
            f"is {mechanism}, for which no login of the Java client can be made",
            f"write that login as kafka: {{'{JAVA_PREFIX}sasl.jaas.config': ...}}",
        )
    user, password = (_quoted(str(settings.get(name, ""))) for name in ("sasl.username", "sasl.password"))
    return {
        "sasl.mechanism": str(mechanism),
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _host_check(name: str, value: str) -> dict[str, str]:
    if name == "ssl.endpoint.identification.algorithm":
        return {name: "" if value == "none" else value}
    if value == "true":
        return {}
    raise KafkaOptionError(
        name, "is false; the Java client always verifies certificates", "give the right ssl.ca.location instead"
    )


def _read(name: str, path: str, read: Callable[[Path], str]) -> str:
    try:
        return read(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaOptionError(
            name, f"names {path}, which cannot be read as PEM text: {error}", "give a PEM file that is there"
        ) from error


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
