"""The recorded cases whose outcome differs from ActiveMQ's by design, each with its reason."""

from typing import Final

DIFFERENCES: Final = {
    "redeliv-083": "poison of ActiveMQ.DLQ itself is lost; here it is kept in DLQ.ActiveMQ.DLQ",
    "dlq-013": "poison of a plain topic subscriber is lost; a consumer group is always durable, so it is kept",
    "dlq-021": "an empty prefix makes the queue its own dead-letter queue, a loss; it is kept in DLQ.orders.eu",
    "dlq-072": "an expired dead letter moves on to DLQ.DLQ.q, and on; here it is removed",
    "dlq-112": "the broker took the rescheduled copy for a duplicate; the recording itself calls this unreliable",
    "e06-bad-regex": "the broker does not start with this pattern; the import reports it and leaves it out",
    "adlq-004": "without a dead-letter address the message is lost; it is kept in DLQ.orders",
    "adlq-026": "a dead-letter address without a queue loses the message; it is kept: the topic is part of the plan",
    "adlq-033": "an empty dead-letter address loses the message; it is kept in DLQ.DLQ",
    "adlq-049": "a second queue on the dead-letter address gets a copy, too; here other groups may read the one topic",
    "adlq-050": "a quote in the address breaks the filter of the created queue, a loss; it is kept in DLQ.o_brien",
    "adlq-065": "an expiry address without a queue loses the message; it is kept: the topic is part of the plan",
}
