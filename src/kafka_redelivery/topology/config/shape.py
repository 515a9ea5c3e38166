"""The names that the configuration file may have at each path, derived from the models.

The errors of the models become violations: names, types and ranges that are wrong.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kafka_redelivery.topology.config.section import Section
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.durations import parse_duration
from kafka_redelivery.topology.faults import Path, Violation, dotted
from kafka_redelivery.topology.urls import without_secrets

CLIENT_SETTINGS = ("kafka", "registry", "spark")
"""Sections with the settings of another library, which are text. A dotted name there, as ``linger.ms``, is one name."""


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
        others = f", or use one of {', '.join(known)}" if path and known else ""
        return f"move it to {dotted(elsewhere[0][:-1]) or 'the top level'}{others}"
    return f"remove it, or use one of {', '.join(known)}" if known else "remove it"


def _abbreviated(name: str, known: Iterable[str]) -> str | None:
    """Return the only known name of which ``name`` is a subsequence, as ``maxRedeliveries`` is."""
    meant = [each for each in known if each[0] == name[:1] and _is_subsequence(name.lower(), each.lower())]
    return meant[0] if len(meant) == 1 else None


def _is_subsequence(shorter: str, longer: str) -> bool:
    letters = iter(longer)
    return all(letter in letters for letter in shorter)


def _target(path: Path) -> Any:  # noqa: ANN401 - an annotation
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


_MODEL_TAGS = frozenset({"str", "int", "float", "bool", "[key]"})
"""What pydantic appends to a path for each alternative of a union that it tried."""


def shape_violations(error: ValidationError) -> Iterator[Violation]:
    """Yield one violation for each value that the models refuse.

    The first error of a value counts. An error of a list is left out if one of its items has an error, too.
    """
    errors = error.errors()
    paths = [_path(each) for each in errors]
    seen: set[Path] = set()
    for path, each in zip(paths, errors, strict=True):
        inner = any(len(other) > len(path) and other[: len(path)] == path for other in paths)
        if path in seen or (each["type"] == "too_short" and inner):
            continue
        seen.add(path)
        problem, fix = _words(each["type"], path, each)
        yield Violation(path, problem, fix, key=each["type"] == "extra_forbidden" or _is_key(each))


def _path(error: ErrorDetails) -> Path:
    path = error["loc"]
    while path and path[-1] in _MODEL_TAGS and (path[-1] == "[key]" or is_mapping(path[:-2])):
        path = path[:-1]
    return path


def _is_key(error: ErrorDetails) -> bool:
    return error["loc"][-1:] == ("[key]",)


def _words(kind: str, path: Path, error: ErrorDetails) -> tuple[str, str]:
    """Return the problem and the fix."""
    context = error.get("ctx", {})
    if _is_key(error):
        return "is a name that must be a whole number", "write a number before the colon, as in 7: order.avsc"
    if kind == "missing":
        return "is missing", _example(path)
    if kind == "extra_forbidden":
        return "is not known", suggestion(str(path[-1]), path[:-1])
    if error["input"] is None:
        return "has no value", "write a value, or remove the line"
    if kind == "value_error":  # raised by a validator of our own, as "problem; fix"
        problem, _, fix = str(context["error"]).rpartition("; ")
        return problem, fix
    if kind in {"model_type", "dict_type", "tuple_type"}:
        if kind == "tuple_type" or is_list(path):
            return "must be a list", "write each item on its own line, after '- '"
        return "must be a mapping of names to values", "write 'name: value' lines, indented below it"
    return _value(kind, path, error["input"], context)


def _value(kind: str, path: Path, given: object, context: dict[str, Any]) -> tuple[str, str]:
    if kind == "string_pattern_mismatch":
        return _pattern(path, str(given))
    if kind == "string_too_short" and given == "":
        return "must not be empty", "write a name"
    hidden = any(step in CLIENT_SETTINGS for step in path)  # the value may be a password
    shown = without_secrets(given) if isinstance(given, str) and "://" in given else given
    got = "" if hidden or isinstance(given, (dict, list)) else f", not {shown!r}"
    expected = context.get("expected")
    for prefix, problem, fix in (
        ("int", f"must be a whole number{got}", _digits(path, given)),
        ("float", f"must be a number{got}", "write a number, such as 1.5"),
        ("finite", f"must be a finite number{got}", "write a number, such as 1.5"),
        ("bool", f"must be true or false{got}", "write true or false"),
        ("string_type", f"must be text{got}", "put it in quotes"),
        ("string_too_short", f"must have at least {context.get('min_length')} characters{got}", "write more"),
        ("string_too_long", f"must have at most {context.get('max_length')} characters{got}", "write fewer"),
        ("enum", f"must be {expected}{got}", "write one of these"),
        ("literal", f"must be {expected}{got}", "write one of these"),
        ("too_short", "has no items", "write at least one item"),
        ("greater_than_equal", f"must be at least {context.get('ge')}{got}", f"write {context.get('ge')} or more"),
        ("less_than_equal", f"must be at most {context.get('le')}{got}", f"write {context.get('le')} or less"),
        ("less_than", f"must be less than {context.get('lt')}{got}", f"write less than {context.get('lt')}"),
    ):
        if kind.startswith(prefix):
            return problem, fix
    field = field_at(path)
    description = None if field is None else field.description
    return "is not accepted", f"write this: {description}" if description else "correct it"


def _digits(path: Path, given: object) -> str:
    """Return a fix. A duration becomes the milliseconds that ActiveMQ's names want, and not its digits."""
    field = field_at(path)
    if field is not None and " in ms" in (field.description or ""):
        with suppress(ValueError):
            return f"write milliseconds: {parse_duration(given) // timedelta(milliseconds=1)}"
    return "write digits only"


def _pattern(path: Path, given: str) -> tuple[str, str]:
    if path[-1] == "grafana":
        return "is no address of a website", "begin it with http:// or https://"
    if path[-1] != "callable":
        return f"contains characters that are not allowed: {given!r}", "use only letters, digits, '.', '_' and '-'"
    module, dot, function = given.rpartition(".")
    dotted = dot and all(name.isidentifier() for name in given.split("."))
    fix = f"did you mean {module}:{function}?" if dotted else "write one colon between the module and the function"
    return f"must be package.module:function, not {given!r}", fix


def _example(path: Path) -> str:
    name = str(path[-1])
    examples = {
        "group": "group: billing",
        "kafka": "kafka: {bootstrap.servers: localhost:9092}",
        "sources": "sources: [{topic: orders}]",
        "topic": "topic: orders",
        "callable": "callable: package.module:function",
    }
    return f"add {examples.get(name, f'{name}: ...')}"
