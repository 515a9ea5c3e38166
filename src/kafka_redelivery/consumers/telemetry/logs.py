"""The log format of a process and its children: text, or one JSON object per line; and which delivery a line is about.

Lines that a handler logs are about the record that it has: :data:`handled` says which. It is set only if something
reads it, because it costs time for each record.

python-json-logger is not used: it writes time in another form, and ``taskName``, and a subclass would still have to
escape what changes the direction of text (version 4.2). The own formatter is as short as the adaptation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol

from kafka_redelivery.topology.printable import printable, printable_json

JSON: Final = "json"
"""Selects :class:`JsonFormatter` instead of a format of :mod:`logging`."""

TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_NOTHING: Final = dict.fromkeys(("origin", "attempt", "trace_id", "span_id"), "-")

_STANDARD_ATTRIBUTES: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message", "taskName"})


class _Named(Protocol):
    @property
    def message_id(self) -> str:
        """See :attr:`Record.message_id`."""
        ...


handled: Final[ContextVar[tuple[_Named, int] | None]] = ContextVar("handled", default=None)
"""The record that this thread or task handles, and its attempt.

``None`` between two records, and always if :func:`wanted` is false. To set it costs half a microsecond.
"""


def _fields() -> dict[str, object]:
    """Return what a line that is logged now says about its record and its span; empty if it is about none."""
    found = handled.get()
    fields: dict[str, object] = {} if found is None else {"origin": found[0].message_id, "attempt": found[1]}
    return fields | _Readers.span()


class _Readers:
    """Whether this process has a filter or formatter that reads :data:`handled`, and what says the current span."""

    exist = False
    span: ClassVar[Callable[[], dict[str, str]]] = dict


def say_span(span: Callable[[], dict[str, str]]) -> None:
    """Let lines say in which span they are written; ``span`` returns ``trace_id`` and ``span_id``, or nothing."""
    _Readers.span = span


def wanted() -> bool:
    """Whether something reads :data:`handled`."""
    return _Readers.exist


class DeliveryFilter(logging.Filter):
    """Gives each line the attributes ``origin`` and ``attempt``, for a host that configures its log itself.

    In the lines of a handler they are the ``message_id`` of its record and the attempt, in all others ``-``. So are
    ``trace_id`` and ``span_id``, if the process has OpenTelemetry traces. Add it to
    the handlers of :mod:`logging`, not to a logger, whose filters do not see the lines of its children::

        {"filters": {"delivery": {"()": "kafka_redelivery.DeliveryFilter"}}}
    """

    def __init__(self, name: str = "") -> None:
        """As :class:`logging.Filter`: lines of other loggers than ``name`` and its children are dropped."""
        super().__init__(name)
        _Readers.exist = True

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes, unless the line has its own."""
        record.__dict__ |= _NOTHING | _fields() | record.__dict__
        return super().filter(record) is not False


class JsonFormatter(logging.Formatter):
    """Fields: ``time`` (UTC), ``level``, ``logger``, ``process``, ``message``, ``exception`` if any, and extras.

    A line that a handler logs also has ``origin`` and ``attempt``, and ``trace_id`` and ``span_id`` if there is a span;
    see :class:`DeliveryFilter`.
    """

    def __init__(self) -> None:
        super().__init__()
        _Readers.exist = True

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
        line |= _fields()
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
    if logging.getLogger().getEffectiveLevel() > logging.DEBUG:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each call at INFO, such as to a schema registry


def child_log_format(text_format: str) -> str:
    """Return the log format for child processes: JSON if this process logs JSON, else ``text_format``."""
    handlers = logging.getLogger().handlers
    return JSON if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers) else text_format
