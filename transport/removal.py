"""Deletes the beginning of partitions; what one of them refuses does not hold up the others."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from transport.admin_calls import AdminCalls, text_of
from transport.client_config import Value, admin_config
from transport.protocols import Partition

_TIMEOUT_S = 30.0


class Remover:
    """Deletes records for good. Not thread-safe; opens no connection before it is used."""

    def __init__(self, kafka: Mapping[str, Value]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)

    def remove(self, ends: Mapping[Partition, int]) -> dict[Partition, str]:
        """Delete what lies before these offsets.

        Returns:
            why, for each partition where that was refused or not confirmed in time.
        """
        wanted = [TopicPartition(place.topic, place.number, end) for place, end in ends.items()]
        failed: dict[Partition, str] = {}
        for entry, answer in self._calls.client.delete_records(wanted, request_timeout=_TIMEOUT_S).items():
            try:
                answer.result(_TIMEOUT_S)
            except KafkaException as error:
                denied = error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                hint = "; grant the right Delete on the topic" if denied else ""
                failed[Partition(entry.topic, entry.partition)] = text_of(error) + hint
            except TimeoutError:
                failed[Partition(entry.topic, entry.partition)] = f"no answer in {_TIMEOUT_S:g} s"
        return failed
