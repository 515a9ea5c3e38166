"""How a process and its children write their logs: as text for people, or as one JSON object a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

JSON: Final = "json"
"""In place of a format of :mod:`logging`."""

TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_ALWAYS_THERE: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message", "taskName"})


class JsonFormatter(logging.Formatter):
    """``time`` (UTC), ``level``, ``logger``, ``process``, ``message``, an ``exception`` if there is one, extras."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= {name: value for name, value in record.__dict__.items() if name not in _ALWAYS_THERE}
        return json.dumps(line, default=str, ensure_ascii=False)


def log_to_stderr(level: int | str, form: str = TEXT) -> None:
    """Set up the log of this process, unless somebody has.

    Args:
        level: the least that is written.
        form: a format of :mod:`logging`, or :data:`JSON`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == JSON else logging.Formatter(form))
    logging.basicConfig(level=level, handlers=[handler])


def form_for_children(text: str) -> str:
    """JSON if this process writes it, else ``text``."""
    mine = logging.getLogger().handlers
    return JSON if any(isinstance(each.formatter, JsonFormatter) for each in mine) else text
