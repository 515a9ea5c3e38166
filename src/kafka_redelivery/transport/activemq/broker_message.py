"""From a message in a dead-letter queue of ActiveMQ to a dead letter of ours.

Both brokers show a message over STOMP as text headers and a body. Classic gives the JMS message id as ``message-id``;
Artemis gives ids of its own there, and keeps that of the original message in ``_AMQ_ORIG_MESSAGE_ID``.

Source: frames of ActiveMQ Classic 5.18.6 and Artemis 2.40.0;
https://activemq.apache.org/components/classic/documentation/stomp,
https://activemq.apache.org/components/artemis/documentation/latest/stomp.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import IMPORTED_OFFSETS, Lineage
from kafka_redelivery.topology.wire.headers import (
    ACTUAL_EXPIRY,
    EXPIRATION,
    FAILURE_CAUSE,
    IMPORTED_FROM,
    NON_PERSISTENT,
    ORIG_ADDRESS,
    ORIG_MESSAGE_ID,
    ORIG_QUEUE,
    ORIGINAL_DELIVERY_MODE,
    ORIGINAL_EXPIRATION,
    HeaderList,
    dead_letter_headers,
)

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among ``partitions``.

    Source: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``.
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    found = (_SEED ^ len(data)) & _MASK
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        word = ((word ^ (word >> 24)) * _M) & _MASK
        found = ((found * _M) & _MASK) ^ word
    if rest := data[whole:]:
        found = ((found ^ int.from_bytes(rest, "little")) * _M) & _MASK
    found = ((found ^ (found >> 13)) * _M) & _MASK
    return found ^ (found >> 15)


GROUP_ID: Final = "JMSXGroupID"

_JMS: Final = {
    "correlation-id": "JMSCorrelationID",
    "reply-to": "JMSReplyTo",
    "type": "JMSType",
    "priority": "JMSPriority",
    "_AMQ_GROUP_ID": GROUP_ID,
    "_AMQ_GROUP_SEQUENCE": "JMSXGroupSeq",
}
_OPENWIRE: Final = "__HDR_"
_LEFT_OUT: Final = frozenset(
    {
        # Of this delivery over STOMP.
        *("ack", "content-length", "destination", "message-id", "redelivered", "subscription"),
        # Artemis's own, and what a dead letter of ours says in another way.
        *("__AMQ_CID", "_AMQ_ROUTING_TYPE", "_AMQ_ORIG_ROUTING_TYPE", ORIG_ADDRESS, ORIG_QUEUE, ORIG_MESSAGE_ID),
        *("expires", "original-destination", "persistent", "timestamp", EXPIRATION, "destination-type"),
    }
)
_OF_PROTOCOLS: Final = (_OPENWIRE, "JMS_AMQP_")
"""What Artemis keeps of OpenWire, and both brokers of AMQP, beside the user's properties."""

_CAUSE: Final = re.compile(r", cause:(.*)$", re.DOTALL)
_THROWN: Final = re.compile(r"([\w.$]+)(?:: (.*))?$", re.DOTALL)
_DUPLICATE: Final = re.compile(r"(?:[\w.$]+: )?(?:suppressing )?duplicate ", re.IGNORECASE)
"""Of Classic, which found the message twice: in its store, or sent again after a failover."""

_TEXT: Final = 3
_BYTES: Final = 4
_NAMES: Final = {2: "an ObjectMessage", 5: "a MapMessage", 6: "a StreamMessage"}
"""Artemis's numbers of the types of messages."""

_NOTHING: Final = "a message without a type of content"
_NO_BODY: Final = "STOMP shows no body: a MapMessage, ObjectMessage or StreamMessage, or an empty text"
_NATIVE: Final = "JMS_AMQP_NATIVE"
_NATIVE_AMQP: Final = "a message of AMQP: Classic shows its whole encoding, and cannot take its acknowledgement"
_EMPTY_IN_ARTEMIS: Final = bytes(4)


class Server(StrEnum):
    """Which broker it is, by how it greets."""

    CLASSIC = "Classic"
    ARTEMIS = "Artemis"
    OTHER = "other"

    @classmethod
    def of(cls, greeting: str) -> Server:
        """Return the broker of a header ``server``."""
        if greeting.startswith("ActiveMQ-Artemis/"):
            return cls.ARTEMIS
        return cls.CLASSIC if greeting.startswith("ActiveMQ/") else cls.OTHER


class BrokerMessage(NamedTuple):
    """A message of the broker, as STOMP shows it."""

    headers: Mapping[str, str]
    body: bytes
    queue: str = ""
    """The queue that it is in."""

    server: Server = Server.OTHER

    told: Mapping[str, Any] | None = None
    """What Artemis's management says of it; its frames look the same for each type of message."""

    problem: str = ""
    """What keeps the type from being known, or shows that the body is not whole."""

    @property
    def unknown_content(self) -> str:
        """Why it is not known that the body is all that the message contains; empty if that is known.

        It is known of a text or bytes message of Classic, which shows no body of others, and of one of Artemis that
        its management calls so. Of Artemis's other types the body is a few bytes of their encoding.
        """
        if self.problem:
            return self.problem
        if self.server is Server.CLASSIC:
            if self.headers.get(_NATIVE) == "true":
                return _NATIVE_AMQP
            return "" if self.body or "content-length" in self.headers else _NO_BODY
        if self.server is Server.ARTEMIS:
            return self._unknown_in_artemis()
        return "the broker does not say that it is ActiveMQ Classic or Artemis"

    def _unknown_in_artemis(self) -> str:
        number = None if self.told is None else self.told.get("type")
        # Management has a type only for messages of its own form. Of one of AMQP it shows a property of that name.
        if self.told is None or number is None or any(name.startswith("JMS_AMQP") for name in self.headers):
            return "Artemis does not tell the type of a message of AMQP"
        if number == _TEXT:
            if self.headers.get("_AMQ_LARGE_COMPRESSED") == "true":
                return "a TextMessage that its client compressed"
            if not self.body:
                return "an empty text, or none: STOMP does not tell them apart"
            return "a text with a property content-length" if "content-length" in self.told else ""
        if number == _BYTES:
            if self.headers.get("_AMQ_LARGE_COMPRESSED") == "true":
                return "a BytesMessage that its client compressed"
            if self.body == _EMPTY_IN_ARTEMIS:
                return "four zero bytes: Artemis shows an empty BytesMessage like this"
            return "" if self.body else "an empty BytesMessage"
        return f"{_NAMES.get(number, _NOTHING)}, which STOMP does not show whole"

    @property
    def destination(self) -> str:
        """Where the message was before it died, such as ``orders`` or ``topic:news``; empty if it is not known."""
        named = self.headers.get("original-destination") or self.headers.get(ORIG_ADDRESS, "")
        if named.startswith("/topic/"):
            return f"topic:{named.removeprefix('/topic/')}"
        return named.removeprefix("/queue/")

    @property
    def identity(self) -> str:
        """The id of the message, and a digest of what it says: the same at every delivery, on any connection.

        Artemis also moves a message from a dead-letter queue into the same one, with a new id, when readers that had
        it were killed too often. Then its original id does not count: messages of several subscriptions share it.
        """
        own = self.headers.get("message-id", "")
        name = own.rpartition(",")[2]
        if own.startswith("ID:"):
            name = own
        elif self.headers.get(ORIG_QUEUE) != self.queue:
            name = self.headers.get(ORIG_MESSAGE_ID) or name
        return f"activemq:{name}/{self._digest[:16]}"

    @property
    def _digest(self) -> str:
        passing = {"ack", "message-id", "redelivered", "subscription"}
        said = sorted(pair for pair in self.headers.items() if pair[0] not in passing)
        return hashlib.sha256(repr((said, self.body)).encode()).hexdigest()

    def key(self, name: str) -> bytes | None:
        """Return the key of the record: the value of this property; ``None`` without it."""
        value = self.headers.get("_AMQ_GROUP_ID" if name == GROUP_ID and name not in self.headers else name)
        return None if value is None else value.encode()

    def lineage(self, source: str, key: bytes | None, partitions: int) -> Lineage:
        """Return the lineage of the letter: in the partition of its key, or one that its content chooses.

        Args:
            source: the source topic that takes the place of its destination.
            key: its key.
            partitions: their number in the source.
        """
        digest = int(self._digest, 16)
        return Lineage(
            source,
            digest % partitions if key is None else partition_of_key(key, partitions),
            IMPORTED_OFFSETS + digest % IMPORTED_OFFSETS,
            self._number("timestamp"),
            expiration_ms=self._number(ORIGINAL_EXPIRATION),
            persistent=self.headers.get(ORIGINAL_DELIVERY_MODE) != NON_PERSISTENT.decode(),
        )

    def dead_letter(self, lineage: Lineage, group: str) -> HeaderList:
        """Return the headers of the letter: ours, those of JMS, and the properties of the message as text."""
        decision = DeadLetter(*self._cause(), expiration_ms=self._number("expires"))
        headers = dead_letter_headers(lineage, group, self._properties(), decision, self._number(ACTUAL_EXPIRY))
        return [*headers, (IMPORTED_FROM, self.identity.encode())]

    @property
    def is_expired(self) -> bool:
        """Whether the message expired, rather than failed."""
        return self._cause()[0] is Reason.EXPIRED

    def _properties(self) -> HeaderList:
        found: HeaderList = [
            (_JMS.get(name, name), value.encode())
            for name, value in self.headers.items()
            if name not in _LEFT_OUT and not name.startswith(_OF_PROTOCOLS)
        ]
        own = self.headers.get("message-id", "")
        found += [("JMSMessageID", own.encode())] if own.startswith("ID:") else []
        return [*found, ("JMSDestination", self.destination.encode())] if self.destination else found

    def _cause(self) -> tuple[Reason, Failure]:
        """Return why the message died. Artemis says so only of an expired one, and of one that OpenWire delivered."""
        said = self.headers.get(FAILURE_CAUSE) or self.headers.get(f"{_OPENWIRE}{FAILURE_CAUSE}", "")
        expired = ACTUAL_EXPIRY in self.headers or "Expired" in said.partition("{")[0]
        cause = _CAUSE.search(said)
        thrown = _THROWN.match(cause[1]) if cause and cause[1] != "null" else None
        exception, message = (thrown[1], thrown[2] or "") if thrown else ("", said)
        reason = Reason.EXPIRED if expired else Reason.REDELIVERIES_EXCEEDED
        if _DUPLICATE.match(said):
            reason = Reason.DUPLICATE
        return reason, Failure(FailureKind.RAISED, exception, message)

    def _number(self, name: str) -> int:
        value = self.headers.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0  # noqa: PLR2004 - a long
