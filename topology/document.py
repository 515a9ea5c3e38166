"""A YAML document as plain data, with the place of every key and value in it.

Read with PyYAML's safe composer: no tag makes an object, one document only, and what aliases may
expand to is bounded. Dates stay text; nothing in the file is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from topology.faults import Fault, Path, dotted

MOST_CHARACTERS = 1_000_000
"""Longest text that is read."""

MOST_VALUES = 20_000
"""Most values a document may hold once its aliases are expanded."""

_TAG = "tag:yaml.org,2002:"
_TYPED = {_TAG + kind for kind in ("bool", "int", "float", "null")}
_TEXT = {_TAG + kind for kind in ("str", "timestamp", "value")}
_MERGE = _TAG + "merge"
_PLACEHOLDER = re.compile(r"\$(?:(\$)\{|\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}|\{)")


@dataclass(slots=True)
class Document:
    """What was read. ``data`` is ``None`` when nothing could be."""

    name: str
    data: Any = None
    faults: list[Fault] = field(default_factory=list)
    faulty: set[Path] = field(default_factory=set)
    """Paths that a fault of this document stands for already."""

    keys: dict[Path, yaml.Mark] = field(default_factory=dict)
    values: dict[Path, yaml.Mark] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        """Whether there is any data to look at."""
        return self.data is not None

    def place(self, path: Path, *, key: bool = False) -> str:
        """``file:line:column dotted.path`` of a value (or its key), else of the nearest thing around it."""
        marks = (self.keys, self.values) if key else (self.values, self.keys)
        for end in range(len(path), -1, -1):
            for known in marks if end == len(path) else (self.keys, self.values):
                mark = known.get(path[:end])
                if mark is not None:
                    return f"{self.name}:{mark.line + 1}:{mark.column + 1} {dotted(path)}".rstrip()
        return f"{self.name} {dotted(path)}".rstrip()


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """The document as a whole is refused."""

    def __init__(self, mark: yaml.Mark | None, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.mark, self.problem, self.mend = mark, problem, mend


def read_document(text: str, name: str, environment: Mapping[str, str]) -> Document:
    """Read one YAML document, replacing ``${VAR}`` and ``${VAR:default}`` from the environment.

    Never raises: what is wrong is in ``faults``, and what could be read all the same is in ``data``.
    """
    document = Document(name)
    try:
        root = _compose(text)
        document.data = {} if root is None else _Reading(document, environment).read(root, (), ())
    except _Unreadable as refusal:
        document.data = None
        place = name if refusal.mark is None else f"{name}:{refusal.mark.line + 1}:{refusal.mark.column + 1}"
        document.faults.append(Fault(place, refusal.problem, refusal.mend))
    return document


def _compose(text: str) -> Node | None:
    if len(text) > MOST_CHARACTERS:
        raise _Unreadable(None, f"has {len(text)} characters", f"keep it below {MOST_CHARACTERS}")
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.composer.ComposerError as error:
        if "single document" in str(error.context):
            raise _Unreadable(
                error.problem_mark, "a second document starts here", "keep one document in the file, without ---"
            ) from None
        raise _Unreadable(
            error.problem_mark, f"is not valid YAML: {error.problem}", "define the anchor first"
        ) from None
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "it cannot be parsed"
        raise _Unreadable(
            error.problem_mark or error.context_mark,
            f"is not valid YAML: {problem}",
            "look for a wrong indentation, a tab, a missing colon or an open quote just before",
        ) from None
    except yaml.YAMLError:
        raise _Unreadable(None, "holds characters that YAML does not allow", "save it as plain UTF-8 text") from None
    except RecursionError:
        raise _Unreadable(None, "is nested too deeply", "flatten it") from None


class _Reading:
    """One pass over the nodes of a document."""

    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._constructor = yaml.constructor.SafeConstructor()
        self._count = 0

    def read(self, node: Node, path: Path, around: tuple[Node, ...]) -> Any:  # noqa: ANN401 - YAML holds anything
        self._count += 1
        if self._count > MOST_VALUES:
            raise _Unreadable(node.start_mark, f"expands to more than {MOST_VALUES} values", "use fewer aliases")
        if any(outer is node for outer in around):
            raise _Unreadable(node.start_mark, "an alias refers to what it is part of", "remove the alias")
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
            place = (*path, key)
            if key in found:
                first = self._document.keys[place]
                self._fault(
                    place,
                    f"is here a second time (first in line {first.line + 1})",
                    "keep one of the two",
                    mark=key_node.start_mark,
                )
                continue
            self._document.keys.setdefault(place, key_node.start_mark)
            found[key] = self.read(value_node, place, around)
        for inherited in self._inherited(node):
            for key, value in self.read(inherited, path, around).items():
                found.setdefault(key, value)
        return found

    def _inherited(self, node: Node) -> Iterator[Node]:
        """The mappings that ``<<`` takes over, first one first."""
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for inherited in value_node.value if isinstance(value_node, SequenceNode) else (value_node,):
                    if isinstance(inherited, MappingNode):
                        yield inherited
                    else:
                        raise _Unreadable(inherited.start_mark, "<< takes a mapping", "refer to one with *name")

    def _key(self, node: Node, path: Path) -> str | int | None:
        if isinstance(node, ScalarNode) and node.value:
            if node.tag == _TAG + "int":
                key = self._typed(node, path)
                return key if isinstance(key, int) else None
            return str(node.value)
        place = f"{self._document.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1} {dotted(path)}".rstrip()
        self._document.faults.append(Fault(place, "has a name that is no text", "write a plain name before the colon"))
        return None

    def _scalar(self, node: ScalarNode, path: Path) -> object:
        if node.tag in _TYPED:
            return self._typed(node, path)
        if node.tag not in _TEXT:
            self._fault(path, f"has the tag {node.tag.replace(_TAG, '!!')}", "write the value without a tag")
            return None
        text = self._resolve(node.value, path)
        return None if text == "" and node.style is None else text

    def _typed(self, node: ScalarNode, path: Path) -> object:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):
            self._fault(path, f"has a value that does not fit its tag {node.tag.replace(_TAG, '!!')}", "correct it")
            return None

    def _resolve(self, text: str, path: Path) -> str:
        def replacement(match: re.Match[str]) -> str:
            escaped, variable, default = match.groups()
            if escaped:
                return "${"
            if variable is None:
                self._fault(path, "has '${' without a variable's name and '}'", "write ${NAME}, or $${ for the text")
                return ""
            value = self._environment.get(variable, default)
            if value is None:
                self._fault(
                    path,
                    f"needs the environment variable {variable}, which is not set",
                    f"set {variable}, or give a default: ${{{variable}:...}}",
                )
                return ""
            return value

        return _PLACEHOLDER.sub(replacement, text)

    def _fault(self, path: Path, problem: str, mend: str, *, mark: yaml.Mark | None = None) -> None:
        place = self._document.place(path)
        if mark is not None:
            place = f"{self._document.name}:{mark.line + 1}:{mark.column + 1} {dotted(path)}".rstrip()
        self._document.faults.append(Fault(place, problem, mend))
        self._document.faulty.add(path)
