"""Translates the ``kafka`` section, which has settings of librdkafka, into options of Spark, which has the Java client.

Settings that begin with ``spark.`` are settings of the Java client. They apply to Spark only and override translations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.topology.config.rules.clients import JAVA_PREFIX, OAUTH_CB, PASSWORD_FILE, mechanism_of
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.protocols import Partition

_OTHERS: Final = ("producer.", "admin.")
_READING: Final = {
    # After every poll Spark seeks to both ends of the partition, which drops records that were fetched but not polled.
    # So a poll takes a whole fetch, whose size is limited in bytes.
    "max.poll.records": "10000",
    # The client also fetches beyond the last record that Spark wants, and Spark's next request waits for that fetch:
    # half a second in each task at the end of a topic, with the default.
    "fetch.max.wait.ms": "20",
}
"""Defaults for Spark's tasks."""

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
        "send.buffer.bytes",
        "ssl.cipher.suites",
        "ssl.key.password",
    }
)
"""Settings with the same name and meaning in both clients."""

_RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}

_DROPPED: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",  # a query has explicit start offsets
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
"""Settings that only tune librdkafka or that the query decides. They are dropped."""

_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_SASL: Final = (
    *_MECHANISM,
    "sasl.username",
    "sasl.password",
    PASSWORD_FILE,
    "sasl.jaas.config",
    OAUTH_CB,
    "sasl.oauthbearer.config",
)
_TLS: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_LOGIN: Final = (*_MECHANISM, "ssl.certificate.location", "ssl.certificate.pem")
_TOKENS: Final = "spark.kafka.clusters."
"""Settings with this prefix let Spark get delegation tokens."""

_TLS_CHECKS: Final = ("ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification")

_LOGINS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def kafka_options(kafka: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Return the options of Spark's Kafka source, each with the prefix ``kafka.``, with isolation ``read_committed``.

    Args:
        kafka: the ``kafka`` section. Settings of the producer or admin client only are left out.

    Raises:
        PipelineRefusedError: a setting has no translation.
    """
    own = {name.removeprefix(JAVA_PREFIX): value for name, value in kafka.items() if name.startswith(JAVA_PREFIX)}
    settings = _consumer_settings(kafka)
    java = dict(_READING)
    for name, value in settings.items():
        java |= _setting(name, value, set(own))
    if "ssl.truststore.certificates" in java:
        java["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in java or "ssl.keystore.certificate.chain" in java:
        java["ssl.keystore.type"] = "PEM"
    if PASSWORD_FILE in settings:
        settings["sasl.password"] = _read(PASSWORD_FILE, str(settings[PASSWORD_FILE])).rstrip("\r\n")
    java |= _login(settings, set(own)) | {name: java_text(value) for name, value in own.items()}
    java["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in java.items()}


def java_text(value: ConfigValue) -> str:
    """Return a value as settings of Java have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def offsets_json(offsets: Mapping[Partition, int]) -> str:
    """Return offsets in the format of Spark's Kafka source."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return json.dumps(topics)


def offsets_of(document: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    """Read offsets in the form of Spark's Kafka source, by topic and number."""
    return {
        Partition(topic, int(number)): offset
        for topic, offsets in document.items()
        for number, offset in offsets.items()
    }


def partitions_option(partitions: Iterable[Partition], *, whole: bool) -> dict[str, str]:
    """Return the option of Spark's Kafka source that names what it reads.

    Args:
        partitions: what it reads.
        whole: whether these are all partitions of their topics; it then reads new ones, too.
    """
    numbers: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        numbers.setdefault(partition.topic, []).append(partition.number)
    return {"subscribe": ",".join(numbers)} if whole else {"assign": json.dumps(numbers)}


def refuse_delegation_tokens(kafka: Mapping[str, ConfigValue], spark: Mapping[str, str]) -> None:
    """Refuse a job whose tasks cannot log in to Kafka, because only Spark's own client has a delegation token.

    Args:
        kafka: the ``kafka`` section.
        spark: the settings of Spark, configured and submitted.

    Raises:
        PipelineRefusedError: Spark gets delegation tokens, and librdkafka, which cannot use them, has no login.
    """
    clusters = sorted(name for name in spark if name.startswith(_TOKENS))
    shared = _consumer_settings(kafka)
    if clusters and not any(name in shared for name in _LOGIN):
        raise _refused(
            "sasl.mechanism",
            f"is missing, and {clusters[0]} is set: Spark gets delegation tokens for its own client, but the driver "
            "and the tasks also use librdkafka, which cannot log in with them",
            "add the login of a user to the kafka section (security.protocol, sasl.mechanism, sasl.username and "
            "sasl.password, or ssl.certificate.location and ssl.key.location), and remove the settings of "
            "spark.kafka.clusters: Spark's own client prefers a token to the SASL login of the kafka section, so with "
            "them the owner of the token needs Read on the topics, too",
        )


def _consumer_settings(kafka: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the settings that a consumer of librdkafka would get."""
    shared = {n: v for n, v in kafka.items() if not n.startswith((*_OTHERS, _CONSUMER, JAVA_PREFIX))}
    return shared | {n.removeprefix(_CONSUMER): v for n, v in kafka.items() if n.startswith(_CONSUMER)}


def _setting(name: str, value: ConfigValue, own: set[str]) -> dict[str, str]:
    if name == "security.protocol":
        return {name: str(value).upper()}
    if name in _SAME or name in _RENAMED:
        return {_RENAMED.get(name, name): java_text(value)}
    if name in _TLS:
        return {_TLS[name]: _read(name, str(value))}
    if name in _TLS_CHECKS:
        return _host_check(name, java_text(value))
    if name in _SASL or name in _DROPPED or name in own:
        return {}
    raise _refused(
        name,
        "has no translation for Spark, which reads with the Java client",
        f"add the Java client's setting as kafka: {{'{JAVA_PREFIX}NAME': ...}} "
        f"('{JAVA_PREFIX}{name}' if the name is the same), or remove it",
    )


def _login(settings: Mapping[str, ConfigValue], own: set[str]) -> dict[str, str]:
    mechanism = mechanism_of(settings)
    if not mechanism or "sasl.jaas.config" in own:
        return {"sasl.mechanism": mechanism} if mechanism else {}
    module = _LOGINS.get(mechanism)
    if module is None and OAUTH_CB in settings:
        raise _refused(
            OAUTH_CB,
            "is a function of Python, and Spark reads with the Java client, which needs a login handler in Java",
            f"add '{JAVA_PREFIX}sasl.jaas.config' and '{JAVA_PREFIX}sasl.login.callback.handler.class' under kafka, "
            "and the handler's jar to spark.jars.packages under pipeline.spark, such as "
            "software.amazon.msk:aws-msk-iam-auth or com.google.cloud.hosted.kafka:managed-kafka-auth-login-handler "
            "(docs/security.md has their settings)",
        )
    if module is None:
        raise _refused(
            "sasl.mechanism",
            f"is {mechanism}, for which no login module of the Java client is known",
            f"set the login module as kafka: {{'{JAVA_PREFIX}sasl.jaas.config': ...}}",
        )
    user, password = (_quoted(str(settings.get(name, ""))) for name in ("sasl.username", "sasl.password"))
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _host_check(name: str, value: str) -> dict[str, str]:
    if name == "ssl.endpoint.identification.algorithm":
        return {name: "" if value == "none" else value}
    if value == "true":
        return {}
    raise _refused(
        name,
        "is false; the Java client always verifies certificates",
        "set ssl.ca.location instead",
    )


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(
            name,
            f"names {path}, which cannot be read as text: {error}",
            "name a file that exists, in PEM format if it has a key",
        ) from error


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _refused(name: str, problem: str, fix: str) -> PipelineRefusedError:
    return PipelineRefusedError(f"kafka.{name}: {problem}; {fix}")
