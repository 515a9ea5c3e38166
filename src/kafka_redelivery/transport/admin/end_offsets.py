"""End offsets of partitions that are not being fetched; the client knows only those of partitions that it fetches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from kafka_redelivery.transport.client_config import ConfigValue, admin_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.opening import open_admin
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
_TIMEOUT_S = 4.0


class EndOffsets:
    """Asks Kafka without waiting for its answer. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, ConfigValue]) -> None:
        """Keep the settings; the client connects with the first request."""
        self._config = admin_config(kafka)
        self._client: AdminClient | None = None
        self._pending: dict[Partition, Future[ListOffsetsResultInfo]] = {}
        self._asked_s = -_INTERVAL_S
        self._ends: dict[Partition, int] = {}

    def refresh(self, partitions: Iterable[Partition]) -> None:
        """Request the end offsets of these partitions, at most every 5 s, and forget all others.

        A later call takes the answer.
        """
        wanted = set(partitions)
        self._take_answers()
        self._ends = {partition: end for partition, end in self._ends.items() if partition in wanted}
        now_s = time.monotonic()
        if not wanted or self._pending or now_s < self._asked_s + _INTERVAL_S:
            return
        self._asked_s = now_s
        if self._client is None:
            try:
                self._client = open_admin(self._config, admin_log)
            except ClientSettingsError as error:
                _log.warning("the ends of paused partitions are not known now: %s", error)
                return
        futures = self._client.list_offsets(
            {TopicPartition(*partition): OffsetSpec.latest() for partition in wanted},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        self._pending = {Partition(entry.topic, entry.partition): future for entry, future in futures.items()}

    def end(self, partition: Partition) -> int | None:
        """Return the last known end offset for consumers of committed records; ``None`` if it is not known."""
        return self._ends.get(partition)

    def _take_answers(self) -> None:
        if not all(future.done() for future in self._pending.values()):
            return
        for partition, future in self._pending.items():
            try:
                self._ends[partition] = future.result().offset
            except KafkaException:
                self._ends.pop(partition, None)  # until the next request the client's own value is used
        self._pending = {}
