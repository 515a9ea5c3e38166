"""Checks the ``kafka`` section without a broker: the client itself says which settings it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_redelivery.topology.config.rules.clients import (
    CLIENT_PREFIXES,
    JAVA_PREFIX,
    OAUTH_CB,
    PASSWORD_FILE,
    bare_name,
)
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import Violation
from kafka_redelivery.transport.certificates import unusable_files
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.kafka_errors import message_of

_WITH_EFFECTS = {"bootstrap.servers", "metadata.broker.list", "plugin.library.paths", "test.mock.num.brokers"}
"""Known settings with which a client connects, loads a library or starts a broker."""

_UNKNOWN = "No such configuration property"
_BAD_VALUE = ("Invalid value", "outside allowed range")
"""Parts of messages about the value of one setting; other messages may come from the absence of another setting."""

_NAMES = """
acks auto.offset.reset batch.num.messages batch.size bootstrap.servers broker.address.family broker.address.ttl
check.crcs client.dns.lookup client.id client.rack compression.codec compression.level compression.type
connections.max.idle.ms debug delivery.timeout.ms enable.idempotence enable.metrics.push
enable.ssl.certificate.verification fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.protocol group.remote.assignor heartbeat.interval.ms linger.ms
log.connection.close log_level max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes
max.poll.interval.ms message.max.bytes message.send.max.retries message.timeout.ms metadata.max.age.ms
partition.assignment.strategy partitioner queue.buffering.max.kbytes queue.buffering.max.messages
queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages receive.message.max.bytes
reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
sasl.mechanisms sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
sasl.oauthbearer.extensions sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
sasl.password sasl.username security.protocol session.timeout.ms socket.connection.setup.timeout.ms
socket.keepalive.enable socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites
ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
ssl.keystore.location ssl.keystore.password ssl.sigalgs.list statistics.interval.ms topic.metadata.propagation.max.ms
topic.metadata.refresh.interval.ms transaction.timeout.ms
"""

SUGGESTED = tuple(_NAMES.split())
"""Names for the fix of a misspelled one. Whether a name is known is the client's answer."""


def setting_violations(settings: Settings) -> Iterator[Violation]:
    """Yield the settings of the Kafka client with a name that it does not know or a value that it refuses.

    So are the files of certificates and keys that it cannot use. Settings of the Java client are not checked, and
    neither is what only several settings together decide.
    """
    for name, value in settings.kafka.items():
        bare = bare_name(name)
        if name.startswith(JAVA_PREFIX) or bare in {OAUTH_CB, PASSWORD_FILE, *_WITH_EFFECTS}:
            continue
        problem = refusal(bare, value)
        if problem is None:
            continue
        path = ("kafka", name)
        if problem.startswith(_UNKNOWN):
            yield Violation(path, "is not a setting of the Kafka client", _suggestion(name, bare), key=True)
        elif any(part in problem for part in _BAD_VALUE):
            yield Violation(
                path, f"is refused by the Kafka client: {problem}", "correct the value, or remove the setting"
            )
    yield from _files(settings)


def _files(settings: Settings) -> Iterator[Violation]:
    """Yield the files of certificates and keys that a client cannot use."""
    seen = set()
    for prefix in ("", *CLIENT_PREFIXES):
        if prefix == JAVA_PREFIX:
            continue
        own = {name.removeprefix(prefix): value for name, value in settings.kafka.items() if name.startswith(prefix)}
        for file in unusable_files({**settings.kafka, **own}):
            name = file.setting if not prefix or file.setting not in own else f"{prefix}{file.setting}"
            if name not in seen:
                seen.add(name)
                yield Violation(("kafka", name), file.problem, file.fix)


def refusal(name: str, value: ConfigValue) -> str | None:
    """Return the client's message about a setting, ``None`` if it takes it. Nothing is sent."""
    try:
        AdminClient({"log_level": 0, name: value}, logger=client_log)
    except (KafkaException, TypeError, ValueError) as error:
        return message_of(error).strip()
    return None


def _suggestion(name: str, bare: str) -> str:
    meant = get_close_matches(bare, (*SUGGESTED, OAUTH_CB, PASSWORD_FILE), n=1)
    if meant:
        return f"did you mean {name.removesuffix(bare)}{meant[0]}?"
    return "remove it, or correct its name: the settings have librdkafka's names"
