"""Decoded values of records: as a tree, as a hex dump, and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from rich.text import Text
from rich.tree import Tree

from kafka_redelivery.topology.printable import printable_json, printable_line

_CHARS: Final = 200
"""Characters of a text that are shown, unless all are."""

_ITEMS: Final = 20
"""Items of an array or an object that are shown, unless all are."""

_NODES: Final = 500
"""Lines of a tree, unless all are shown."""

_DUMPED: Final = 512
"""Bytes of a hex dump, unless all are shown."""

_ROW: Final = 16


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
        if self._full or len(value) <= _CHARS:
            return str(text(value))
        return f"{text(value[:_CHARS])}... ({len(value)} {unit}, --full)"


def _quoted(text: str) -> str:
    return printable_json(json.dumps(text, ensure_ascii=False))


def _items(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - as tree_of
    if isinstance(value, Mapping):
        yield from ((str(name), item) for name, item in value.items())
    else:
        yield from ((str(number), item) for number, item in enumerate(value))


def plain(value: Any) -> Any:  # noqa: ANN401 - any decoded value
    """Return a decoded value as plain data for JSON.

    Bytes are ``{"base64": ...}``; times, decimals and UUIDs are texts, and so are numbers that are not finite.
    """
    match value:
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytes() | bytearray():
            return {"base64": base64.b64encode(value).decode()}
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case float() if value - value != 0:  # NaN or infinity
            return str(value)
        case _:
            return value


def hex_dump(data: bytes, *, full: bool) -> Iterator[str]:
    """Yield lines with offset, bytes and ASCII; the first 512 bytes unless ``full``."""
    shown = data if full else data[:_DUMPED]
    for at in range(0, len(shown), _ROW):
        row = shown[at : at + _ROW]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)  # noqa: PLR2004 - ASCII
        yield f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{characters}|"
    if len(shown) < len(data):
        yield f"... {len(data) - len(shown)} more bytes (--full)"
