"""Translates the errors of the settings models into violations: names, types and ranges that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS, field_at, is_list, is_mapping, suggestion
from kafka_redelivery.topology.faults import Path, Violation

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
    got = "" if hidden or isinstance(given, (dict, list)) else f", not {given!r}"
    expected = context.get("expected")
    for prefix, problem, fix in (
        ("int", f"must be a whole number{got}", "write digits only"),
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


def _pattern(path: Path, given: str) -> tuple[str, str]:
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
