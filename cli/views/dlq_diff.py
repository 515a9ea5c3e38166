"""What differs between two dead letters, or between two versions of a value."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from kafka_redelivery.topology.printable import printable_json, printable_line

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_ABSENT = object()


def changes(before: Any, after: Any, path: str = "$") -> Iterator[dict[str, Any]]:  # noqa: ANN401 - any JSON
    """Yield what differs between two JSON values, by path; what only one of them has lacks the other's field."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from changes(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            old, new = (each[number] if number < len(each) else _ABSENT for each in (before, after))
            yield from changes(old, new, f"{path}[{number}]")
    elif type(before) is not type(after) or before != after:
        sides = {"before": before, "after": after}
        yield {"path": path} | {name: value for name, value in sides.items() if value is not _ABSENT}


def print_diff(console: Console, before: str, after: str, names: tuple[str, str]) -> None:
    """Print the lines that differ between two texts."""
    for line in difflib.unified_diff(before.split("\n"), after.split("\n"), *names, lineterm=""):
        style = "bold" if line[:3] in {"+++", "---"} else _STYLES.get(line[:1], "")
        console.print(Text(printable_line(line), style))


def lines_of(document: Mapping[str, Any]) -> str:
    """Return a document with a line for each of its values."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False))
