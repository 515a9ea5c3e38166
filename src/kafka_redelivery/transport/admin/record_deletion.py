"""Deletes the oldest records of partitions. A partition that refuses does not affect the others."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from kafka_redelivery.transport.admin.calls import AdminCalls, answers_of
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.kafka_errors import with_right
from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 30.0


class RecordDeleter:
    """Deletes records for good. Not thread-safe; connects with the first request.

    Without ``calls`` it has an admin client of its own.
    """

    def __init__(self, kafka: Mapping[str, ConfigValue], *, calls: AdminCalls | None = None) -> None:
        self._calls = calls or AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def delete_before(self, ends: Mapping[Partition, int]) -> dict[Partition, str]:
        """Delete the records below these offsets.

        Returns:
            the reason for each partition that refused, or did not confirm in time.
        """
        wanted = [TopicPartition(*partition, end) for partition, end in ends.items()]
        try:
            client = self._calls.connected("delete records")
        except TransportError as error:
            return dict.fromkeys(ends, str(error))
        _, errors = answers_of(client.delete_records(wanted, request_timeout=_TIMEOUT_S), _TIMEOUT_S)
        return {
            Partition(entry.topic, entry.partition): with_right(error, f"Delete on topic {entry.topic}").str()
            for entry, error in errors.items()
        }
