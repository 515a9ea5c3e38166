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
from typing import Final, NamedTuple

from kafka_redelivery.topology.foreign.murmur2 import partition_of_key
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
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

GROUP_ID: Final = "JMSXGroupID"

_JMS: Final = {
    "correlation-id": "JMSCorrelationID",
    "reply-to": "JMSReplyTo",
    "type": "JMSType",
    "priority": "JMSPriority",
    "_AMQ_GROUP_ID": GROUP_ID,
}
_LEFT_OUT: Final = frozenset(
    {
        # Of this delivery over STOMP.
        *("ack", "content-length", "destination", "message-id", "redelivered", "subscription"),
        # Artemis's own, and what a dead letter of ours says in another way.
        *("__AMQ_CID", "_AMQ_ROUTING_TYPE", "_AMQ_ORIG_ROUTING_TYPE", ORIG_ADDRESS, ORIG_QUEUE, ORIG_MESSAGE_ID),
        *("expires", "original-destination", "persistent", "timestamp", EXPIRATION),
    }
)
_CAUSE: Final = re.compile(r", cause:(.*)$", re.DOTALL)
_THROWN: Final = re.compile(r"([\w.$]+)(?:: (.*))?$", re.DOTALL)
_LATER_THAN_KAFKA: Final = 2**62
"""A message has no offset in a source. It gets one that no record of Kafka will ever have."""


class BrokerMessage(NamedTuple):
    """A message of the broker, as STOMP shows it."""

    headers: Mapping[str, str]
    body: bytes
    queue: str = ""
    """The queue that it is in."""

    @property
    def readable(self) -> bool:
        """Whether the body is there: STOMP shows none of a MapMessage, an ObjectMessage or a StreamMessage.

        An empty text cannot be told from these.
        """
        return bool(self.body) or "content-length" in self.headers

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
            _LATER_THAN_KAFKA + digest % _LATER_THAN_KAFKA,
            self._number("timestamp"),
            expiration_ms=self._number(ORIGINAL_EXPIRATION),
            persistent=self.headers.get(ORIGINAL_DELIVERY_MODE) != NON_PERSISTENT.decode(),
        )

    def dead_letter(self, lineage: Lineage, group: str) -> HeaderList:
        """Return the headers of the letter: ours, those of JMS, and the properties of the message as text."""
        decision = DeadLetter(*self._cause(), expiration_ms=self._number("expires"))
        headers = dead_letter_headers(lineage, group, self._properties(), decision, self._number(ACTUAL_EXPIRY))
        return [*headers, (IMPORTED_FROM, self.identity.encode())]

    def _properties(self) -> HeaderList:
        found: HeaderList = [
            (_JMS.get(name, name), value.encode()) for name, value in self.headers.items() if name not in _LEFT_OUT
        ]
        own = self.headers.get("message-id", "")
        found += [("JMSMessageID", own.encode())] if own.startswith("ID:") else []
        return [*found, ("JMSDestination", self.destination.encode())] if self.destination else found

    def _cause(self) -> tuple[Reason, Failure]:
        """Return why the message died. Artemis says so only of an expired one."""
        said = self.headers.get(FAILURE_CAUSE, "")
        expired = ACTUAL_EXPIRY in self.headers or "Expired" in said.partition("{")[0]
        cause = _CAUSE.search(said)
        thrown = _THROWN.match(cause[1]) if cause and cause[1] != "null" else None
        exception, message = (thrown[1], thrown[2] or "") if thrown else ("", said)
        return (
            Reason.EXPIRED if expired else Reason.REDELIVERIES_EXCEEDED,
            Failure(FailureKind.RAISED, exception, message),
        )

    def _number(self, name: str) -> int:
        value = self.headers.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0  # noqa: PLR2004 - a long
