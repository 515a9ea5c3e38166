"""One dead letter, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from kafka_redelivery.cli.views.dlq import letter_document
from kafka_redelivery.cli.views.values import hex_dump, plain, tree_of
from kafka_redelivery.dead_letters.decoding import Decoded
from kafka_redelivery.dead_letters.foreign.letter import header_text
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.standing import LetterState, Standing
from kafka_redelivery.dead_letters.story import Event
from kafka_redelivery.topology.printable import printable, printable_line, printable_time
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE

_CHARS: Final = 2000
"""Characters of a text that are shown, unless all are."""

_HEADER_CHARS: Final = 300


class Shown(NamedTuple):
    """What is shown of a dead letter."""

    found: StoredLetter
    key: Decoded
    value: Decoded
    history: Sequence[Standing]
    """Where it stood after each job."""

    story: Sequence[Event]
    command: str
    """The command that sends it again."""

    @property
    def hides_key(self) -> bool:
        """Whether only the class of the exception is shown, and no key: ``failureDetails: class-only``."""
        return self.found.letter.class_only


def shown_document(shown: Shown) -> dict[str, Any]:
    """Return a letter with its decoded key and value, its headers and what jobs did with it."""
    value = shown.found.message.value()
    document = letter_document(shown.found)
    if shown.hides_key:
        document |= {"key": None, "message": ""}
    else:
        document |= _side("key", shown.key)
    return document | {
        "headers": headers_document(shown),
        **_side("value", shown.value),
        "valueBytes": None if value is None else len(value),
        "command": shown.command,
        "history": [{"job": step.job, "state": step.state, "reason": step.reason or None} for step in shown.history],
        "story": [
            {
                "atMs": each.at_ms,
                "what": each.what,
                "text": each.text,
                "record": each.record or None,
                "job": each.job or None,
            }
            for each in shown.story
        ],
    }


def _side(name: str, decoded: Decoded) -> dict[str, Any]:
    return {name: plain(decoded.value), f"{name}Format": decoded.format, f"{name}Problem": decoded.problem or None}


def headers_document(shown: Shown) -> dict[str, Any]:
    """Return the headers by name. Of a name that is given twice, the last."""
    headers = shown.found.letter.headers
    return {name: _header(name, headers[name], class_only=shown.hides_key) for name in sorted(headers)}


def content_document(shown: Shown) -> dict[str, Any]:
    """Return key, headers and value as plain data, to be compared with those of another letter."""
    hidden = {} if shown.hides_key else {"key": plain(shown.key.value)}
    return hidden | {"headers": headers_document(shown), "value": plain(shown.value.value)}


def _header(name: str, value: bytes | None, *, class_only: bool) -> str | dict[str, str] | None:
    if class_only and name == FAILURE_CAUSE:
        return json.dumps(_cause_without_text(value))
    text = header_text(name, value)
    if value is not None and text is not None and "\ufffd" in text and "\ufffd".encode() not in value:
        return plain(value)  # type: ignore[no-any-return] # bytes become base64
    return text


def _cause_without_text(value: bytes | None) -> dict[str, Any]:
    try:
        cause = json.loads(value or b"{}")
    except (ValueError, RecursionError):
        return {}
    return {name: cause.get(name) for name in ("reason", "exception")} if isinstance(cause, dict) else {}


def print_shown(console: Console, shown: Shown, *, full: bool) -> None:
    """Print everything about a letter; long texts are folded unless ``full``."""
    document = shown_document(shown)
    for name, value in document.items():
        if name not in _IN_PARTS and value not in (None, ""):
            text = printable_time(value) if name.endswith("Ms") else str(value)
            console.print(_within(f"{name.removesuffix('Ms'):<12} {text}", 13))
    console.print("headers")
    for name, content in document["headers"].items():
        text = content if isinstance(content, str) else json.dumps(content)
        folded = text if full or len(text) <= _HEADER_CHARS else f"{text[:_HEADER_CHARS]}... (--full)"
        console.print(Text(f"  {printable_line(name)}: {printable_line(folded)}"))
    if not shown.hides_key:
        _print_side(console, "key", shown.key, shown.found.letter.key, full=full)
    _print_side(console, "value", shown.value, shown.found.message.value(), full=full)
    console.print(f"send again   {shown.command}", soft_wrap=True)
    console.print("story")
    previous_ms: int | None = None
    for event in shown.story:
        console.print(Text(f"  {_when(event.at_ms, previous_ms):<37} {printable_line(event.text)}"), soft_wrap=True)
        previous_ms = previous_ms if event.at_ms is None else event.at_ms


_IN_PARTS: Final = {"headers", "history", "story", "command"} | {
    f"{side}{what}" for side in ("key", "value") for what in ("", "Format", "Problem", "Bytes")
}


def _print_side(console: Console, name: str, decoded: Decoded, data: bytes | None, *, full: bool) -> None:
    if data is None:
        console.print(f"{name:<12} null")
        return
    title = f"{name} ({decoded.format}, {len(data)} bytes)"
    if decoded.problem:
        console.print(f"{title} cannot be decoded: {decoded.problem}")
    if isinstance(decoded.value, bytes):
        if not decoded.problem:
            console.print(title)
        for line in hex_dump(decoded.value, full=full):
            console.print(f"  {line}")
    elif isinstance(decoded.value, str):
        text = decoded.value if full or len(decoded.value) <= _CHARS else f"{decoded.value[:_CHARS]}... (--full)"
        console.print(f"{title}: {text}" if text.isprintable() else Text(_within(f"{title}\n{printable(text)}", 2)))
    else:
        console.print(tree_of(title, decoded.value, full=full))


def _within(text: str, indent: int) -> str:
    """Return a text whose further lines are indented, so that none looks like one of ours."""
    return text.replace("\n", "\n" + " " * indent)


def _when(at_ms: int | None, previous_ms: int | None) -> str:
    """Return a time, and how long it is after the previous one."""
    if at_ms is None:
        return ""
    since = "" if previous_ms is None else f"  {_span(at_ms - previous_ms)}"
    return printable_time(at_ms) + since


def _span(ms: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(ms) >= unit:
            return f"{ms / unit:+.1f} {name}"
    return f"{ms:+d} ms"


def sending_again(standing: Standing, name: str) -> tuple[str, str]:
    """Return the command and its arguments that send a letter again, or go on with the job that has it."""
    if standing.state is LetterState.IN_JOB:
        return "resume", standing.job or ""
    return "redrive", f"--id {name}" + ("" if standing.may_be_sent(again=False) else " --again")
