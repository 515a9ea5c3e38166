"""Loggers of the Kafka clients. Without a logger a client writes to standard error, a line per failed connection."""

from __future__ import annotations

import logging
import time

_INTERVAL_S = 10.0
_HARMLESS = ("Coordinator load in progress: retrying", "Not coordinator: retrying")
"""Part of every first start."""


class RateLimitFilter(logging.Filter):
    """Passes one message of each kind every ten seconds; drops settings, and what is part of a normal start."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record. The kind of a message is its first word."""
        text = record.getMessage()
        if text.endswith(_HARMLESS):
            return False
        kind = text.partition(" ")[0]
        if kind == "CONF":  # with `debug`, the settings of the client, which hides some secrets and not all
            return False
        now = time.monotonic()
        if now - self._last_s.get(kind, -_INTERVAL_S) < _INTERVAL_S:
            return False
        self._last_s[kind] = now
        return True


class LastFailure(logging.Handler):
    """Keeps the last message of a client about a connection that it could not use.

    The client reports some failures in its log only. It also logs to :data:`admin_log`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.logger = logging.Logger(admin_log.name)  # noqa: LOG001 - it ends with its client
        self.logger.setLevel(logging.INFO)
        self.logger.parent = admin_log
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message, without its first words, which name threads of the client."""
        text = record.getMessage()
        if text.startswith("FAIL "):
            self.text = text.rpartition("]: ")[2]


client_log = logging.getLogger("transport.client")
"""The logger of consumers and producers."""

client_log.addFilter(RateLimitFilter())

admin_log = client_log.getChild("admin")
"""The logger of clients whose errors are raised. It is silent until a program adds a handler to it."""

admin_log.addHandler(logging.NullHandler())
admin_log.propagate = False
