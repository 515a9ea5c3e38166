"""One dead letter on a terminal: what it is, its values as trees, and what differs from another one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from kafka_redelivery.dead_letters.decoding import Decoded
from kafka_redelivery.dead_letters.differences import line_diff
from kafka_redelivery.dead_letters.showing import Shown, shown_document
from kafka_redelivery.serdes.plain import hex_dump, plain
from kafka_redelivery.topology.printable import printable, printable_json, printable_line, printable_time

_CHARS: Final = 2000
"""Characters of a text that are shown, unless all are."""

_HEADER_CHARS: Final = 300

_LEAF_CHARS: Final = 200
"""Characters of a text in a tree that are shown, unless all are."""

_ITEMS: Final = 20
"""Items of an array or an object that are shown, unless all are."""

_NODES: Final = 500
"""Lines of a tree, unless all are shown."""

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_shown(console: Console, shown: Shown, *, full: bool) -> None:
    """Print everything about a letter; long texts are folded unless ``full``."""
    document = shown_document(shown)
    for name, value in document.items():
        if name not in _IN_PARTS and value not in (None, ""):
            text = printable_time(value) if name.endswith("Ms") else str(value)
            console.print(_within(f"{name.removesuffix('Ms'):<12} {text}", 13))
    for number, frame in enumerate(document["frames"]):
        console.print(Text(f"{'' if number else 'frames':<12} {printable_line(frame)}"), soft_wrap=True)
    for note in document.get("notes", ()):
        console.print(f"note         {note}", soft_wrap=True)
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


_IN_PARTS: Final = {"frames", "notes", "headers", "history", "story", "command"} | {
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


def print_diff(console: Console, before: str, after: str, names: tuple[str, str]) -> None:
    """Print the lines that differ between two texts."""
    for line in line_diff(before.split("\n"), after.split("\n"), names):
        style = "bold" if line[:3] in {"+++", "---"} else _STYLES.get(line[:1], "")
        console.print(Text(printable_line(line), style))


def lines_of(document: Mapping[str, Any]) -> str:
    """Return a document with a line for each of its values."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False))


def tree_of(name: str, value: Any, *, full: bool) -> Tree:  # noqa: ANN401 - any decoded value
    """Return a decoded value as a tree, in the order of its fields; long ones are folded unless ``full``."""
    return _Trees(full=full).tree(name, value)


class _Trees:
    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._left = _NODES

    def tree(self, name: str, value: Any) -> Tree:  # noqa: ANN401 - as tree_of
        tree = Tree(Text(self._label(name, value)))
        self._fill(tree, value)
        return tree

    def _fill(self, tree: Tree, value: Any) -> None:  # noqa: ANN401 - as tree_of
        if not isinstance(value, Mapping | list | tuple):
            return
        for number, (name, item) in enumerate(_items(value)):
            if not self._full and (number >= _ITEMS or self._left <= 0):
                tree.add(Text(f"... {len(value) - number} more (--full)"))
                return
            self._left -= 1
            self._fill(tree.add(Text(self._label(name, item))), item)

    def _label(self, name: str, value: Any) -> str:  # noqa: ANN401 - as tree_of
        return f"{printable_line(name)}: {self._leaf(value)}".rstrip()

    def _leaf(self, value: Any) -> str:  # noqa: ANN401 - as tree_of
        if isinstance(value, Mapping | list | tuple):
            empty = "{}" if isinstance(value, Mapping) else "[]"
            return "" if value else empty
        if isinstance(value, str):
            return self._folded(
                value, lambda shown: printable_json(json.dumps(shown, ensure_ascii=False)), "characters"
            )
        if isinstance(value, bytes | bytearray):
            return "base64 " + self._folded(bytes(value), lambda shown: base64.b64encode(shown).decode(), "bytes")
        shown = plain(value)
        return printable_line(shown if isinstance(shown, str) else json.dumps(shown, default=str))

    def _folded(self, value: Any, text: Any, unit: str) -> str:  # noqa: ANN401 - str or bytes, and its text
        if self._full or len(value) <= _LEAF_CHARS:
            return str(text(value))
        return f"{text(value[:_LEAF_CHARS])}... ({len(value)} {unit}, --full)"


def _items(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - as tree_of
    if isinstance(value, Mapping):
        yield from ((str(name), item) for name, item in value.items())
    else:
        yield from ((str(number), item) for number, item in enumerate(value))
