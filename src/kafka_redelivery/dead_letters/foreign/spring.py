"""Spring Kafka: ``DeadLetterPublishingRecoverer``, and retry topics (``@RetryableTopic``).

=================================  =================================================================
header                             content
=================================  =================================================================
``kafka_dlt-original-topic``       text
``kafka_dlt-original-partition``   4 bytes, big-endian
``kafka_dlt-original-offset``      8 bytes, big-endian
``…original-timestamp``            8 bytes, big-endian, epoch ms
``…original-timestamp-type``       text
``…original-consumer-group``       text
``kafka_dlt-exception-fqcn``       the exception that the container saw, mostly a wrapper
``…exception-cause-fqcn``          its cause: what the listener raised
``…exception-message``             the text of the wrapper, a semicolon, the text of the cause
``…exception-stacktrace``          text of several KiB
``kafka_dlt-key-exception-…``      the same of a key that could not be deserialised
``retry_topic-attempts``           4 bytes, big-endian: the number that the next delivery would have
``retry_topic-…-timestamp``        big-endian in as few bytes as it needs, epoch ms
=================================  =================================================================

With retry topics the names begin with ``kafka_`` instead of ``kafka_dlt-``, all but that of the consumer group, and the
headers of each retry are appended.

Source: https://docs.spring.io/spring-kafka/reference/kafka/annotation-error-handling.html (dead-letter-topics),
https://docs.spring.io/spring-kafka/api/org/springframework/kafka/support/KafkaHeaders.html,
https://docs.spring.io/spring-kafka/api/org/springframework/kafka/retrytopic/RetryTopicHeaders.html
"""

from __future__ import annotations

from typing import Final

from kafka_redelivery.dead_letters.foreign.failure import (
    FAILED,
    UNDECODABLE,
    Failure,
    System,
    Values,
    binary_number,
    partition_of,
    text,
)

_PREFIXES: Final = ("kafka_dlt-", "kafka_")
_WRAPPER: Final = "org.springframework.kafka.listener.ListenerExecutionFailedException"


def _read(values: Values) -> Failure:
    def value(name: str) -> bytes | None:
        return next((values[prefix + name] for prefix in _PREFIXES if prefix + name in values), None)

    kind = "exception-" if value("key-exception-fqcn") is None else "key-exception-"
    exception, message = text(value(f"{kind}fqcn")), text(value(f"{kind}message"))
    next_attempt = binary_number(values.get("retry_topic-attempts"))
    if exception == _WRAPPER:
        message = message.partition("; ")[2] or message
    return Failure(
        topic=text(value("original-topic")),
        partition=partition_of(binary_number(value("original-partition"))),
        offset=binary_number(value("original-offset")),
        group=text(value("original-consumer-group")),
        attempts=None if next_attempt is None else next_attempt - 1,
        reason=UNDECODABLE if exception.endswith(".DeserializationException") else FAILED,
        exception=text(value(f"{kind}cause-fqcn")) or exception,
        message=message,
    )


def _recognises(values: Values) -> bool:
    return any(f"{prefix}original-topic" in values for prefix in _PREFIXES)


SPRING: Final = System(
    name="spring",
    recognises=_recognises,
    read=_read,
    removed=(
        "kafka_dlt-*",
        "kafka_original-*",
        "kafka_exception-*",
        "kafka_key-exception-*",
        "kafka_deliveryAttempt",
        "retry_topic-*",
        "springDeserializerException*",
    ),
    keeps_content=True,
    binary=frozenset(
        {
            *(f"{prefix}original-{name}" for prefix in _PREFIXES for name in ("partition", "offset", "timestamp")),
            "kafka_deliveryAttempt",
            "retry_topic-attempts",
            "retry_topic-backoff-timestamp",
            "retry_topic-original-timestamp",
        }
    ),
)
