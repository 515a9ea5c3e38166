"""A consumer of a share group: it rejects what its handler cannot handle, and Kafka makes a dead letter of that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event

from confluent_kafka import AcknowledgeType, Message, ShareConsumer


def consume(servers: str, group: str, topic: str, handle: Callable[[Message], None], stop: Event) -> None:
    """Handle the records of a topic until ``stop``.

    Args:
        servers: ``host:port`` of brokers.
        group: the share group.
        topic: the topic.
        handle: raises for a record that it cannot handle.
        stop: ends it within a second.
    """
    consumer = ShareConsumer(
        {"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    try:
        consumer.subscribe([topic])
        while not stop.is_set():
            for message in consumer.poll(1.0):
                if message.error() is None:
                    consumer.acknowledge(message, _outcome(message, handle))
            consumer.commit_sync()
    finally:
        consumer.close()


def _outcome(message: Message, handle: Callable[[Message], None]) -> AcknowledgeType:
    try:
        handle(message)
    except Exception as error:  # noqa: BLE001 - whatever the handler raises
        sys.stderr.write(f"{message.topic()}-{message.partition()}@{message.offset()} is rejected: {error}\n")
        return AcknowledgeType.REJECT
    return AcknowledgeType.ACCEPT
