"""What the frames of both brokers become; their headers are as Classic 5.18.6 and Artemis 2.40.0 sent them."""

import json

import pytest

from kafka_redelivery.dead_letters.draining import letter_targets
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.wire.headers import read_lineage, users_own
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage, Server

POLICY = "RedeliveryPolicy {destination = null, maximumRedeliveries = 1, preDispatchCheck = true}"
CLASSIC = {
    "expires": "0",
    "correlation-id": "correlation-0",
    "dlqDeliveryFailureCause": (
        f"java.lang.Throwable: Delivery[2] exceeds redelivery policy limit:{POLICY}, "
        "cause:java.lang.IllegalStateException: the bank is down: 7"
    ),
    "destination": "/queue/ActiveMQ.DLQ",
    "ack": "ID:vm-39887-1795435435503-6:1",
    "subscription": "1",
    "priority": "4",
    "type": "order",
    "number": "0",
    "original-destination": "/queue/orders",
    "originalExpiration": "0",
    "message-id": "ID:vm-39887-1795435435503-4:1:1:1:1",
    "persistent": "true",
    "timestamp": "1795435435789",
}
ARTEMIS = {
    "subscription": "1",
    "message-id": "91,36",
    "destination": "DLQ",
    "correlation-id": "correlation-0",
    "expires": "0",
    "redelivered": "false",
    "priority": "4",
    "persistent": "true",
    "timestamp": "1795436398698",
    "type": "order",
    "_AMQ_GROUP_ID": "customer-0",
    "__AMQ_CID": "32ccc001-e738-11f1-b318-e6d4ad3c7d1e",
    "_AMQ_ORIG_QUEUE": "orders",
    "_AMQ_ORIG_ROUTING_TYPE": "1",
    "number": "0",
    "_AMQ_ORIG_ADDRESS": "orders",
    "_AMQ_ORIG_MESSAGE_ID": "16",
    "ack": "91,36",
    "content-length": "7",
}

_EXPIRING = """
group: billing
kafka: {bootstrap.servers: "localhost:9092"}
sources: [{topic: orders}, {topic: bills}, {topic: audit}]
artemis:
  address-settings:
    - {match: "#", dead-letter-address: DLQ}
    - {match: orders, expiry-address: Expired}
    - {match: bills, expiry-address: Absent}
handler: {callable: "examples:handle"}
"""


def headers(frame: dict[str, str], **more: str) -> dict[str, bytes | None]:
    """Return the headers of the dead letter that a frame becomes."""
    message = BrokerMessage(frame | more, b"order 0")
    return dict(message.dead_letter(message.lineage("billing.orders", None, 3), "billing"))


@pytest.mark.parametrize("frame", [CLASSIC, ARTEMIS], ids=["classic", "artemis"])
def test_a_dead_letter_of_ours(frame: dict[str, str]) -> None:
    """It can be read like one, has a source record that Kafka cannot have, and only the user's headers besides."""
    found = headers(frame)
    lineage = read_lineage(list(found.items()))
    assert (lineage.address, lineage.timestamp_ms, lineage.deliveries) == (
        "billing.orders",
        int(frame["timestamp"]),
        0,
    )
    assert 2**62 <= parse_message_id(lineage.message_id)[2] < 2**63
    assert found["_AMQ_ORIG_QUEUE"] == b"billing"
    own = {name for name, _ in users_own(list(found.items()))} - {"JMSMessageID", "JMSXGroupID"}
    assert own == {"JMSCorrelationID", "JMSPriority", "JMSType", "JMSDestination", "number"}
    assert found["JMSDestination"] == b"orders"


def test_causes() -> None:
    """Class and text of what the listener raised; an expired message; a text that is not understood."""

    def cause(frame: dict[str, str], **more: str) -> tuple[str, ...]:
        *texts, frames = json.loads(headers(frame, **more)["dlqDeliveryFailureCause"] or b"").values()
        assert frames == []
        return tuple(texts)

    exceeded = "redeliveries_exceeded"
    assert cause(CLASSIC) == (exceeded, "java.lang.IllegalStateException", "the bank is down: 7")
    without = f"java.lang.Throwable: Exceeded redelivery policy limit:{POLICY}, cause:null"
    assert cause(CLASSIC, dlqDeliveryFailureCause=without) == (exceeded, "", without)
    bare = f"java.lang.Throwable: Exceeded redelivery policy limit:{POLICY}, cause:java.lang.Error"
    assert cause(CLASSIC, dlqDeliveryFailureCause=bare) == (exceeded, "java.lang.Error", "")
    late = "java.lang.Throwable: Message Expired. Expiration:1795435435789"
    assert cause(CLASSIC, dlqDeliveryFailureCause=late) == ("expired", "", late)
    assert cause(ARTEMIS) == (exceeded, "", "")
    assert cause(ARTEMIS, _AMQ_ACTUAL_EXPIRY="1795436398800") == ("expired", "", "")
    assert headers(ARTEMIS, _AMQ_ACTUAL_EXPIRY="1795436398800")["_AMQ_ACTUAL_EXPIRY"] == b"1795436398800"


def test_an_expired_one_goes_where_expired_records_go() -> None:
    """The configuration of Artemis has an expiry address; without its topic it is a dead letter like others."""
    assert not BrokerMessage(ARTEMIS, b"").is_expired
    assert BrokerMessage(ARTEMIS | {"_AMQ_ACTUAL_EXPIRY": "1795436398800"}, b"").is_expired
    settings = load_settings(_EXPIRING)
    targets = letter_targets(settings, {"DLQ": 3, "Expired": 3})
    assert targets == {"orders": ("DLQ", "Expired"), "bills": ("DLQ", "DLQ"), "audit": ("DLQ", "DLQ")}


def test_a_duplicate_has_a_reason_of_its_own() -> None:
    """Classic dead-letters what it finds twice; a text of the user that begins with the word is another matter."""
    for said in ("duplicate from store for queue://orders", "Suppressing duplicate delivery on connection, consumer 1"):
        found = json.loads(
            headers(CLASSIC, dlqDeliveryFailureCause=f"java.lang.Throwable: {said}")["dlqDeliveryFailureCause"] or b""
        )
        assert found["reason"] == "duplicate", said
    thrown = f"java.lang.Throwable: Exceeded redelivery policy limit:{POLICY}, cause:a.B: duplicate order"
    found = json.loads(headers(CLASSIC, dlqDeliveryFailureCause=thrown)["dlqDeliveryFailureCause"] or b"")
    assert found["reason"] == "redeliveries_exceeded"


def test_what_artemis_keeps_of_protocols() -> None:
    """The cause that an OpenWire client gave is read. Nothing else of a protocol becomes a header of the user."""
    more = {
        "__HDR_dlqDeliveryFailureCause": CLASSIC["dlqDeliveryFailureCause"],
        **dict.fromkeys(("__HDR_BROKER_IN_TIME", "__HDR_MESSAGE_ID", "JMS_AMQP_HEADER", "destination-type"), "1"),
        "_AMQ_GROUP_SEQUENCE": "3",
    }
    found = headers(ARTEMIS, **more)
    assert json.loads(found["dlqDeliveryFailureCause"] or b"")["exception"] == "java.lang.IllegalStateException"
    assert found["JMSXGroupSeq"] == b"3"
    assert found.keys() == headers(ARTEMIS).keys() | {"JMSXGroupSeq"}


def test_a_message_of_amqp_stays_in_classic() -> None:
    """Its body is AMQP's encoding, and the broker closes the connection when it is acknowledged."""
    native = BrokerMessage(
        CLASSIC | {"JMS_AMQP_NATIVE": "true", "content-length": "7"}, b"order 0", server=Server.CLASSIC
    )
    assert "a message of AMQP" in native.unknown_content


def test_expirations() -> None:
    """Those of the message in the queue and of the original; a damaged one is none."""
    found = headers(CLASSIC, expires="1795435499999", originalExpiration="1795435400000")
    assert (found["JMSExpiration"], found["originalExpiration"]) == (b"1795435499999", b"1795435400000")
    assert "JMSExpiration" not in headers(CLASSIC, expires="soon")
    assert headers(CLASSIC, originalDeliveryMode="NON_PERSISTENT")["originalDeliveryMode"] == b"NON_PERSISTENT"


@pytest.mark.parametrize("frame", [CLASSIC, ARTEMIS], ids=["classic", "artemis"])
def test_identity(frame: dict[str, str]) -> None:
    """The same on another connection and when it is delivered again; another one if it says something else."""
    found = BrokerMessage(frame, b"order 0").identity
    number = frame["message-id"].rpartition(",")[2]
    again = {"ack": "other", "subscription": "7", "redelivered": "true", "message-id": f"17,{number}"}
    later = frame | again | ({"message-id": frame["message-id"]} if frame is CLASSIC else {})
    assert BrokerMessage(later, b"order 0").identity == found
    assert BrokerMessage(frame, b"order 1").identity != found
    assert BrokerMessage(frame | {"number": "1"}, b"order 0").identity != found
    assert found.startswith("activemq:ID:vm-" if frame is CLASSIC else "activemq:16/")


def test_a_message_that_artemis_has_moved_onto_its_own_queue() -> None:
    """Two of one topic, from two subscriptions, stay two: their original id is the same, and now their queue, too."""
    first, second = (
        BrokerMessage(ARTEMIS | {"_AMQ_ORIG_QUEUE": "DLQ", "message-id": f"17,{number}"}, b"order 0", "DLQ").identity
        for number in (104, 105)
    )
    assert first != second
    subscribed = [
        BrokerMessage(ARTEMIS | {"_AMQ_ORIG_QUEUE": name}, b"order 0", "DLQ").identity for name in ("audit", "billing")
    ]
    assert len(set(subscribed)) == 2


def test_keys_and_destinations() -> None:
    """A key chooses the partition; a topic is told from a queue."""
    message = BrokerMessage(ARTEMIS, b"order 0")
    assert (message.key("JMSXGroupID"), message.key("number"), message.key("other")) == (b"customer-0", b"0", None)
    assert message.lineage("orders", b"abc", 7).partition == 479470107 % 7
    assert BrokerMessage({"original-destination": "/topic/news"}, b"").destination == "topic:news"
    assert BrokerMessage({}, b"").destination == ""


@pytest.mark.parametrize(
    ("greeting", "server"),
    [
        ("ActiveMQ/5.18.6", Server.CLASSIC),
        ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", Server.ARTEMIS),
        ("RabbitMQ/4.1.0", Server.OTHER),
        ("", Server.OTHER),
    ],
)
def test_brokers(greeting: str, server: Server) -> None:
    """A broker is known by its greeting."""
    assert Server.of(greeting) is server


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (BrokerMessage(CLASSIC, b"order 0", server=Server.CLASSIC), ""),
        (BrokerMessage({"content-length": "0"}, b"", server=Server.CLASSIC), ""),
        (BrokerMessage(CLASSIC, b"", server=Server.CLASSIC), "no body"),
        (BrokerMessage(CLASSIC, b"order", server=Server.CLASSIC, problem="it is cut"), "it is cut"),
        (BrokerMessage(CLASSIC, b"order 0"), "does not say that it is ActiveMQ"),
        (BrokerMessage(ARTEMIS, b"order 0", server=Server.ARTEMIS), "AMQP"),
        (BrokerMessage(ARTEMIS, b"order 0", server=Server.ARTEMIS, told={"kind": "map"}), "AMQP"),
    ],
)
def test_whole_content(message: BrokerMessage, reason: str) -> None:
    """A text or bytes message of Classic is whole. Others, and those of another broker, are not known to be."""
    assert reason in message.unknown_content
    assert bool(message.unknown_content) is bool(reason)


@pytest.mark.parametrize(
    ("told", "more", "body", "reason"),
    [
        ({"type": 3}, {}, b"order 0", ""),
        ({"type": 3}, {}, b"", "an empty text, or none"),
        ({"type": 3, "content-length": "7"}, {}, b"order 0", "content-length"),
        ({"type": 3}, {"JMS_AMQP_HEADER": "true"}, b"order 0", "AMQP"),
        ({"type": 4}, {}, b"\0\xff", ""),
        ({"type": 4}, {}, b"", "an empty BytesMessage"),
        ({"type": 4}, {}, bytes(4), "four zero bytes"),
        ({"type": 4}, {"_AMQ_LARGE_COMPRESSED": "true"}, b"x\x9c", "compressed"),
        ({"type": 3}, {"_AMQ_LARGE_COMPRESSED": "true"}, b"x\x9c", "compressed"),
        ({"type": 0}, {}, b"order 0", "without a type of content"),
        ({"type": 2}, {}, b"", "an ObjectMessage"),
        ({"type": 5}, {}, b"order 0", "a MapMessage"),
        ({"type": 6}, {}, b"order 0", "a StreamMessage"),
        ({"type": 99}, {}, b"order 0", "without a type of content"),
        ({"type": "3"}, {}, b"order 0", "without a type of content"),
    ],
)
def test_whole_content_of_artemis(told: dict[str, object], more: dict[str, str], body: bytes, reason: str) -> None:
    """Only what management calls a text or bytes message, and what STOMP shows of that unchanged."""
    found = BrokerMessage(ARTEMIS | more, body, server=Server.ARTEMIS, told=told).unknown_content
    assert reason in found
    assert bool(found) is bool(reason)
