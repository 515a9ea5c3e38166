"""Where partitions end that are not being fetched: the client learns of an end only with what it fetches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from transport.admin_calls import admin_log
from transport.client_config import Value, admin_config
from transport.protocols import Partition

_AGAIN_S = 5.0
_TIMEOUT_S = 4.0


class FarEnds:
    """Asks Kafka without waiting for its answer. Not thread-safe."""

    def __init__(self, kafka: Mapping[str, Value]) -> None:
        """Prepare; nothing is opened before something is asked.

        Args:
            kafka: client settings of the configuration.
        """
        self._config = admin_config(kafka)
        self._client: AdminClient | None = None
        self._asked: dict[Partition, Future[ListOffsetsResultInfo]] = {}
        self._asked_s = -_AGAIN_S
        self._ends: dict[Partition, int] = {}

    def look(self, partitions: Iterable[Partition]) -> None:
        """Ask where these end, at most every 5 s, and forget all others; an answer is known some calls later."""
        wanted = set(partitions)
        self._take_answers()
        self._ends = {place: end for place, end in self._ends.items() if place in wanted}
        now_s = time.monotonic()
        if not wanted or self._asked or now_s < self._asked_s + _AGAIN_S:
            return
        if self._client is None:
            self._client = AdminClient(self._config, logger=admin_log)
        self._asked_s = now_s
        futures = self._client.list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in wanted},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        self._asked = {Partition(place.topic, place.partition): future for place, future in futures.items()}

    def end(self, partition: Partition) -> int | None:
        """One past the last offset that a reader of committed records may get, as last told; ``None``: not known."""
        return self._ends.get(partition)

    def _take_answers(self) -> None:
        if not all(future.done() for future in self._asked.values()):
            return
        for place, future in self._asked.items():
            try:
                self._ends[place] = future.result().offset
            except KafkaException:
                self._ends.pop(place, None)  # asked again soon; until then what the client knows has to do
        self._asked = {}
