"""The log format of a process and its children: text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from kafka_redelivery.topology.printable import printable, printable_json

JSON: Final = "json"
"""Selects :class:`JsonFormatter` instead of a format of :mod:`logging`."""

TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_STANDARD_ATTRIBUTES: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message", "taskName"})


class JsonFormatter(logging.Formatter):
    """Fields: ``time`` (UTC), ``level``, ``logger``, ``process``, ``message``, ``exception`` if any, and extras."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD_ATTRIBUTES}
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """A format of :mod:`logging` without control characters; further lines of a message are indented.

    So no message can look like another one, whatever a record's key or an exception says.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, with its traceback in further lines."""
        return printable(super().format(record)).replace("\n", "\n  ")


def log_to_stderr(level: int | str, log_format: str = TEXT) -> None:
    """Configure the log of this process, unless the root logger has handlers already.

    Args:
        level: the lowest level that is logged.
        log_format: a format of :mod:`logging`, or :data:`JSON`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == JSON else TextFormatter(log_format))
    logging.basicConfig(level=level, handlers=[handler])


def child_log_format(text_format: str) -> str:
    """Return the log format for child processes: JSON if this process logs JSON, else ``text_format``."""
    handlers = logging.getLogger().handlers
    return JSON if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers) else text_format
