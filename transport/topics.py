"""Which topics there are, asked before a record is written to one.

Producing cannot be asked: it creates the topic, or waits half a minute and then fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from transport.admin_calls import AdminCalls
from transport.client_config import Value, admin_config

_TIMEOUT_S = 10.0
_AGAIN_S = 5.0
"""How long a topic that is missing is not asked for again."""


class TopicDirectory:
    """The cluster's topics and their partition counts. Thread-safe; asks the cluster only for what it does not know."""

    def __init__(self, kafka: Mapping[str, Value]) -> None:
        self._calls = AdminCalls(admin_config(kafka), timeout_s=_TIMEOUT_S)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._asked_s = 0.0

    def partitions(self, topic: str, wanted: int = 0) -> int | None:
        """How many partitions a topic has, ``None`` if there is no such topic.

        Args:
            topic: its name.
            wanted: the partition that is wanted; the cluster is asked again if the topic had no such one.

        Raises:
            TransportError: the cluster does not answer.
        """
        count = self._counts.get(topic)
        if count is not None and wanted < count:
            return count
        with self._lock:
            now = time.monotonic()
            if not self._counts or now - self._asked_s > _AGAIN_S:
                self._asked_s = now
                topics = self._calls.metadata().topics
                self._counts = {name: len(each.partitions) for name, each in topics.items() if each.error is None}
            return self._counts.get(topic)
