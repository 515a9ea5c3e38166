"""The names that the configuration file may have at each path, derived from the models."""

from __future__ import annotations

import types
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from kafka_redelivery.topology.config.section import Section
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import Path, dotted

CLIENT_SETTINGS = ("kafka", "registry")
"""Sections with the settings of a client library. A dotted name below them, such as ``linger.ms``, is one name."""


def fields_at(path: Path) -> dict[str, FieldInfo]:
    """Return the fields of the section at a path by name; empty if there is no section."""
    target = _target(path)
    return _fields(target) if isinstance(target, type) and issubclass(target, Section) else {}


def field_at(path: Path) -> FieldInfo | None:
    """Return the field at a path, ``None`` if the models define no such field."""
    return fields_at(path[:-1]).get(str(path[-1])) if path else None


def is_list(path: Path) -> bool:
    """Whether the value at a path is a list."""
    return get_origin(_target(path)) is tuple


def is_mapping(path: Path) -> bool:
    """Whether the value at a path is a mapping with names of the user's choice."""
    return get_origin(_target(path)) is dict


def match_name(name: str, path: Path) -> str | None:
    """Return the name below ``path`` that equals ``name`` apart from case, underscores and dashes."""
    wanted = name.replace("_", "").lower()
    return next((known for known in fields_at(path) if known.replace("-", "").lower() == wanted), None)


def suggestion(name: str, path: Path) -> str:
    """Return a fix for a name that is not known below ``path``."""
    known = fields_at(path)
    meant = match_name(name.replace("-", ""), path)
    if meant is None:
        meant = _abbreviated(name, known)
    if meant is None:
        lowered = {candidate.lower(): candidate for candidate in known}
        meant = next((lowered[close] for close in get_close_matches(name.lower(), lowered, n=1)), None)
    if meant is not None:
        return f"did you mean {meant}?"
    elsewhere = [each for each in _all_paths() if each[-1] == name]
    if elsewhere:
        return f"move it to {dotted(elsewhere[0][:-1]) or 'the top level'}"
    return f"remove it, or use one of {', '.join(known)}" if known else "remove it"


def _abbreviated(name: str, known: Iterable[str]) -> str | None:
    """Return the only known name of which ``name`` is a subsequence, as ``maxRedeliveries`` is."""
    meant = [each for each in known if each[0] == name[:1] and _is_subsequence(name.lower(), each.lower())]
    return meant[0] if len(meant) == 1 else None


def _is_subsequence(shorter: str, longer: str) -> bool:
    letters = iter(longer)
    return all(letter in letters for letter in shorter)


def _target(path: Path) -> Any:  # noqa: ANN401 - an annotation
    """Return the annotation of the value at a path."""
    target: Any = Settings
    for step in path:
        if isinstance(target, type) and issubclass(target, Section):
            field = _fields(target).get(str(step))
            target = None if field is None else _without_none(field.annotation)
        elif get_origin(target) in (tuple, dict):
            target = _without_none(get_args(target)[0 if get_origin(target) is tuple else 1])
        else:
            return None
    return target


def _without_none(annotation: Any) -> Any:  # noqa: ANN401 - an annotation
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not types.NoneType]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


@cache
def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in section.model_fields.values()}


@cache
def _all_paths(path: Path = ()) -> tuple[Path, ...]:
    """Return the paths of all fields, the shortest first; index 0 stands for the items of a list."""
    found = [(*path, name) for name in fields_at(path)]
    for each in tuple(found):
        found += _all_paths((*each, 0) if is_list(each) else each)
    return tuple(sorted(found, key=len))
