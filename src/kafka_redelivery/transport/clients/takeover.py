"""Taking over a ``transactional.id``, which ends the open transaction of the producer that had it before."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_redelivery.topology.cluster.facts import MAX_TRANSACTION
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.client_log import client_log
from kafka_redelivery.transport.clients.outage import Outage, Report
from kafka_redelivery.transport.errors import ClientSettingsError, TransportError, grant
from kafka_redelivery.transport.kafka_errors import error_of
from kafka_redelivery.transport.opening import open_producer

_TIMEOUT_S = 90.0
"""Long enough for the open transaction of a predecessor to end: its time-out plus the broker's scan every 10 s."""

_UNENDED_S = 60.0
"""How long a take-over does not end while Kafka answers, until it is given up."""

_CONNECT_S = 5.0
_ATTEMPT_S = 15.0
"""The time-out of one of many attempts. The client continues where the attempt before it stopped."""


@dataclass(frozen=True, slots=True)
class Endurance:
    """How the writer of a running worker or scheduler goes on where another writer raises an error."""

    report: Report
    """Receives what the writer waits for. It waits for Kafka without limit."""

    fresh_id: Callable[[], str]
    """Makes a ``transactional.id`` that no process has, to go on with when the writer is fenced.

    To take the old one back would fence the process that has it now.
    """

    instance: str
    """The name of this process in its configuration, for messages."""


class UnendedTransactionError(TransportError):
    """Kafka answers, but does not end the transaction of a ``transactional.id``: a partition of it takes no marker."""


def take_over(config: Config, topic: str | None = None, outage: Outage | None = None) -> Producer:
    """Create a producer and initialize its transactions; with an ``outage``, for as long as it takes.

    Args:
        config: its settings.
        topic: a topic that exists, for a request that connects the producer. With ``None`` it asks for all topics,
            which may be many.
        outage: how to wait.

    Raises:
        UnendedTransactionError: with an ``outage``, if Kafka answers but has not ended the transaction for a minute.
        ClientSettingsError: without an ``outage``, if a file of a password, certificate or key cannot be used.
        TransportError: the broker does not answer, or does not allow transactions.
    """
    producer = _connected(config, topic, outage)
    answering_since_s = time.monotonic()
    while True:
        try:
            producer.init_transactions(_TIMEOUT_S if outage is None else _ATTEMPT_S)
        except (KafkaException, SystemError) as exception:
            error = error_of(exception)
            problem = f"cannot take over transactional.id {config['transactional.id']}: {error.str()}"
            problem += _fix(error, config)
            if outage is None or not outage.wait(problem):
                raise TransportError(problem) from exception
            if not error.retriable():
                producer, answering_since_s = _connected(config, topic, outage), time.monotonic()
            elif not _answers(producer, topic):
                answering_since_s = time.monotonic()
            elif time.monotonic() - answering_since_s > _UNENDED_S:
                raise UnendedTransactionError(problem) from exception
        else:
            if outage is not None:
                outage.over()
            return producer


def _fix(error: KafkaError, config: Config) -> str:
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return grant(f"Write on transactional id {config['transactional.id']}")
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        too_long = f"producer.transaction.timeout.ms={config['transaction.timeout.ms']}"
        return f"; under kafka, lower {too_long} to {MAX_TRANSACTION} of the brokers or less"
    return ""


def _answers(producer: Producer, topic: str | None) -> bool:
    try:
        producer.list_topics(topic, timeout=_CONNECT_S)
    except KafkaException:
        return False
    return True


def _connected(config: Config, topic: str | None, outage: Outage | None) -> Producer:
    """Create a producer and connect it: without a connection it looks for its coordinator only half a second later."""
    producer = _opened(config, outage)
    with suppress(KafkaException):  # the next call reports the error
        for _ in range(2):  # the first answer names the broker, which can replace the connection
            producer.list_topics(topic, timeout=_CONNECT_S)
    return producer


def _opened(config: Config, outage: Outage | None) -> Producer:
    while True:
        try:
            return open_producer(config, client_log)
        except ClientSettingsError as error:
            if outage is None or not outage.wait(str(error)):
                raise
