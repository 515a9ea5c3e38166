"""What the models refuse, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import ErrorDetails

from topology.faults import Path
from topology.shape import CLIENT_SETTINGS, field_at, is_list, is_mapping, suggestion

_MODEL_TAGS = frozenset({"str", "int", "float", "bool", "[key]"})
"""What pydantic appends to a path to tell which alternative it tried."""


def refusals(errors: list[ErrorDetails]) -> Iterator[tuple[Path, str, str, bool]]:
    """Each fault among a model's errors once: path, problem, mend, and whether its name is meant.

    Of an error about a list and errors about its items only those about the items are told, and of
    several about one value only the first.
    """
    paths = [_path(error) for error in errors]
    told: set[Path] = set()
    for path, error in zip(paths, errors, strict=True):
        kind = error["type"]
        inner = any(len(other) > len(path) and other[: len(path)] == path for other in paths)
        if path in told or (kind == "too_short" and inner):
            continue
        told.add(path)
        problem, mend = _words(kind, path, error)
        yield path, problem, mend, kind == "extra_forbidden" or error["loc"][-1:] == ("[key]",)


def _path(error: ErrorDetails) -> Path:
    path = error["loc"]
    while path and path[-1] in _MODEL_TAGS and (path[-1] == "[key]" or is_mapping(path[:-2])):
        path = path[:-1]
    return path


def _words(kind: str, path: Path, error: ErrorDetails) -> tuple[str, str]:
    context = error.get("ctx", {})
    if error["loc"][-1:] == ("[key]",):
        return "is a name that must be a whole number", "write a number before the colon, as in 7: order.avsc"
    if kind == "missing":
        return "is missing", _example(path)
    if kind == "extra_forbidden":
        return "is not known", suggestion(str(path[-1]), path[:-1])
    if error["input"] is None:
        return "has no value", "write one, or remove the line"
    if kind == "value_error":
        # Ours: a validator of the settings, or a duration.
        return _own(path, str(context["error"]))
    if kind in {"model_type", "dict_type", "tuple_type"}:
        return _shape(kind, path)
    return _value(kind, path, error["input"], context)


def _own(path: Path, message: str) -> tuple[str, str]:
    need, _, got = message.partition("; got ")
    if got:
        return f"is {got}, which is no duration", need.replace("a duration needs", "write", 1)
    description = _description(path)
    return message, f"it is: {description}" if description else "correct it"


def _shape(kind: str, path: Path) -> tuple[str, str]:
    if kind == "tuple_type" or is_list(path):
        return "must be a list", "start each item on its own line with '- '"
    return "must hold names and values", "write them indented below it, one a line"


def _value(kind: str, path: Path, given: object, context: dict[str, Any]) -> tuple[str, str]:
    if kind == "string_pattern_mismatch":
        return _form(path, str(given))
    got = "" if any(step in CLIENT_SETTINGS for step in path) or isinstance(given, (dict, list)) else f", not {given!r}"
    expected = context.get("expected")
    for starts, problem, mend in (
        ("int", f"must be a whole number{got}", "write digits alone"),
        ("float", f"must be a number{got}", "write a number, as in 1.5"),
        ("finite", f"must be a finite number{got}", "write a number, as in 1.5"),
        ("bool", f"must be true or false{got}", "write true or false"),
        ("string_type", f"must be text{got}", "put it in quotes"),
        ("string_too_short", "must not be empty", "write a name"),
        ("enum", f"must be {expected}{got}", "write one of these"),
        ("literal", f"must be {expected}{got}", "write one of these"),
        ("too_short", "has no items", "give it at least one"),
        ("greater_than_equal", f"must be at least {context.get('ge')}{got}", f"write {context.get('ge')} or more"),
        ("less_than_equal", f"must be at most {context.get('le')}{got}", f"write {context.get('le')} or less"),
        ("less_than", f"must be less than {context.get('lt')}{got}", f"write less than {context.get('lt')}"),
    ):
        if kind.startswith(starts):
            return problem, mend
    return f"is not accepted{got}", f"it is: {_description(path)}"


def _form(path: Path, given: str) -> tuple[str, str]:
    if path[-1] == "callable":
        module, dot, function = given.rpartition(".")
        dotted = dot and all(name.isidentifier() for name in given.split("."))
        mend = f"did you mean {module}:{function}?" if dotted else "write one colon between the module and the function"
        return f"must be {_description(path)}, not {given!r}", mend
    return f"does not have the form it needs, not {given!r}", f"it is: {_description(path)}"


def _example(path: Path) -> str:
    name = path[-1]
    examples = {
        "group": "group: billing",
        "kafka": "kafka: {bootstrap.servers: localhost:9092}",
        "sources": "sources: [{topic: orders}]",
        "topic": "topic: orders",
        "callable": "callable: package.module:function",
    }
    return f"add {examples.get(str(name), f'{name}: ...')}"


def _description(path: Path) -> str:
    field = field_at(path)
    return "" if field is None or field.description is None else field.description
