"""Parses untrusted XML in bounded time and memory. Document types and entities are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from kafka_redelivery.topology.migration.result import MigrationError

MAX_BYTES = 10 * 2**20
"""The size of the largest file that is parsed; usual files have a few kilobytes."""

_PYTHON_ENCODING = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["'](?:raw[_-])?(?:unicode[_-]escape|charmap|undefined|rot)""", re.IGNORECASE
)
"""Encodings that only Python knows."""

_SHORT_FORMS = {
    "{http://www.springframework.org/schema/c}": "c:",
    "{http://www.springframework.org/schema/p}": "p:",
}
"""Namespaces of attributes that stand for the constructor arguments and properties of a Spring bean."""

_MULTI_BYTE = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["'](?:gbk|gb2312|gb18030|big5|shift[_-]jis|euc-(?:jp|kr|cn|tw)|x-\w{1,20})""",
    re.IGNORECASE,
)

MAX_ELEMENTS = 100_000
MAX_LEVELS = 100
MAX_ATTRIBUTES = 1000


@dataclass(slots=True)
class Element:
    """An element: its namespace, local name, attributes, line, children and pieces of text.

    Attributes with a namespace are left out because the brokers ignore them, but for the properties and constructor
    arguments of a Spring bean: ``p:name`` and ``c:name``.
    """

    namespace: str
    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text directly in the element, without surrounding whitespace."""
        return "".join(self.pieces).strip()

    def find(self, name: str) -> Element | None:
        """Return the first child with this name."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Element]:
        """Return the children with this name in any namespace."""
        return (child for child in self.children if child.name == name)

    def walk(self) -> Iterator[Element]:
        """Yield this element and all elements below it in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)


def refused(element: Element, name: str, problem: str) -> MigrationError:
    """Return the error of a file that the broker itself refuses because of an element."""
    return MigrationError(name, f"{problem}; the broker refuses the file", element.line)


_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")


def decoded(content: bytes, name: str) -> str:
    """Decode a document by its byte order mark or its XML declaration.

    Raises:
        MigrationError: the encoding is unknown, or the content is not in this encoding.
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
    """Parse a document. The encoding that a ``str`` declares is ignored.

    Raises:
        MigrationError: the document is too large or too deep, is not well-formed, has an unknown encoding, or has a
            document type. So no entity is expanded and no other file is opened.
    """
    if len(content) > MAX_BYTES:
        raise MigrationError(name, f"is larger than {MAX_BYTES // 2**20} MiB")
    if isinstance(content, bytes) and _PYTHON_ENCODING.match(content):
        raise MigrationError(name, "is in an encoding that cannot be read: XML does not have it")
    if isinstance(content, bytes) and _MULTI_BYTE.match(content):
        content = decoded(content, name)  # the parser has no such encodings
    builder = _Builder(name)
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.line_of = lambda: parser.parser.CurrentLineNumber
    try:
        parser.feed(content)
        root = parser.close()
    except DefusedXmlException:
        problem = "has a document type or entities, which are refused for safety: remove <!DOCTYPE>, write entities out"
        raise MigrationError(name, problem) from None
    except ParseError as error:
        raise MigrationError(name, f"is not well-formed XML: {error.msg}", error.position[0]) from None
    except (LookupError, UnicodeError, ValueError) as error:
        raise MigrationError(name, f"is in an encoding that cannot be read: {error}") from None
    if not isinstance(root, Element):
        raise MigrationError(name, "contains no element")
    return root


class _Builder:
    """Builds the tree from the parser's events."""

    def __init__(self, name: str) -> None:
        self.line_of: Callable[[], int] = lambda: 0
        """Returns the parser's current line; set after the parser is created."""

        self._name = name
        self._open: list[Element] = []
        self._root: Element | None = None
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""
        self._count += 1
        line = self.line_of()
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_LEVELS or len(attributes) > MAX_ATTRIBUTES:
            raise MigrationError(self._name, "has too many elements, levels or attributes", line)
        namespace, _, local = tag.removeprefix("{").rpartition("}")
        own = {key: value for key, value in attributes.items() if not key.startswith("{")}
        if local == "bean":
            for space, prefix in _SHORT_FORMS.items():
                found = {key: value for key, value in attributes.items() if key.startswith(space)}
                own |= {f"{prefix}{key.removeprefix(space)}": value for key, value in found.items()}
        element = Element(namespace, local, own, line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)

    def end(self, _tag: str) -> None:
        """Handle the end of an element."""
        self._open.pop()

    def data(self, text: str) -> None:
        """Handle text."""
        if self._open:
            self._open[-1].pieces.append(text)

    def close(self) -> Element | None:
        """Return the root element."""
        return self._root
