"""Topics as the brokers describe them, and what a user may do on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartitionInfo
from confluent_kafka.admin import AclOperation, TopicDescription

from kafka_redelivery.topology.cluster.kafka_rights import Operation
from kafka_redelivery.transport.admin.calls import AdminCalls

ABSENT = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
)
"""Error codes of a topic that does not exist or cannot. Kafka also says so that the user may not describe it."""

_OPERATIONS = {
    AclOperation.CREATE: Operation.CREATE,
    AclOperation.READ: Operation.READ,
    AclOperation.WRITE: Operation.WRITE,
    AclOperation.DELETE: Operation.DELETE,
    AclOperation.ALTER: Operation.ALTER,
    AclOperation.ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    AclOperation.DESCRIBE: Operation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
}


def describe_topics(
    calls: AdminCalls, topics: Iterable[str], *, operations: bool = True
) -> dict[str, TopicDescription | int]:
    """Return the description of each topic, with what the user may do there if ``operations`` is true.

    For a topic that does not exist or cannot, or that the user may not even describe, the error code that says so.
    Kafka reports the last also for a topic that does not exist.

    Raises:
        TransportError: the cluster does not answer, or refuses for another reason.
    """
    wanted = sorted(set(topics))
    if not wanted:
        return {}

    def ask() -> dict[str, TopicDescription | int]:
        described = calls.client.describe_topics(
            TopicCollection(wanted), include_authorized_operations=operations, request_timeout=calls.timeout_s
        )
        found: dict[str, TopicDescription | int] = {}
        for topic, answer in described.items():
            try:
                found[topic] = answer.result(2 * calls.timeout_s)
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if error.code() not in ABSENT:
                    raise
                found[topic] = int(error.code())
        return found

    return calls.repeated("describe topics", ask)


def is_led(partition: TopicPartitionInfo) -> bool:
    """Whether a partition has a leader that runs."""
    return partition.leader is not None and partition.leader.id >= 0


def allowed_operations(calls: AdminCalls, topics: Iterable[str]) -> dict[str, Collection[Operation]]:
    """Return what the user may do on each topic; a topic is missing if it does not exist, or it is not reported.

    Raises:
        TransportError: as :func:`describe_topics`.
    """
    found: dict[str, Collection[Operation]] = {}
    for topic, described in describe_topics(calls, topics).items():
        if described == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            found[topic] = ()
        elif isinstance(described, TopicDescription) and described.authorized_operations is not None:
            found[topic] = {_OPERATIONS[each] for each in described.authorized_operations if each in _OPERATIONS}
    return found
