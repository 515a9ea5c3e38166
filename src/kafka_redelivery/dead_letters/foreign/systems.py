"""The systems whose dead letters are recognised, and any other whose headers a person names.

A system writes its headers before or after those of the record, so the first or the last set of them is its own. What
each says and lacks is here; a test compares the table in docs/other-systems.md with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.wire.headers import Headers

Values = Mapping[str, bytes | None]
"""The headers of a record."""

_UNDECODABLE: Final = "undecodable"
_FAILED: Final = "failed"
"""Reasons that are derived: of these systems only Kafka Connect, a share group and a mapping give one."""

_MAX_PARTITION: Final = 2**31 - 1
_LONGEST: Final = 8


class Failure(NamedTuple):
    """Where a record came from and why it died. What the headers do not say is empty, or ``None``."""

    topic: str = ""
    """The topic that the system had read it from. It is sent there again."""

    partition: int | None = None
    offset: int | None = None
    group: str = ""
    attempts: int | None = None
    reason: str = ""
    exception: str = ""
    message: str = ""


FIELDS: Final = Failure._fields
"""What can be mapped."""


class Place(Enum):
    """Where a system writes its headers, and thus which set is its own if a record brought others."""

    FIRST = "first"
    """Before those of the record."""

    LAST = "last"
    """Behind those of the record."""

    ALONE = "alone"
    """It keeps none of the record."""


class Recognition(NamedTuple):
    """What a person says about the systems that have written the letters of a topic."""

    mapping: tuple[tuple[str, str], ...] = ()
    """Which header has which of :data:`FIELDS`; then no system is looked for."""

    system: str = ""
    """The system of the letters that several claim."""


ANY: Final = Recognition()
"""Nothing is said: systems are recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """How a system marks its dead letters."""

    name: str
    title: str = ""
    """What it is, for the documentation, as `lacks` and `proof`."""

    marks: tuple[tuple[str, ...], ...]
    """It is recognised by all headers of one of these."""

    read: Callable[[Headers], Failure]
    removed: tuple[str, ...]
    """What is removed from a letter that is sent again: names of headers; one that ends with ``*`` is a prefix."""

    place: Place = Place.LAST
    keeps_content: bool = False
    """Whether its letters have key and value of the record, so that a key without a value was a tombstone."""

    binary: frozenset[str] = frozenset()
    """Headers that are big-endian numbers."""

    lacks: str = ""
    """What its headers do not say."""

    proof: str = ""
    """The versions that were recorded; else it is read as it is documented."""

    def recognises(self, values: Values) -> bool:
        """Whether a record with these headers is a dead letter of this system."""
        return any(all(header in values for header in each) for each in self.marks)

    def removes(self, header: str) -> bool:
        """Whether a letter that is sent again loses this header, so that the system handles it like a new record."""
        return any(
            header.startswith(name.removesuffix("*")) if name.endswith("*") else header == name for name in self.removed
        )

    def values(self, headers: Headers) -> dict[str, bytes | None]:
        """Return the headers by name. Of a name that is given twice the last, but of its own the one that it wrote."""
        found = dict(headers)
        if self.place is Place.FIRST:
            found |= {name: value for name, value in reversed(headers) if self.removes(name)}
        return found


def text(value: bytes | None) -> str:
    """Return a header as text; empty if it is missing."""
    return (value or b"").decode(errors="replace")


def binary_number(value: bytes | None) -> int | None:
    """Return a header that is a big-endian number of up to 8 bytes; ``None`` if it is missing, other or negative."""
    if not value or len(value) > _LONGEST:
        return None
    found = int.from_bytes(value, "big", signed=True)
    return found if found >= 0 else None


def mapped(headers: Mapping[str, str]) -> System:
    """Return the system whose letters have these headers; numbers are decimal, or big-endian.

    Args:
        headers: the header of each field of :data:`FIELDS` that there is.
    """

    def number(value: bytes | None) -> int | None:
        found = _number(value)
        return binary_number(value) if found is None else found

    def read(found: Headers) -> Failure:
        return _failure(dict(found), headers, number)

    return System(name="mapped", marks=(), read=read, removed=tuple(headers.values()))


def _failure(values: Values, headers: Mapping[str, str], number: Callable[[bytes | None], int | None]) -> Failure:
    """Return what headers say that have a field each."""

    def value(field: str) -> bytes | None:
        return values.get(headers.get(field, ""))

    return Failure(
        topic=text(value("topic")),
        partition=_partition(number(value("partition"))),
        offset=number(value("offset")),
        group=text(value("group")),
        attempts=number(value("attempts")),
        reason=text(value("reason")),
        exception=text(value("exception")),
        message=text(value("message")),
    )


def _number(value: bytes | None) -> int | None:
    """Return a header that is a decimal number; ``None`` if it is missing, or none that Kafka allows."""
    digits = value or b""
    if not (digits.isdigit() and len(digits) <= len(str(LONG_MAX))):
        return None
    found = int(digits)
    return found if found <= LONG_MAX else None


def _partition(found: int | None) -> int | None:
    """Return the number of a partition; ``None`` if Kafka has none with this number."""
    return None if found is None or found > _MAX_PARTITION else found


def _caused_by(trace: str) -> tuple[str, str]:
    """Return class and message of the innermost cause in a stack trace of Java; empty if it has none.

    Causes of suppressed exceptions are indented.
    """
    _, found, last = trace.rpartition("\nCaused by: ")
    exception, _, message = _FRAME.split(last, maxsplit=1)[0].strip().partition(": ")
    return (exception, message) if found and _CLASS.fullmatch(exception) else ("", "")


_FRAME: Final = re.compile(r"\n\s+(?:at |\.\.\. \d)")
_CLASS: Final = re.compile(r"[\w.$]+")


_SPRING_PREFIXES: Final = ("kafka_dlt-", "kafka_")
"""With retry topics the names begin with ``kafka_``, all but that of the consumer group, and the headers of each retry
are appended."""

_SPRING_WRAPPER: Final = "org.springframework.kafka.listener.ListenerExecutionFailedException"


def _spring(headers: Headers) -> Failure:
    values = dict(headers)

    def value(name: str) -> bytes | None:
        return next((values[prefix + name] for prefix in _SPRING_PREFIXES if prefix + name in values), None)

    kind = "exception-" if value("key-exception-fqcn") is None else "key-exception-"
    exception, message = text(value(f"{kind}fqcn")), text(value(f"{kind}message"))
    next_attempt = binary_number(values.get("retry_topic-attempts"))
    if exception == _SPRING_WRAPPER:  # its text, a semicolon, the text of the cause
        message = message.partition("; ")[2] or message
    return Failure(
        topic=text(value("original-topic")),
        partition=_partition(binary_number(value("original-partition"))),
        offset=binary_number(value("original-offset")),
        group=text(value("original-consumer-group")),
        attempts=None if next_attempt is None else next_attempt - 1,
        reason=_UNDECODABLE if exception.endswith(".DeserializationException") else _FAILED,
        exception=text(value(f"{kind}cause-fqcn")) or exception,
        message=message,
    )


# Source: https://docs.spring.io/spring-kafka/reference/kafka/annotation-error-handling.html (dead-letter-topics),
# https://docs.spring.io/spring-kafka/api/org/springframework/kafka/support/KafkaHeaders.html,
# https://docs.spring.io/spring-kafka/api/org/springframework/kafka/retrytopic/RetryTopicHeaders.html
SPRING: Final = System(
    name="spring",
    title="Spring Kafka: `DeadLetterPublishingRecoverer`, retry topics",
    marks=tuple((f"{prefix}original-topic",) for prefix in _SPRING_PREFIXES),
    read=_spring,
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
            *(
                f"{prefix}original-{name}"
                for prefix in _SPRING_PREFIXES
                for name in ("partition", "offset", "timestamp")
            ),
            "kafka_deliveryAttempt",
            "retry_topic-attempts",
            "retry_topic-backoff-timestamp",
            "retry_topic-original-timestamp",
        }
    ),
    lacks="attempts, without retry topics",
    proof="4.1.1",
)

_CLOUD: Final = "x-original-"
_CLOUD_HANDLER: Final = re.compile(r"error occurred in message handler \[[^]]*\](?:; )?")
"""Names the handler's bean with a hash that each process has anew."""


def _cloud_stream(headers: Headers) -> Failure:
    values = dict(headers)
    exception, message = _caused_by(text(values.get("x-exception-stacktrace")))
    if not exception:
        exception, message = text(values.get("x-exception-fqcn")), text(values.get("x-exception-message"))
        message = _CLOUD_HANDLER.sub("", message, count=1) or message
    return Failure(
        topic=text(values.get(f"{_CLOUD}topic")),
        partition=_partition(binary_number(values.get(f"{_CLOUD}partition"))),
        offset=binary_number(values.get(f"{_CLOUD}offset")),
        reason=_UNDECODABLE if exception.endswith(_UNDECODABLES) else _FAILED,
        exception=exception,
        message=message,
    )


_UNDECODABLES: Final = (".DeserializationException", ".SerializationException", ".RecordDeserializationException")

# Source: https://docs.spring.io/spring-cloud-stream/reference/kafka/kafka-binder/dlq.html
CLOUD_STREAM: Final = System(
    name="spring-cloud-stream",
    title="Spring Cloud Stream: `enableDlq`",
    marks=((f"{_CLOUD}topic", "x-exception-fqcn"),),
    read=_cloud_stream,
    removed=(f"{_CLOUD}*", "x-exception-*"),
    keeps_content=True,
    binary=frozenset({f"{_CLOUD}{name}" for name in ("partition", "offset", "timestamp")}),
    lacks="group, attempts",
    proof="5.0.4",
)

_CONNECT: Final = "__connect.errors."
_CONNECT_FIELDS: Final = {
    **{field: f"{_CONNECT}{field}" for field in ("topic", "partition", "offset")},
    "group": f"{_CONNECT}connector.name",
    "reason": f"{_CONNECT}stage",
    "exception": f"{_CONNECT}exception.class.name",
    "message": f"{_CONNECT}exception.message",
}


def _connect(headers: Headers) -> Failure:
    found = _failure(dict(headers), _CONNECT_FIELDS, _number)
    return found._replace(group=found.group and f"connect-{found.group}", reason=found.reason.lower())


# Source: KIP-298, https://cwiki.apache.org/confluence/display/KAFKA/KIP-298%3A+Error+Handling+in+Connect;
# https://kafka.apache.org/documentation/#sinkconnectorconfigs_errors.deadletterqueue.context.headers.enable
CONNECT: Final = System(
    name="connect",
    title="Kafka Connect: a sink with `errors.deadletterqueue.context.headers.enable`",
    marks=((f"{_CONNECT}topic",),),
    read=_connect,
    removed=(f"{_CONNECT}*",),
    keeps_content=True,
    lacks="attempts",
    proof="4.3.1, 4.4.0",
)

_STREAMS: Final = "__streams.errors."
_STREAMS_FIELDS: Final = {
    field: f"{_STREAMS}{field}" for field in ("topic", "partition", "offset", "exception", "message")
}


def _streams(headers: Headers) -> Failure:
    values = dict(headers)
    found = _failure(values, _STREAMS_FIELDS, _number)
    # A value that cannot be written has the same class.
    is_undecodable = ".RecordDeserializer." in text(values.get(f"{_STREAMS}stacktrace"))
    return found._replace(reason=_UNDECODABLE if is_undecodable else _FAILED)


# Key and value are both null if Streams had not kept them, as after an error of the producer or of a punctuator.
# Source: KIP-1034, https://cwiki.apache.org/confluence/display/KAFKA/KIP-1034%3A+Dead+letter+queue+in+Kafka+Streams
STREAMS: Final = System(
    name="streams",
    title="Kafka Streams 4.2 and newer: `errors.dead.letter.queue.topic.name`",
    marks=((f"{_STREAMS}topic",),),
    read=_streams,
    removed=(f"{_STREAMS}*",),
    keeps_content=True,
    lacks="application, attempts",
    proof="4.3.1, 4.4.0",
)

_SHARE: Final = "__dlq.errors."
_SHARE_FIELDS: Final = {field: f"{_SHARE}{field}" for field in ("topic", "partition", "offset", "group", "message")} | {
    "attempts": f"{_SHARE}delivery.count"
}


def _share(headers: Headers) -> Failure:
    found = _failure(dict(headers), _SHARE_FIELDS, _number)
    rejected = found.message.startswith("Offset rejected")
    return found._replace(reason=Reason.REJECTED if rejected else Reason.REDELIVERIES_EXCEEDED)


# Neither key nor value by default, and never headers of the record.
# Source: KIP-1191, https://cwiki.apache.org/confluence/display/KAFKA/KIP-1191%3A+Dead-letter+queues+for+share+groups
SHARE: Final = System(
    name="share-group",
    title="a share group of Kafka 4.4 and newer: `errors.deadletterqueue.topic.name`",
    marks=(tuple(_SHARE_FIELDS.values()),),
    read=_share,
    removed=(f"{_SHARE}*",),
    place=Place.ALONE,
    keeps_content=True,
    lacks="exception; the record's headers; by default its key and value",
    proof="4.4.0",
)

_QUEUE, _RETRY = "dead-letter-", "delayed-retry-"


def _smallrye(headers: Headers) -> Failure:
    """Read the first set, which says what failed last. With retry topics the last set has the origin."""
    found = dict(reversed(headers))
    family = next(name for name, _ in headers if name in {f"{_QUEUE}topic", f"{_RETRY}topic"}).removesuffix("topic")
    origin = dict(headers) if family == _RETRY else found
    retries = _number(found.get(f"{_RETRY}count")) if family == _RETRY else None
    exception = text(found.get(f"{family}exception-class-name"))
    return Failure(
        topic=text(origin.get(f"{family}topic")),
        partition=_partition(_number(origin.get(f"{family}partition"))),
        offset=_number(origin.get(f"{family}offset")),
        attempts=None if retries is None else retries + 1,
        reason=_UNDECODABLE if exception.endswith(_UNDECODABLES) else _FAILED,
        exception=exception,
        message=text(found.get(f"{family}reason")),
    )


# Source: https://smallrye.io/smallrye-reactive-messaging/latest/kafka/receiving-kafka-records/ (failure strategies)
SMALLRYE: Final = System(
    name="smallrye",
    title="SmallRye Reactive Messaging (Quarkus): `dead-letter-queue`, `delayed-retry-topic`",
    marks=tuple((f"{family}exception-class-name", f"{family}topic") for family in (_QUEUE, _RETRY)),
    read=_smallrye,
    removed=(f"{_QUEUE}*", f"{_RETRY}*", "deserialization-failure-*"),
    place=Place.FIRST,
    keeps_content=True,
    lacks="group; attempts, without retry topics",
    proof="4.33",
)

_ASYNC_RETRY: Final = "asyncRetry"


def _async_retry(headers: Headers) -> Failure:
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(dict(headers)[_ASYNC_RETRY] or b"")
    said = found if isinstance(found, dict) else {}
    topic, retries = said.get("top"), _number(str(said.get("att")).encode())
    return Failure(
        topic=topic if isinstance(topic, str) else "",
        attempts=None if retries is None or retries == LONG_MAX else retries + 1,
        reason=_FAILED,
    )


# Source: https://github.com/shutterstock/kafkajs-async-retry, version 1.0.0
ASYNC_RETRY: Final = System(
    name="kafkajs-async-retry",
    title="kafkajs-async-retry, of a record that was retried",
    marks=((_ASYNC_RETRY,),),
    read=_async_retry,
    removed=(_ASYNC_RETRY,),
    keeps_content=True,
    lacks="partition, offset, group, exception, message",
)


def _karafka(prefix: str, title: str) -> System:
    # Source: https://karafka.io/docs/Pro-Enhanced-Dead-Letter-Queue, https://karafka.io/docs/Upgrades-2.5
    fields = {field: f"{prefix}{field}" for field in ("topic", "partition", "offset", "attempts")}
    fields["group"] = f"{prefix}consumer_group"
    return System(
        name="karafka",
        title=title,
        marks=(tuple(fields[field] for field in ("topic", "partition", "offset", "group")),),
        read=lambda headers: _failure(dict(headers), fields, _number)._replace(reason=_FAILED),
        removed=(*fields.values(), f"{prefix}trace_id", f"{prefix}key"),
        keeps_content=True,
        lacks="exception and message",
    )


_WOLVERINE_TOPIC: Final = "kafka://topic/"
_WOLVERINE_FIELDS: Final = {"attempts": "attempts", "exception": "exception-type", "message": "exception-message"}


def _wolverine(headers: Headers) -> Failure:
    values = dict(headers)
    named = (text(values.get(name)) for name in ("original-destination", "destination"))
    topic = next((each.removeprefix(_WOLVERINE_TOPIC) for each in named if each.startswith(_WOLVERINE_TOPIC)), "")
    return _failure(values, _WOLVERINE_FIELDS, _number)._replace(topic=topic, reason=_FAILED)


# Source: https://wolverinefx.net/guide/messaging/transports/kafka.html, and ``KafkaListener.MoveToErrorsAsync`` in
# https://github.com/JasperFx/wolverine
WOLVERINE: Final = System(
    name="wolverine",
    title="Wolverine: the native dead letter queue",
    marks=(("exception-type", "failed-at"),),
    read=_wolverine,
    removed=("exception-type", "exception-message", "exception-stack", "failed-at", "original-destination", "attempts"),
    lacks="partition and offset; the topic if `destination` is missing",
)

SYSTEMS: Final = (
    SPRING,
    CLOUD_STREAM,
    CONNECT,
    STREAMS,
    SHARE,
    SMALLRYE,
    _karafka("source_", "Karafka: the enhanced dead letter queue"),
    _karafka("original_", "Karafka before 2.5: the same"),
    WOLVERINE,
    ASYNC_RETRY,
)
"""The systems that are recognised."""

NAMES: Final = tuple(dict.fromkeys(system.name for system in SYSTEMS))

UNKNOWN: Final = System(name="", marks=(), read=lambda _: Failure(), removed=())


_BETWEEN: Final = ", "


def is_claimed(name: str) -> bool:
    """Whether a name is that of several systems."""
    return _BETWEEN in name


def claimed_by(systems: Sequence[System]) -> System:
    """Return what stands for several systems that each could have written a letter: it says nothing of its failure."""
    names = _BETWEEN.join(dict.fromkeys(system.name for system in systems))
    return System(name=names, marks=(), read=lambda _: Failure(), removed=())
