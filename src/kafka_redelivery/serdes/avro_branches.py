"""Chooses the branch of each Avro union, so that a decoded value becomes the same value again.

fastavro takes the first branch that accepts a value in some form: a ``datetime`` becomes a date, an ``int`` a double, a
date a text. Here the classes decide: the branch is the one that decodes to an equal value of the same class. fastavro
gets the branch in its notation for unions, a tuple of the branch's name and the value.

Records of several branches may have the same fields. Then a decoded record knows its name, see :class:`AvroRecord`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

from kafka_redelivery.serdes.avro_fit import Check, Fit, fit_of

_Seen: TypeAlias = dict[tuple[int, int], tuple[object, Fit]]
"""How well objects fit types, by the identities of both. It keeps the objects, so that no other gets their identity."""

_CONTAINERS: Final = frozenset({"array", "map", "record", "error"})
_REALS: Final = {"float", "double"}


class BranchError(ValueError):
    """A value fits no branch of a union, or several; the text begins with the place, such as ``$.lines[2].amount``."""


class AvroRecord(dict[str, Any]):
    """A decoded record of a union in which another branch has the same fields: a dict that knows its branch.

    A plain dict is refused there, because it may be any of these records. Give its name with it: ``(name, {...})``.
    """

    __slots__ = ("name",)

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        """Create the record.

        Args:
            name: the full name of its Avro type.
            fields: its values.
        """
        super().__init__(fields)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRecord, (self.name, dict(self))


class Branches:
    """The unions of one schema. Immutable and thread-safe."""

    def __init__(self, parsed: Any) -> None:  # noqa: ANN401 - a schema is a dict, a list or a str
        """Compile the schema as ``fastavro.parse_schema`` returns it."""
        compiler = _Compiler()
        self._root = compiler.of(parsed)
        compiler.settle()
        self.needed = self._root.needed
        """Whether the schema has a union in which fastavro would choose among several branches."""

        self.named = compiler.named
        """Whether records of several branches of a union can have the same fields."""

    def resolved(self, value: Any) -> Any:  # noqa: ANN401 - any value
        """Return the value with the name of the branch wherever fastavro might choose another one.

        Raises:
            BranchError: no branch fits, or several, of which the value does not tell which is meant.
        """
        return self._root.written(value, "$", {}) if self.needed else value


def with_names(value: Any) -> Any:  # noqa: ANN401 - any decoded value
    """Return a value that fastavro decoded with the names of records, with an :class:`AvroRecord` for each."""
    if isinstance(value, tuple):
        name, inner = value
        return AvroRecord(name, with_names(inner)) if isinstance(inner, dict) else inner  # of an enum or a fixed
    if isinstance(value, dict):
        return {key: with_names(each) for key, each in value.items()}
    return [with_names(each) for each in value] if isinstance(value, list) else value


class _Type(ABC):
    """A type of the schema."""

    def __init__(self, name: str, classes: frozenset[str]) -> None:
        self.name = name
        """By which fastavro knows it as a branch."""

        self.classes = classes
        """The kinds of Python values that fastavro writes as it."""

        self.parts: list[_Type] = []
        self.needed = False
        """Whether it has a union in which a branch must be chosen."""

    @abstractmethod
    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        """Return how well a value fits."""

    def written(self, value: Any, _at: str, _seen: _Seen) -> Any:  # noqa: ANN401 - any value
        """Return a value with the names of its branches; ``_at`` is its place."""
        return value


class _Leaf(_Type):
    def __init__(self, name: str, classes: frozenset[str], check: Check) -> None:
        super().__init__(name, classes)
        self._check = check

    def fit(self, value: Any, _seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        return self._check(value)


class _Container(_Type):
    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        """Return the worst fit of its parts. Each object is looked at once, however deep unions are nested."""
        key = id(self), id(value)
        if key not in seen:
            seen[key] = value, min(self._fits(value, seen), default=Fit.SAME)
        return seen[key][1]

    @abstractmethod
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        """Yield the fits of its parts."""


class _Array(_Container):
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Sequence | array) or isinstance(value, str):
            yield Fit.NONE
            return
        if not isinstance(value, list):
            yield Fit.CONVERTED if isinstance(value, bytes | bytearray) else Fit.ROUNDED
        for each in value:
            yield self.parts[0].fit(each, seen)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Sequence):
            return value
        return [self.parts[0].written(each, f"{at}[{index}]", seen) for index, each in enumerate(value)]


class _Map(_Container):
    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            yield Fit.NONE
            return
        if not isinstance(value, dict):
            yield Fit.ROUNDED
        for each in value.values():
            yield self.parts[0].fit(each, seen)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Mapping):
            return value
        return {key: self.parts[0].written(each, f"{at}.{key}", seen) for key, each in value.items()}


class _Record(_Container):
    def __init__(self, name: str) -> None:
        super().__init__(name, frozenset({"dict"}))
        self.fields: dict[str, tuple[_Type, bool]] = {}
        """Of each field its type, and whether it has a default."""

    def _fits(self, value: Any, seen: _Seen) -> Iterator[Fit]:  # noqa: ANN401 - any value
        if not isinstance(value, Mapping) or any(name not in self.fields for name in value):
            yield Fit.NONE
            return
        if not isinstance(value, dict):
            yield Fit.ROUNDED
        for name, (field, has_default) in self.fields.items():
            if name in value:
                yield field.fit(value[name], seen)
            else:
                yield Fit.ROUNDED if has_default else Fit.NONE

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        if not self.needed or not isinstance(value, Mapping):
            return value
        chosen = {
            name: field.written(value[name], f"{at}.{name}", seen)
            for name, (field, _) in self.fields.items()
            if field.needed and name in value
        }
        return {**value, **chosen}


class _Union(_Type):
    def __init__(self, branches: list[_Type]) -> None:
        super().__init__("union", frozenset[str]().union(*(each.classes for each in branches)))
        self.parts = branches
        self._names = {each.name: each for each in branches}
        self.needed = any(one.classes & other.classes for one, other in combinations(branches, 2))

    def fit(self, value: Any, seen: _Seen) -> Fit:  # noqa: ANN401 - any value
        named = self._named(value)
        if named is not None:
            return named[0].fit(named[1], seen)
        return max(each.fit(value, seen) for each in self.parts)

    def written(self, value: Any, at: str, seen: _Seen) -> Any:  # noqa: ANN401 - any value
        branch, value = self._named(value) or (self._chosen(value, at, seen), value)
        return branch.name, branch.written(value, at, seen)

    def _named(self, value: Any) -> tuple[_Type, Any] | None:  # noqa: ANN401 - any value
        """Return the branch that the value names, and the value without the name."""
        match value:
            case (str(name), inner) if isinstance(value, tuple) and name in self._names:
                return self._names[name], inner
            case AvroRecord() if value.name in self._names:
                return self._names[value.name], value
        return None

    def _chosen(self, value: Any, at: str, seen: _Seen) -> _Type:  # noqa: ANN401 - any value
        fits = [each.fit(value, seen) for each in self.parts]
        best = max(fits)
        found = [each for each, fit in zip(self.parts, fits, strict=True) if fit is best]
        names = [each.name for each in found]
        if best is Fit.NONE:
            all_names = ", ".join(self._names)
            raise BranchError(f"{at}: a value of class {type(value).__name__} fits no branch of the union: {all_names}")
        if len(found) == 1:
            return found[0]
        if set(names) == _REALS:  # a double represents each float
            return self._names["double"]
        if best is Fit.CONVERTED or "dict" in found[0].classes:
            raise BranchError(
                f"{at}: a value of class {type(value).__name__} fits several branches of the union: "
                f"{', '.join(names)}; name the one that is meant: ({names[0]!r}, value)"
            )
        return found[0]


class _Compiler:
    def __init__(self) -> None:
        self._types: list[_Type] = []
        self._defined: dict[str, _Type] = {}
        self.named = False

    def of(self, schema: Any) -> _Type:  # noqa: ANN401 - as Branches
        if isinstance(schema, str) and schema in self._defined:
            return self._defined[schema]
        found = self._new(schema)
        self._types.append(found)
        return found

    def _new(self, schema: Any) -> _Type:  # noqa: ANN401 - as Branches
        if isinstance(schema, list):
            return _Union([self.of(branch) for branch in schema])
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind not in _CONTAINERS:
            check, classes = fit_of(schema)
            name = schema["name"] if kind in {"enum", "fixed"} else kind
            leaf = _Leaf(name, classes, check)
            if name != kind:
                self._defined[name] = leaf
            return leaf
        if kind in {"record", "error"}:
            record = self._defined[schema["name"]] = _Record(schema["name"])  # before its fields, which may name it
            record.fields = {each["name"]: (self.of(each["type"]), "default" in each) for each in schema["fields"]}
            record.parts = [field for field, _ in record.fields.values()]
            return record
        found = _Array(kind, frozenset({"list", "bytes"})) if kind == "array" else _Map(kind, frozenset({"dict"}))
        found.parts = [self.of(schema["items" if kind == "array" else "values"])]
        return found

    def settle(self) -> None:
        """Let all types know of the unions in them. A type may be part of itself."""
        changed = True
        while changed:
            changed = False
            for each in self._types:
                if not each.needed and any(part.needed for part in each.parts):
                    each.needed = changed = True
        self.named = any(
            isinstance(one, _Record) and isinstance(other, _Record) and one.fields.keys() == other.fields.keys()
            for union in self._types
            if isinstance(union, _Union)
            for one, other in combinations(union.parts, 2)
        )
