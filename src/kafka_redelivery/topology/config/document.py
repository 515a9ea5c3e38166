"""Reads a YAML document as plain data and remembers the location of every key and value.

PyYAML's safe composer parses the text. Tags construct no objects, the text must hold one document, and the number
of values that aliases expand to is limited. Dates remain text because no setting is a date. So do the settings of
other libraries, which take text: ``sasl.password: 0123`` is no octal number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS
from kafka_redelivery.topology.faults import Fault, Path, dotted

MAX_CHARACTERS = 1_000_000
"""Length of the longest text that is parsed."""

MAX_VALUES = 20_000
"""Number of values that a document may have after its aliases are expanded."""

_TAG = "tag:yaml.org,2002:"
_TYPED = {_TAG + kind for kind in ("bool", "int", "float", "null")}
_NUMBERS = {_TAG + kind for kind in ("int", "float")}
_LITERAL = {*_NUMBERS, _TAG + "bool"}
_MAX_DIGITS = 100
_TEXT = {_TAG + kind for kind in ("str", "timestamp", "value")}
_MERGE = _TAG + "merge"
_QUOTED = re.compile(r""" ?(?:'[^']*'|"[^"]*")""")
_SYNTAX = re.compile(r""" ?'(\\t|[-:,?\[\]{}]|<[a-z ]+>)'""")
"""What the parser quotes of its own, and a tab."""

_PLACEHOLDER = re.compile(r"\$(?:(\$)\{|\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}|\{)")


@dataclass(slots=True)
class Document:
    """The data of a YAML document, its faults, and the marks of its keys and values.

    ``data`` is ``None`` if the document could not be read at all.
    """

    name: str
    data: Any = None
    faults: list[Fault] = field(default_factory=list)
    faulty: set[Path] = field(default_factory=set)
    """Paths for which ``faults`` has a fault already."""

    keys: dict[Path, yaml.Mark] = field(default_factory=dict)
    values: dict[Path, yaml.Mark] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        """Whether the document has data."""
        return self.data is not None

    def location(self, path: Path, *, key: bool = False) -> str:
        """Return ``file:line:column dotted.path`` of a value or of its key.

        A value that is not in the document has the line and column of the nearest mapping or list around it.
        """
        marks = (self.keys, self.values) if key else (self.values, self.keys)
        for end in range(len(path), -1, -1):
            for known in marks if end == len(path) else (self.keys, self.values):
                mark = known.get(path[:end])
                if mark is not None:
                    return _at(self.name, mark, path)
        return f"{self.name} {dotted(path)}".rstrip()


def _at(name: str, mark: yaml.Mark, path: Path = ()) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1} {dotted(path)}".rstrip()


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """The document as a whole is refused."""

    def __init__(self, mark: yaml.Mark | None, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.mark, self.problem, self.fix = mark, problem, fix


def read_document(text: str, name: str, environment: Mapping[str, str]) -> Document:
    """Read one YAML document and replace ``${VAR}`` and ``${VAR:default}`` from the environment.

    Faults are collected in the document and never raised. ``data`` holds everything that could be read.
    """
    document = Document(name)
    try:
        root = _compose(text)
        document.data = {} if root is None else _Reader(document, environment).read(root, (), ())
    except _Unreadable as refusal:
        document.data = None
        location = name if refusal.mark is None else _at(name, refusal.mark)
        document.faults.append(Fault(location, refusal.problem, refusal.fix))
    return document


def _compose(text: str) -> Node | None:
    if len(text) > MAX_CHARACTERS:
        raise _Unreadable(None, f"has {len(text)} characters", f"shorten it to {MAX_CHARACTERS} characters")
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.composer.ComposerError as error:
        if "single document" in str(error.context):
            raise _Unreadable(
                error.problem_mark, "a second document starts here", "keep one document in the file, without ---"
            ) from None
        raise _Unreadable(
            error.problem_mark,
            f"is not valid YAML: {_unquoted(error.problem)}",
            "define the anchor before it is used, or put a value that begins with * or & in quotes",
        ) from None
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "it cannot be parsed"
        raise _Unreadable(
            error.problem_mark or error.context_mark,
            f"is not valid YAML: {_unquoted(problem)}",
            "look just before this location for a wrong indentation, a tab, a missing colon, an open quote, or a value "
            "that needs quotes",
        ) from None
    except yaml.YAMLError:
        raise _Unreadable(None, "contains characters that YAML does not allow", "save it as plain UTF-8 text") from None
    except RecursionError:
        raise _Unreadable(None, "is nested too deeply", "use fewer levels") from None


def _unquoted(problem: str | None) -> str:
    """Return what the parser says without what it quotes from the text, which may be a part of a password."""
    return _QUOTED.sub(lambda found: found[0] if _SYNTAX.fullmatch(found[0]) else "", problem or "")


class _Reader:
    """Turns the nodes of a document into plain data."""

    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._constructor = yaml.constructor.SafeConstructor()
        self._count = 0

    def read(self, node: Node, path: Path, around: tuple[Node, ...]) -> Any:  # noqa: ANN401 - YAML holds anything
        self._count += 1
        if self._count > MAX_VALUES:
            raise _Unreadable(node.start_mark, f"expands to more than {MAX_VALUES} values", "use fewer aliases")
        if any(outer is node for outer in around):
            raise _Unreadable(node.start_mark, "the alias refers to a value that contains it", "remove the alias")
        self._document.values.setdefault(path, node.start_mark)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        around = (*around, node)
        if isinstance(node, SequenceNode):
            return [self.read(item, (*path, index), around) for index, item in enumerate(node.value)]
        return self._mapping(node, path, around)

    def _mapping(self, node: Node, path: Path, around: tuple[Node, ...]) -> dict[str | int, Any]:
        found: dict[str | int, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            below = (*path, key)
            if key in found:
                first = self._document.keys[below].line + 1
                problem = f"is written twice, first on line {first}"
                self._fault(below, problem, "remove one of the two", mark=key_node.start_mark)
                continue
            self._document.keys.setdefault(below, key_node.start_mark)
            found[key] = self.read(value_node, below, around)
        for inherited in self._inherited(node):
            for key, value in self.read(inherited, path, around).items():
                found.setdefault(key, value)
        return found

    def _inherited(self, node: Node) -> Iterator[Node]:
        """Yield the mappings that ``<<`` merges in, the one with the highest precedence first."""
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for inherited in value_node.value if isinstance(value_node, SequenceNode) else (value_node,):
                    if isinstance(inherited, MappingNode):
                        yield inherited
                    else:
                        raise _Unreadable(inherited.start_mark, "<< needs a mapping", "write <<: *name of a mapping")

    def _key(self, node: Node, path: Path) -> str | int | None:
        if isinstance(node, ScalarNode) and node.value:
            if node.tag == _TAG + "int":
                key = self._typed(node, path)
                return key if isinstance(key, int) else None
            return str(node.value)
        location = _at(self._document.name, node.start_mark, path)
        self._document.faults.append(Fault(location, "has a name that is not text", "write a name before the colon"))
        return None

    def _scalar(self, node: ScalarNode, path: Path) -> object:
        literal = node.tag in _LITERAL and any(step in CLIENT_SETTINGS for step in path[:-1])
        if node.tag in _TYPED and not literal:
            return self._typed(node, path)
        if node.tag not in _TEXT and not literal:
            fix = "write the value without it; put a value that begins with ! in quotes"
            self._fault(path, "has a tag, which is not allowed", fix)
            return None
        text = self._resolve(node.value, path)
        return None if text == "" and node.style is None else text

    def _typed(self, node: ScalarNode, path: Path) -> object:
        if node.tag in _NUMBERS and len(node.value) > _MAX_DIGITS:
            self._fault(path, f"is a number of more than {_MAX_DIGITS} characters", "write a smaller number")
            return None
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError, IndexError):
            problem = f"has a value that does not match its tag {node.tag.replace(_TAG, '!!')}"
            self._fault(path, problem, "correct the value, or remove the tag")
            return None

    def _resolve(self, text: str, path: Path) -> str:
        def replacement(match: re.Match[str]) -> str:
            escaped, variable, default = match.groups()
            if escaped:
                return "${"
            if variable is None:
                problem = "contains '${' without a variable name and '}'"
                self._fault(path, problem, "write ${NAME}, or $${ for the characters ${")
                return ""
            value = self._environment.get(variable, default)
            if value is None:
                self._fault(
                    path,
                    f"needs the environment variable {variable}, which is not set",
                    f"set {variable}, or write a default: ${{{variable}:...}}",
                )
                return ""
            return value

        return _PLACEHOLDER.sub(replacement, text)

    def _fault(self, path: Path, problem: str, fix: str, *, mark: yaml.Mark | None = None) -> None:
        location = self._document.location(path) if mark is None else _at(self._document.name, mark, path)
        self._document.faults.append(Fault(location, problem, fix))
        self._document.faulty.add(path)
