"""XML from strangers: parsed with everything dangerous refused, in bounded time and memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from topology.migration.result import MigrationError, place

MOST_BYTES = 10 * 2**20
"""Largest file that is read. A real one has some kilobytes."""

_PYTHONS_OWN = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["'](?:raw[_-])?(?:unicode[_-]escape|charmap|undefined|rot)""", re.IGNORECASE
)
"""Encodings that no other parser knows."""

MOST_ELEMENTS = 100_000
MOST_LEVELS = 100
MOST_ATTRIBUTES = 1000


@dataclass(slots=True)
class Element:
    """An element: its namespace and local name, attributes by local name, children and text.

    Attributes of another namespace are left out: the brokers do not look at them either.
    """

    namespace: str
    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text directly in it, without blanks around it."""
        return "".join(self.pieces).strip()

    def find(self, name: str) -> Element | None:
        """The first child of that name."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Element]:
        """All children of that name, whatever their namespace."""
        return (child for child in self.children if child.name == name)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)


_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")


def decoded(content: bytes, name: str) -> str:
    """The text of a document, by its byte order mark or its declaration.

    Raises:
        MigrationError: its encoding is not known, or it is in another one.
    """
    declared = _DECLARED.match(content)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig" if declared is None else declared[1].decode()
    try:
        return content.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding)
    except (LookupError, UnicodeError) as error:
        raise MigrationError(name, f"is in an encoding that cannot be read: {error}") from None


def read_xml(content: bytes | str, name: str) -> Element:
    """Parse a document; of a text, the encoding that it declares means nothing.

    Raises:
        MigrationError: it is too large or too deep, no well-formed XML, has a document type (so no entity is
            ever expanded and nothing else is opened), or is in an encoding that is not known.
    """
    if len(content) > MOST_BYTES:
        raise MigrationError(name, f"is larger than {MOST_BYTES // 2**20} MiB, which no broker's configuration is")
    if isinstance(content, bytes) and _PYTHONS_OWN.match(content):
        raise MigrationError(name, "is in an encoding that cannot be read: it is none of XML's")
    builder = _Builder(name)
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.line_of = lambda: parser.parser.CurrentLineNumber
    try:
        parser.feed(content)
        root = parser.close()
    except DefusedXmlException:
        raise MigrationError(name, "has a document type or entities, which are not read from strangers") from None
    except ParseError as error:
        raise MigrationError(place(name, error.position[0]), f"is no well-formed XML: {error.msg}") from None
    except (LookupError, UnicodeError, ValueError) as error:
        raise MigrationError(name, f"is in an encoding that cannot be read: {error}") from None
    if not isinstance(root, Element):
        raise MigrationError(name, "holds no element")
    return root


class _Builder:
    """Takes what the parser finds."""

    def __init__(self, name: str) -> None:
        self.line_of: Callable[[], int] = lambda: 0
        """The line that the parser is in; set once there is a parser."""

        self._name = name
        self._open: list[Element] = []
        self._root: Element | None = None
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._count += 1
        line = self.line_of()
        if self._count > MOST_ELEMENTS or len(self._open) >= MOST_LEVELS or len(attributes) > MOST_ATTRIBUTES:
            raise MigrationError(place(self._name, line), "has more elements, levels or attributes than can be meant")
        namespace, _, local = tag.removeprefix("{").rpartition("}")
        own = {key: value for key, value in attributes.items() if not key.startswith("{")}
        element = Element(namespace, local, own, line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)

    def end(self, _tag: str) -> None:
        """An element ends."""
        self._open.pop()

    def data(self, text: str) -> None:
        """Text within an element."""
        if self._open:
            self._open[-1].pieces.append(text)

    def close(self) -> Element | None:
        """The document ends."""
        return self._root
