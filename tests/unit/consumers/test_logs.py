"""Logs for people and for machines."""

import json
import logging
import subprocess
import sys

import pytest

from consumers.logs import JSON, TEXT, JsonFormatter, form_for_children


def formatted(level: int, message: str, *arguments: object, **more: object) -> dict[str, object]:
    """The line of a record, as a machine reads it."""
    record = logging.LogRecord("pipeline.stream", level, "stream.py", 7, message, arguments, None)
    record.__dict__.update(more)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, object] = json.loads(line)
    return found


def test_a_line_is_an_object_with_everything_that_was_said() -> None:
    """Time in UTC, and what was given beside the message under its own name."""
    found = formatted(logging.WARNING, "micro-batch %d:\n%s", 7, "größer", batch=7, outcomes={"acked": 3})
    assert str(found.pop("time")).endswith("+00:00")
    assert found.pop("process") == logging.makeLogRecord({}).process
    assert found == {
        "level": "WARNING",
        "logger": "pipeline.stream",
        "message": "micro-batch 7:\ngrößer",
        "batch": 7,
        "outcomes": {"acked": 3},
    }


def test_what_json_cannot_say_is_said_in_words() -> None:
    """No record of the log is lost for what was given with it."""
    assert formatted(logging.INFO, "x", cause=ValueError("why"))["cause"] == "why"


def test_an_exception_keeps_its_stack() -> None:
    """In one field of the same line."""
    try:
        int("why")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "failed", (), sys.exc_info())
    found = json.loads(JsonFormatter().format(record))
    assert "ValueError: invalid literal" in found["exception"]
    assert "test_logs.py" in found["exception"]


@pytest.mark.parametrize(("form", "childrens"), [(JSON, JSON), (TEXT, "for children")])
def test_children_write_as_their_parent_does(form: str, childrens: str) -> None:
    """Each process sets up its own log."""
    program = (
        "import logging; from consumers.logs import *;"
        f"log_to_stderr('INFO', {form!r}); logging.getLogger('x').info('told', extra={{'n': 1}});"
        "print(form_for_children('for children'))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{childrens}\n"
    if form == JSON:
        assert json.loads(ended.stderr)["n"] == 1
    else:
        assert ended.stderr.endswith(" INFO x: told\n")


def test_without_a_log_children_write_text() -> None:
    """As in a program that uses our classes and has its own logging."""
    assert form_for_children("as ever") == "as ever"
