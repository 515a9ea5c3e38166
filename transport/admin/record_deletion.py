"""Deletes the oldest records of partitions. A partition that refuses does not affect the others."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.errors import TransportError, grant
from kafka_redelivery.transport.kafka_errors import message_of
from kafka_redelivery.transport.protocols import Partition

_TIMEOUT_S = 30.0


class RecordDeleter:
    """Deletes records for good. Not thread-safe; connects with the first request."""

    def __init__(self, kafka: Mapping[str, ConfigValue]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def delete_before(self, ends: Mapping[Partition, int]) -> dict[Partition, str]:
        """Delete the records below these offsets.

        Returns:
            the reason for each partition that refused, or did not confirm in time.
        """
        wanted = [TopicPartition(*partition, end) for partition, end in ends.items()]
        failed: dict[Partition, str] = {}
        try:
            client = self._calls.connected("delete records")
        except TransportError as error:
            return dict.fromkeys(ends, str(error))
        for entry, answer in client.delete_records(wanted, request_timeout=_TIMEOUT_S).items():
            try:
                answer.result(_TIMEOUT_S)
            except KafkaException as error:
                denied = error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                hint = grant(f"Delete on topic {entry.topic}") if denied else ""
                failed[Partition(entry.topic, entry.partition)] = message_of(error) + hint
            except TimeoutError:
                failed[Partition(entry.topic, entry.partition)] = f"no answer in {_TIMEOUT_S:g} s"
        return failed
