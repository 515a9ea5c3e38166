"""Whether a topic still holds records that nobody has read."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from transport.admin_calls import admin_log, text_of
from transport.admin_errors import ClientSettingsError
from transport.client_config import Value, consumer_config

_POLL_S = 0.1


def topics_with_records(
    kafka: Mapping[str, Value], topics: Mapping[str, Mapping[int, int]], group: str, *, timeout_s: float = 10.0
) -> frozenset[str]:
    """Those of the topics with a committed record at or above the given offset of a partition.

    Offsets alone cannot tell: the end of a partition counts the markers of transactions, too. So the
    topics are read until a record or their end comes; what cannot be read in time counts as held.

    Args:
        kafka: the client settings.
        topics: topic -> partition -> where to start; negative = at its beginning.
        group: named to the broker; it is neither joined nor committed to.
        timeout_s: for all of them together.

    Raises:
        ClientSettingsError: the client refuses its settings.
    """
    places = {(topic, number): start for topic, starts in topics.items() for number, start in starts.items()}
    if not places:
        return frozenset()
    try:
        consumer = Consumer(consumer_config(kafka, group=group, instance=None), logger=admin_log)
    except (KafkaException, TypeError, ValueError) as error:
        raise ClientSettingsError(text_of(error)) from None
    try:
        consumer.assign(
            [
                TopicPartition(topic, number, start if start >= 0 else OFFSET_BEGINNING)
                for (topic, number), start in places.items()
            ]
        )
        return _read(consumer, set(places), time.monotonic() + timeout_s)
    finally:
        consumer.close()


def _read(consumer: Consumer, places: set[tuple[str, int]], deadline: float) -> frozenset[str]:
    held: set[str] = set()
    while places and time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        topic, error = str(message.topic()), message.error()
        if error is None:
            held.add(topic)
            places = {place for place in places if place[0] != topic}
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            places.discard((topic, message.partition() or 0))
    return frozenset(held | {topic for topic, _ in places})
