"""The configuration: text in, settings out, or all its faults at once.

Precedence: a ``--set`` flag stands above a ``REDELIVERY_...`` variable, which stands above the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from topology.document import Document, read_document
from topology.faults import ConfigurationError, Fault, Path
from topology.overrides import Override, merge, read_overrides
from topology.rules import violations
from topology.settings import Settings
from topology.shape import fields_at
from topology.wording import refusals

__all__ = ["ConfigurationError", "Fault", "load_policies", "load_settings"]

_STAND_INS: Mapping[str, Any] = {
    "group": "group",
    "kafka": {"bootstrap.servers": "localhost"},
    "sources": [{"topic": "source"}],
    "topic": "topic",
    "callable": "module:function",
}
"""For required values that are missing or refused, so that the rest can be judged."""

_ROUNDS = 3

_LINE_AND_COLUMN = re.compile(r":(\d+):(\d+)(?: |$)")


def load_settings(
    text: str,
    *,
    name: str = "redelivery.yaml",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> Settings:
    """Read a configuration.

    Args:
        text: the YAML document.
        name: what to call it in messages.
        environment: for ``${VAR}`` placeholders and ``REDELIVERY_...`` overrides.
        overrides: ``name=value`` of each ``--set`` flag, later ones above earlier ones.

    Raises:
        ConfigurationError: the configuration cannot be used; holds every fault, in the order of the file.
    """
    variables = {} if environment is None else environment
    document = read_document(text, name, variables)
    laid_over, override_faults = read_overrides(variables, overrides)
    faults = [*document.faults, *override_faults]
    if document.readable:
        places = _Places(document, laid_over)
        data = merge(document.data, laid_over)
        settings = _settings(data)
        if isinstance(settings, ValidationError):
            faults += _explain(settings, data, places)
        else:
            faults += _broken(settings, places, unreadable=document.faulty)
            if not faults:
                return settings
    raise ConfigurationError(tuple(sorted(faults, key=lambda fault: _position(fault, name))))


def load_policies(
    text: str,
    *,
    name: str = "redelivery.yaml",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> tuple[Settings, bool]:
    """Read what a configuration says about destinations, though it may not be complete yet.

    Without a group, without Kafka settings or without sources there are stand-ins for them.

    Returns:
        the settings, and whether the sources in it are the user's own.

    Raises:
        ConfigurationError: as :func:`load_settings`.
    """
    variables = {} if environment is None else environment
    document = read_document(text, name, variables)
    data = document.data if isinstance(document.data, dict) else {}
    missing = [part for part in ("group", "kafka", "sources") if not data.get(part)]
    # Flow style is JSON, and the last override of a name wins: what the user gives stands above.
    stand_ins = [f"{part}={json.dumps(_STAND_INS[part])}" for part in missing]
    settings = load_settings(text, name=name, environment=environment, overrides=[*stand_ins, *overrides])
    given = any(override.startswith("sources") for override in overrides)
    return settings, "sources" not in missing or given


def _position(fault: Fault, name: str) -> tuple[float, float]:
    """Line and column, for sorting: what has none (a variable, a flag) comes last."""
    found = _LINE_AND_COLUMN.match(fault.place.removeprefix(name))
    return (math.inf, math.inf) if found is None else (int(found[1]), int(found[2]))


class _Places:
    """Where each value came from."""

    def __init__(self, document: Document, overrides: Sequence[Override]) -> None:
        self._document = document
        self._overrides = {override.path: override.place for override in overrides}
        self.faulty = document.faulty

    def of(self, path: Path, *, key: bool = False) -> str:
        """The place of a value: the override that set it or what is around it, else the file's."""
        for end in range(len(path), 0, -1):
            if path[:end] in self._overrides:
                return self._overrides[path[:end]]
        return self._document.place(path, key=key)


def _settings(data: Any) -> Settings | ValidationError:  # noqa: ANN401 - a YAML document
    try:
        return Settings.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        return error


def _explain(error: ValidationError, data: Any, places: _Places) -> Iterator[Fault]:  # noqa: ANN401 - a YAML document
    """What the models refuse; then, with stand-ins for that, what rules the rest breaks."""
    unreadable = set(places.faulty)
    for path, problem, mend, is_name in refusals(error.errors()):
        if not _within(path, places.faulty):
            yield Fault(places.of(path, key=is_name), problem, mend)
        unreadable.add(path)
    for _ in range(_ROUNDS):
        for path, _, _, is_name in refusals(error.errors()):
            if path and isinstance(path[-1], int) and not fields_at(path):
                data = _repaired(data, path[:-1], remove=True)  # an item that is no section: without its list
            else:
                data = _repaired(data, path, remove=is_name)
        settings = _settings(data)
        if isinstance(settings, Settings):
            yield from _broken(settings, places, unreadable=unreadable)
            return
        error = settings


def _broken(settings: Settings, places: _Places, *, unreadable: set[Path]) -> Iterator[Fault]:
    for violation in violations(settings):
        guessed = any(_within(path, unreadable) or _around(path, unreadable) for path in violation.involves)
        if not guessed and not _within(violation.path, unreadable):
            yield Fault(places.of(violation.path, key=violation.key), violation.problem, violation.mend)


def _within(path: Path, others: set[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)


def _around(path: Path, others: set[Path]) -> bool:
    return any(other[: len(path)] == path for other in others)


def _repaired(data: Any, path: Path, *, remove: bool) -> Any:  # noqa: ANN401 - a YAML document
    """The data with a stand-in for what is at a path, or without it where none is needed."""
    if not path:
        return {}
    step, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        items = list(data)
        items[step] = _repaired(items[step], rest, remove=remove) if rest else {}
        return items
    if not isinstance(data, dict):
        return data
    named = dict(data)
    if rest:
        if step in named:
            named[step] = _repaired(named[step], rest, remove=remove)
    elif str(step) in _STAND_INS and not remove:
        named[step] = _STAND_INS[str(step)]
    else:
        named.pop(step, None)
    return named
