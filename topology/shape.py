"""Which names the configuration file has where, taken from the models themselves."""

from __future__ import annotations

import types
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from topology.faults import Path, dotted
from topology.section import Section
from topology.settings import Settings

CLIENT_SETTINGS = ("kafka", "registry")
"""Parts whose names are another software's own; below them the whole rest of a path is one name."""


def fields_at(path: Path) -> dict[str, FieldInfo]:
    """The names that may stand below a path, with what is known of each; empty where names are free."""
    target = _target(path)
    return _fields(target) if isinstance(target, type) and issubclass(target, Section) else {}


def field_at(path: Path) -> FieldInfo | None:
    """What is known of the named value at a path."""
    return fields_at(path[:-1]).get(str(path[-1])) if path else None


def is_list(path: Path) -> bool:
    """Whether a list stands at a path."""
    return get_origin(_target(path)) is tuple


def is_mapping(path: Path) -> bool:
    """Whether free names stand below a path."""
    return get_origin(_target(path)) is dict


def match_name(name: str, path: Path) -> str | None:
    """The name below ``path`` that is meant, whatever its case and underscores."""
    wanted = name.replace("_", "").lower()
    return next((known for known in fields_at(path) if known.replace("-", "").lower() == wanted), None)


def suggestion(name: str, path: Path) -> str:
    """What to write instead of a name that is not known below ``path``."""
    known = fields_at(path)
    exact = match_name(name.replace("-", ""), path)
    if exact is None:
        exact = _abbreviated(name, known)
    if exact is None:
        lowered = {candidate.lower(): candidate for candidate in known}
        exact = next((lowered[close] for close in get_close_matches(name.lower(), lowered, n=1)), None)
    if exact is not None:
        return f"did you mean {exact}?"
    elsewhere = [place for place in _everywhere() if place[-1] == name]
    if elsewhere:
        return f"it belongs in {dotted(elsewhere[0][:-1]) or 'the top level'}"
    return f"remove it, or use one of {', '.join(known)}" if known else "remove it"


def _abbreviated(name: str, known: Iterable[str]) -> str | None:
    """The one name that ``name`` shortens by leaving letters out, as ``maxRedeliveries`` does."""
    meant = [each for each in known if each[0] == name[:1] and _leaves_out(name.lower(), each.lower())]
    return meant[0] if len(meant) == 1 else None


def _leaves_out(shorter: str, longer: str) -> bool:
    letters = iter(longer)
    return all(letter in letters for letter in shorter)


def _target(path: Path) -> Any:  # noqa: ANN401 - an annotation
    target: Any = Settings
    for step in path:
        if isinstance(target, type) and issubclass(target, Section):
            field = _fields(target).get(str(step))
            target = None if field is None else _unwrapped(field.annotation)
        elif get_origin(target) in (tuple, dict):
            target = _unwrapped(get_args(target)[0 if get_origin(target) is tuple else 1])
        else:
            return None
    return target


def _unwrapped(annotation: Any) -> Any:  # noqa: ANN401 - an annotation
    """The annotation without its ``None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not types.NoneType]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


@cache
def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in section.model_fields.values()}


@cache
def _everywhere(path: Path = ()) -> tuple[Path, ...]:
    """The paths of all names, outer ones first; one item stands for each list."""
    found = [(*path, name) for name in fields_at(path)]
    for place in tuple(found):
        found += _everywhere((*place, 0) if is_list(place) else place)
    return tuple(sorted(found, key=len))
