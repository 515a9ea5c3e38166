"""What reads bytes that others have written, each with examples of them and the errors that it may raise."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kafka_redelivery.dead_letters.foreign.letter import foreign_letter, header_text, sent_again, system_of
from kafka_redelivery.dead_letters.foreign.systems import ANY, Recognition
from kafka_redelivery.dead_letters.letter import letter_of
from kafka_redelivery.dead_letters.where.where import Where
from kafka_redelivery.serdes.codec import JsonCodec, StringCodec
from kafka_redelivery.serdes.editing import editable
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.topology.migration.connection_uri import read_connection_uri
from kafka_redelivery.topology.migration.conversion import read_broker_configuration
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.redrive.actions import (
    ActionLog,
    ChunkProgress,
    End,
    Outcome,
    outcome_record,
    progress_record,
)
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import JobLog, JobOptions, JobSpec, SliceId, cancel_record, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import HeaderList, RedriveMark, parse_mark, read_lineage, read_redelivery
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage, Server
from kafka_redelivery.transport.activemq.queue_reader import FrameEnds

_SLICE: Final = SliceId("DLQ.orders", 0)
_EVERY: Final = OffsetSet(range(5))


class Target(NamedTuple):
    """One reader."""

    name: str
    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = (TopologyError,)


def _spec() -> JobSpec:
    options = JobOptions(group="billing", rate=5.0)
    return JobSpec(job="a", at_ms=1, by="me", seen=0, options=options, selection={}, slices=(_SLICE,))


_JOB: Final = tuple(job_records(_spec(), {_SLICE: _EVERY}))
_TOPICS: Final = TopicIds(cluster="c", ids={_SLICE.topic: "a"})
_NEWER: Final = tuple(job_records(replace(_spec(), job="b", topics=_TOPICS), {_SLICE: _EVERY}))
_SENT: Final = progress_record("a", 0, ChunkProgress(through=4, sent=2, gone=(1,), parked=(2,), refused={3: "no"}), 1)


def _jobs(value: bytes) -> None:
    """Read a record after a job, then one of any key."""
    log = JobLog()
    for offset, record in enumerate(_JOB):
        log.add(offset, record.key, record.value)
    try:
        log.add(2, b"a", value)
        log.add(3, value[:9], value)
        log.add(4, b"b", value)
    finally:
        log.settle()


def _actions(value: bytes) -> None:
    """Read a record of the slice of a job, before that one of any key."""
    log, actions = JobLog(), ActionLog()
    for offset, record in enumerate(_JOB):
        log.add(offset, record.key, record.value)
    log.settle()
    with suppress(TopologyError):
        actions.add(value[:9], value)
    try:
        actions.add(b"a/0", value)
        actions.add(_SENT.key, _SENT.value)
    finally:
        actions.slice("a", 0).known(log.jobs["a"].owned[0])


def _mark(value: bytes) -> None:
    text = value.decode(errors="replace")
    mark = parse_mark(text)
    assert mark is None or parse_mark(str(mark)) == mark


def pairs(value: bytes) -> HeaderList:
    """Return bytes as headers: lines of a name, a colon and a value."""
    lines = (line.partition(b":") for line in value.split(b"\n"))
    return [(name.decode(errors="replace"), content if colon else None) for name, colon, content in lines]


def _letter(value: bytes) -> None:
    headers = pairs(value)
    letter = letter_of("DLQ.orders", 0, 7, 1, b"k", headers)
    assert len(letter.fingerprint) < 100
    read_lineage(headers)
    read_redelivery(headers)


def _foreign(value: bytes) -> None:
    headers = pairs(value)
    mapped = Recognition((("topic", "a"), ("partition", "b"), ("offset", "c"), ("attempts", "d")))
    for recognition in (ANY, mapped, Recognition(system="spring")):
        letter = foreign_letter(("dlt", 0, 7), 1, b"k", headers, recognition)
        assert letter.id == "dlt-0@7"
        sent_again(headers, system_of(headers, recognition), "a/0@1/1")
    for name, content in headers:
        header_text(name, content)


def _frame(value: bytes) -> None:
    head, _, body = value.partition(b"\n\n")
    headers: Mapping[str, str] = {name: (content or b"").decode(errors="replace") for name, content in pairs(head)}
    message = BrokerMessage(headers, body)
    lineage = message.lineage("orders", message.key("JMSXGroupID"), 3)
    assert 0 <= lineage.partition < 3
    written = message.dead_letter(lineage, "billing")
    assert read_lineage(written).address == "orders"
    assert message.identity == BrokerMessage(dict(headers), body).identity
    for server in Server:
        for told in (None, {**headers, "type": 3}, {**headers, "type": 4}):
            assert len(message._replace(server=server, told=told).unknown_content) < 100
    ends = FrameEnds("token")
    ends.feed(value)
    assert len(ends.cut) <= value.count(b"\0") + value.count(b"\n\n")


def _broker(value: bytes) -> None:
    read_broker_configuration(value, "broker.xml", PlaceholderValues({"a": "1"}, {}))


def _uri(value: bytes) -> None:
    read_connection_uri(value.decode(errors="replace"))


def _where(value: bytes) -> None:
    condition = Where.of(value.decode(errors="replace"), 1)
    assert condition.duckdb


def _edited(value: bytes) -> None:
    for codec in (JsonCodec(), StringCodec()):
        form = editable(codec, value)
        assert form.encode(form.text) == value


def _exported(value: bytes) -> None:
    letter = ExportedLetter.parse(value)
    assert ExportedLetter.parse(json.dumps(letter.document("orders-0@1"))) == letter


def _headers(**values: object) -> bytes:
    return "\n".join(f"{name}:{value}" for name, value in values.items()).encode()


_OURS: Final = _headers(
    _AMQ_ORIG_ADDRESS="orders",
    _AMQ_ORIG_QUEUE="billing",
    _AMQ_ORIG_MESSAGE_ID="orders-0@17",
    JMSTimestamp=1_700_000_000_000,
    JMSXDeliveryCount=3,
    _AMQ_SCHED_DELIVERY=1_700_000_000_000,
    JMSExpiration=0,
    redrive="3f9a2c01bd/0@17/1",
    dlqDeliveryFailureCause='{"reason":"rejected","exception":"ValueError","message":"no card 4711"}',
)
_SPRING: Final = b"\n".join(
    [
        b"kafka_dlt-original-topic:orders",
        b"kafka_dlt-original-partition:\x00\x00\x00\x01",
        b"kafka_dlt-original-offset:\x00\x00\x00\x00\x00\x00\x00\x05",
        b"kafka_dlt-exception-fqcn:java.lang.IllegalStateException",
        b"kafka_dlt-exception-message:Listener failed; nested exception is x",
        b"kafka_deliveryAttempt:\x00\x00\x00\x03",
        b"redrive:3f9a2c01bd/0@17/1",
    ]
)
_SMALLRYE: Final = b"\n".join(
    [
        b"delayed-retry-exception-class-name:java.io.IOException",
        b"delayed-retry-topic:orders_1000",
        b"delayed-retry-topic:orders",
        b"delayed-retry-partition:1",
        b"delayed-retry-count:2",
        b'asyncRetry:{"top":"orders","att":2}',
    ]
)
_CLOUD_STREAM: Final = b"\n".join(
    [
        b"x-original-topic:orders",
        b"x-original-offset:\x00\x00\x00\x00\x00\x00\x00\x05",
        b"x-exception-fqcn:org.springframework.messaging.MessagingException",
        b"x-exception-stacktrace:a.B: c\r\tat d\rCaused by: e.F: g",
    ]
)
_CONNECT: Final = b"\n".join(
    [
        b"__connect.errors.topic:orders",
        b"__connect.errors.partition:1",
        b"__connect.errors.offset:5",
        b"__connect.errors.stage:VALUE_CONVERTER",
        b"__connect.errors.exception.stacktrace:a.B: c",
    ]
)
_KARAFKA: Final = b"source_topic:orders\nsource_partition:1\nsource_offset:5\nsource_attempts:2\na:orders\nb:1\nc:5"
_FRAME: Final = b"\n".join(
    [
        b"message-id:ID:host-1:1:1",
        b"destination:/queue/ActiveMQ.DLQ",
        b"original-destination:/queue/orders",
        b"timestamp:1700000000000",
        b"expires:0",
        b"JMSXGroupID:k",
        b"content-length:5",
        b"dlqDeliveryFailureCause:java.lang.Throwable: Exceeded redelivery policy limit:{a=1}, cause:x.Y: z",
        b"",
        b"hello",
    ]
)
_CLASSIC: Final = b"""<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" schedulerSupport="true"><destinationPolicy><policyMap>
<policyEntries><policyEntry queue="orders.&gt;" expireMessagesPeriod="30000"><deadLetterStrategy>
<individualDeadLetterStrategy queuePrefix="DLQ." expiration="5"/></deadLetterStrategy></policyEntry></policyEntries>
</policyMap></destinationPolicy><plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>
<redeliveryPolicy maximumRedeliveries="4" initialRedeliveryDelay="5000"/></defaultEntry></redeliveryPolicyMap>
</redeliveryPolicyMap></redeliveryPlugin></plugins></broker></beans>"""
_ARTEMIS: Final = b"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><address-settings>
<address-setting match="orders.#"><dead-letter-address>DLA</dead-letter-address>
<redelivery-delay>5000</redelivery-delay>
<redelivery-delay-multiplier>1.5</redelivery-delay-multiplier><max-delivery-attempts>5</max-delivery-attempts>
</address-setting></address-settings></core></configuration>"""
_EXPORTED: Final = ExportedLetter("DLQ.orders-0@1", 1, b"k", b'{"n": 1}', [("a", b"1"), ("b", None)], "waiting")
_EDIT: Final[dict[str, Any]] = {"version": 2, "type": "edit", "part": 0, "value": base64.b64encode(b"x").decode()}
_BOMB: Final = base64.b64encode(zlib.compress(b"\xff" * 200_000)).decode()

TARGETS: Final = (
    Target(
        "jobs: specification, letters, edit, cancellation",
        _jobs,
        (
            *(record.value for record in (*_JOB, *_NEWER)),
            cancel_record("a", 1, "me").value,
            json.dumps(_EDIT).encode(),
            json.dumps({"version": 1, "type": "letters", "slice": 0, "offsets": _BOMB}).encode(),
        ),
    ),
    Target(
        "actions: progress and outcomes",
        _actions,
        (
            _SENT.value,
            progress_record("a", 0, ChunkProgress(through=4, end=End.CANCELLED, set_aside=(4,)), 1).value,
            outcome_record(RedriveMark("a", 0, 3, 1), Outcome.RECOVERED, 1).value,
        ),
    ),
    Target("header `redrive`", _mark, (b"3f9a2c01bd/0@17/1", b"a/999999@9223372036854775807/999999")),
    Target("headers of our dead letters and retries", _letter, (_OURS,)),
    Target(
        "headers of other systems' dead letters",
        _foreign,
        (_SPRING, _CONNECT, _SMALLRYE, _CLOUD_STREAM, _KARAFKA, _OURS),
    ),
    Target("exported letters", _exported, (json.dumps(_EXPORTED.document("orders-0@1")).encode(),)),
    Target("edited JSON and text", _edited, (b'{"n": 1.50, "a": [true, null, "\\u00e4"]}', b"text\r\n"), (SerdeError,)),
    Target(
        "`--where`",
        _where,
        (
            b"value ->> '$.carrier' = 'UA' and attempts >= 3",
            b"not (key like 'a%' or headers['x'] is null) and died > now() - interval '2 hours'",
            b"reason in ('rejected', 'expired') or lower(message) = 'x'",
        ),
    ),
    Target("`activemq.xml` and `broker.xml`", _broker, (_CLASSIC, _ARTEMIS)),
    Target(
        "connection URIs",
        _uri,
        (
            b"failover:(tcp://a:1,tcp://b:2)?jms.redeliveryPolicy.maximumRedeliveries=3&jms.password=x",
            b"tcp://a:1?jms.redeliveryPolicy.useExponentialBackOff=true&jms.prefetchPolicy.all=1",
        ),
    ),
    Target("STOMP frames of ActiveMQ", _frame, (_FRAME,)),
)
