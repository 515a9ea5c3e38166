"""Loggers of the Kafka clients. Without a logger a client writes to standard error, a line per failed connection."""

from __future__ import annotations

import logging
import time

_INTERVAL_S = 10.0
_HARMLESS = ("Coordinator load in progress: retrying", "Not coordinator: retrying")
"""Part of every first start."""


class RateLimitFilter(logging.Filter):
    """Passes one message of each kind every ten seconds, and drops those that are part of a normal start."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record. The kind of a message is its first word."""
        text = record.getMessage()
        if text.endswith(_HARMLESS):
            return False
        kind = text.partition(" ")[0]
        now = time.monotonic()
        if now - self._last_s.get(kind, -_INTERVAL_S) < _INTERVAL_S:
            return False
        self._last_s[kind] = now
        return True


client_log = logging.getLogger("transport.client")
"""The logger of consumers and producers."""

client_log.addFilter(RateLimitFilter())

admin_log = client_log.getChild("admin")
"""The logger of clients whose errors are raised. It is silent until a program adds a handler to it."""

admin_log.addHandler(logging.NullHandler())
admin_log.propagate = False
