"""What a group has committed.

Asked through a consumer and not through the admin client: that one crashes when the group's coordinator
is just starting or moving (librdkafka#5040, open in 2.16), and on a fresh cluster it always is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from topology.progress import Checkpoint
from transport.admin_calls import AdminCalls, admin_log, refusal, text_of
from transport.admin_errors import ClientSettingsError
from transport.client_config import Value, consumer_config


def committed_offsets(
    calls: AdminCalls, kafka: Mapping[str, Value], group: str, places: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """(topic, partition) -> the group's committed offset; a partition without one is missing.

    The group is not joined.

    Raises:
        ClientSettingsError, BrokerUnavailableError, NotAuthorisedError, AdminError: as :func:`committed`.
    """
    return {place: point.offset for place, point in committed(calls, kafka, group, places).items()}


def committed(
    calls: AdminCalls, kafka: Mapping[str, Value], group: str, places: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], Checkpoint]:
    """The same with the metadata of each commit.

    Raises:
        ClientSettingsError: the client refuses its settings.
        BrokerUnavailableError, NotAuthorisedError, AdminError: there was no answer.
    """
    # Not waiting for open transactions: the offset before one is as good here, and a dead writer's
    # transaction may stay open for longer than anybody wants to wait for a start.
    config = consumer_config(kafka, group=group, instance=None) | {"isolation.level": "read_uncommitted"}
    troubles: list[KafkaError] = []
    try:
        consumer = Consumer({**config, "error_cb": troubles.append}, logger=admin_log)
    except (KafkaException, TypeError, ValueError) as error:
        raise ClientSettingsError(text_of(error)) from None
    wanted = [TopicPartition(topic, number) for topic, number in places]
    operation = f"read the offsets of group {group}"
    try:
        answer = calls.repeated(operation, lambda: consumer.committed(wanted, timeout=calls.timeout_s), troubles)
    finally:
        consumer.close()
    found = {}
    for place in answer:
        if place.error is not None:
            raise refusal(operation, place.error)
        if place.offset >= 0:
            found[place.topic, place.partition] = Checkpoint(place.offset, place.metadata or "")
    return found
