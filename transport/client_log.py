"""What librdkafka itself says: kept readable. It repeats a broker that is away ten times a second."""

from __future__ import annotations

import logging
import time

_AGAIN_S = 10.0
_HARMLESS = ("Coordinator load in progress: retrying", "Not coordinator: retrying")
"""Part of every first start."""


class SparseLog(logging.Filter):
    """Lets one message of a kind through every ten seconds, and drops what is part of a normal start."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        text = record.getMessage()
        if text.endswith(_HARMLESS):
            return False
        kind = text.partition(" ")[0]
        now = time.monotonic()
        if now - self._last_s.get(kind, -_AGAIN_S) < _AGAIN_S:
            return False
        self._last_s[kind] = now
        return True


client_log = logging.getLogger("transport.client")
"""Given to every client, which otherwise writes straight to stderr."""

client_log.addFilter(SparseLog())
