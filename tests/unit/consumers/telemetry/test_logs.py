"""Logs as text and as JSON."""

import json
import logging
import subprocess
import sys

import pytest

from kafka_redelivery.consumers.telemetry.logs import JSON, TEXT, JsonFormatter, TextFormatter, child_log_format


def formatted(level: int, message: str, *arguments: object, **more: object) -> dict[str, object]:
    """The fields of a formatted line."""
    record = logging.LogRecord("redelivery.example", level, "stream.py", 7, message, arguments, None)
    record.__dict__.update(more)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, object] = json.loads(line)
    return found


def test_a_line_is_an_object_with_all_fields() -> None:
    """The time is in UTC, and extras have their own fields."""
    found = formatted(logging.WARNING, "micro-batch %d:\n%s", 7, "größer", batch=7, outcomes={"acked": 3})
    assert str(found.pop("time")).endswith("+00:00")
    assert found.pop("process") == logging.makeLogRecord({}).process
    assert found == {
        "level": "WARNING",
        "logger": "redelivery.example",
        "message": "micro-batch 7:\ngrößer",
        "batch": 7,
        "outcomes": {"acked": 3},
    }


def test_values_that_json_cannot_express_become_text() -> None:
    """No line is lost for an extra."""
    assert formatted(logging.INFO, "x", cause=ValueError("why"))["cause"] == "why"


def test_an_exception_has_its_traceback() -> None:
    """In one field of the same line."""
    try:
        int("why")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "failed", (), sys.exc_info())
    found = json.loads(JsonFormatter().format(record))
    assert "ValueError: invalid literal" in found["exception"]
    assert "test_logs.py" in found["exception"]


@pytest.mark.parametrize(("form", "child_format"), [(JSON, JSON), (TEXT, "child")])
def test_child_processes_use_the_format_of_their_parent(form: str, child_format: str) -> None:
    """Each process configures its own log."""
    program = (
        "import logging; from kafka_redelivery.consumers.telemetry.logs import *;"
        f"log_to_stderr('INFO', {form!r}); logging.getLogger('x').info('hello', extra={{'n': 1}});"
        "logging.getLogger('httpx').info('a call to the schema registry');"
        "print(child_log_format('child'))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{child_format}\n"
    if form == JSON:
        assert json.loads(ended.stderr)["n"] == 1
    else:
        assert ended.stderr.endswith(" INFO x: hello\n")


def test_child_processes_of_an_unconfigured_parent_log_text() -> None:
    """As in a program with its own logging."""
    assert child_log_format("%(message)s") == "%(message)s"


def test_no_text_can_look_like_another_line() -> None:
    """Control characters of a record are escaped, and what follows a line feed is indented, a traceback, too."""
    hostile = "x\r\x1b[2J\n2026-01-01 00:00:00,000 INFO root: all is well"
    try:
        int(f"{hostile}{hostile}\n")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "failed: %s", (hostile,), sys.exc_info())
    first, *others = TextFormatter("%(levelname)s: %(message)s").format(record).split("\n")
    assert first == r"ERROR: failed: x\r\x1b[2J"
    assert len(others) >= 4
    for line in others:
        assert line.startswith("  ")
        assert line.isprintable()
    assert JsonFormatter().format(record).isprintable()
