"""Decoded values as a tree that templates can show: names, texts and kinds, all of them plain."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafka_redelivery.cli.views.values import plain
from kafka_redelivery.topology.printable import printable, printable_line

_NODES: Final = 2000
"""Nodes of a tree at most, so that a page stays small."""

_CHARS: Final = 20_000
"""Characters of a text at most."""

_DEEP: Final = 60
"""Levels that are shown."""


class Node(NamedTuple):
    """A value, and what it consists of."""

    name: str
    kind: str
    """``object``, ``array``, ``text``, ``number``, ``boolean``, ``null``, ``bytes`` or ``more``."""

    text: str
    children: tuple[Node, ...] = ()


def tree_of(value: object) -> Node:
    """Return a decoded value as a tree. What is too large is cut, and says so."""
    return _Trees().node("", value, 0)


class _Trees:
    def __init__(self) -> None:
        self._left = _NODES

    def node(self, name: str, value: object, level: int) -> Node:
        self._left -= 1
        shown = printable_line(name)
        match value:
            case Mapping():
                names = [(str(each), item) for each, item in value.items()]
                return Node(shown, "object", _count(len(names), "field"), self._children(names, level))
            case list() | tuple():
                items = [(str(number), item) for number, item in enumerate(value)]
                return Node(shown, "array", _count(len(items), "item"), self._children(items, level))
            case bytes() | bytearray():
                return Node(shown, "bytes", _cut(base64.b64encode(value).decode()))
            case str():
                return Node(shown, "text", _cut(printable(value)))
            case bool():
                return Node(shown, "boolean", "true" if value else "false")
            case None:
                return Node(shown, "null", "null")
            case int() | float():
                return Node(shown, "number", _cut(json.dumps(plain(value))))
            case _:
                return Node(shown, "text", _cut(printable(str(plain(value)))))

    def _children(self, items: list[tuple[str, object]], level: int) -> tuple[Node, ...]:
        if level >= _DEEP:
            return (Node("", "more", "nested deeper than is shown here"),) if items else ()
        found: list[Node] = []
        for number, (name, item) in enumerate(items):
            if self._left <= 0:
                found.append(Node("", "more", f"{len(items) - number} more; save the bytes to see all"))
                break
            found.append(self.node(name, item, level + 1))
        return tuple(found)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}… ({len(text) - _CHARS} more characters)"
