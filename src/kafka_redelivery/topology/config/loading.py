"""Turns the text of a configuration into settings, or reports its faults.

A ``--set`` flag takes precedence over a ``REDELIVERY_...`` variable, which takes precedence over the file.
``REDELIVERY_LIMITS__BATCH=500`` and ``--set limits.batch=500`` mean the same. Two underscores in a variable and a dot
in a flag lead one level down. Case and single underscores of a name do not matter; items of a list have their index
as name. Everything below ``kafka``, ``registry`` and ``spark`` is one name of the client: a variable's is lower-cased,
and its underscores become dots.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from kafka_redelivery.topology.config.document import Document, read_document
from kafka_redelivery.topology.config.rules.combined import rule_violations
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape import (
    CLIENT_SETTINGS,
    fields_at,
    is_list,
    is_mapping,
    match_name,
    shape_violations,
    suggestion,
)
from kafka_redelivery.topology.faults import ConfigurationError, Fault, Path, Violation

PREFIX = "REDELIVERY_"

NOT_SETTINGS = frozenset(
    {
        "REDELIVERY_ACTIVEMQ_PASSWORD",
        "REDELIVERY_CACHE",
        "REDELIVERY_CONFIG",
        "REDELIVERY_DEBUG",
        "REDELIVERY_JAVA",
        "REDELIVERY_LOG_FORMAT",
        "REDELIVERY_LOG_LEVEL",
    }
)
"""Variables that the command line itself reads."""

_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_MAX_ITEMS = 10_000


@dataclass(frozen=True, slots=True)
class Override:
    """A value, the path that it is set at, and the variable or flag that sets it."""

    path: Path
    value: Any
    location: str


def read_overrides(
    environment: Mapping[str, str], flags: Sequence[str]
) -> tuple[tuple[Override, ...], tuple[Fault, ...]]:
    """Return all overrides, those with lower precedence first, and the faults among them."""
    overrides: list[Override] = []
    faults: list[Fault] = []
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS:
            steps = variable.removeprefix(PREFIX).split("__")
            found = _override(steps, environment[variable], variable, _from_variable)
            if isinstance(found, Override):
                overrides.append(found)
            elif not _is_service_link(variable, environment[variable]):
                faults.append(found)
    for flag in flags:
        name, equals, text = flag.partition("=")
        if not equals or not name.strip():
            faults.append(Fault(f"--set {name}", "is not NAME=VALUE", "write --set limits.batch=500"))
            continue
        found = _override(name.strip().split("."), text, f"--set {name.strip()}", ".".join)
        if isinstance(found, Override):
            overrides.append(found)
        else:
            faults.append(found)
    return tuple(overrides), tuple(faults)


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes set the variable, as it does in each pod for a service whose name starts with ``redelivery``.

    A mistyped setting must not be mistaken for such a variable.
    """
    if "__" in variable:
        return False
    if variable.endswith("_PORT") and _SERVICE_ADDRESS.match(value):
        return True
    return _SERVICE_LINK.search(variable) is not None


def merge(data: Any, overrides: Sequence[Override]) -> Any:  # noqa: ANN401 - a YAML document
    """Return the document with the overrides applied; a value in the way of a path is replaced."""
    for override in overrides:
        data = _merged(data, override.path, override.value)
    return data


def _merged(data: Any, path: Path, value: Any) -> Any:  # noqa: ANN401 - a YAML document
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int) and not isinstance(data, dict):
        items = list(data) if isinstance(data, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _merged(items[step], rest, value)
        return items
    named = dict(data) if isinstance(data, dict) else {}
    named[step] = _merged(named.get(step), rest, value)
    return named


def _override(
    steps: Sequence[str], text: str, location: str, client_name: Callable[[Sequence[str]], str]
) -> Override | Fault:
    path: Path = ()
    for index, step in enumerate(steps):
        if is_list(path):
            if not (step.isascii() and step.isdigit() and int(step) < _MAX_ITEMS):
                return Fault(location, f"has {step!r} instead of the index of an item", "write an index, from 0 on")
            path = (*path, int(step))
        elif is_mapping(path) and fields_at((*path, step)):
            path = (*path, client_name([step]))  # the name of a section, such as that of a dependency
        elif is_mapping(path):
            rest = client_name(steps[index:])
            path = (*path, int(rest) if path[-1] not in CLIENT_SETTINGS and rest.isdigit() else rest)
            break
        else:
            name = match_name(step, path)
            if name is None:
                return Fault(location, _unknown(step, path), suggestion(step, path))
            path = (*path, name)
    if any(step == "" for step in path):
        return Fault(location, "has an empty name", "write the name of a setting")
    return _with_value(path, text, location)


def _unknown(step: str, path: Path) -> str:
    if path and not fields_at(path):
        return f"names a setting below {path[-1]}, which is a single value"
    return f"names no setting: {step!r} is not known" + (f" in {path[-1]}" if path else "")


def _with_value(path: Path, text: str, location: str) -> Override | Fault:
    """Parse lists, mappings and null as YAML; the models parse single values from their text."""
    if any(step in CLIENT_SETTINGS for step in path[:-1]):
        return Override(path, text, location)  # taken literally: a password may look like YAML
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return Fault(location, "has a value that is not valid YAML", "put the value in quotes")
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return Override(path, None, location)
    if isinstance(node, yaml.ScalarNode):
        return Override(path, node.value, location)
    read = read_document(text, location, {})
    return read.faults[0] if read.faults else Override(path, read.data, location)


def _from_variable(steps: Sequence[str]) -> str:
    return "_".join(steps).lower().replace("_", ".")


_STAND_INS = {
    "group": "group",
    "kafka": {"bootstrap.servers": "localhost"},
    "sources": [{"topic": "source"}],
}
"""Values of :func:`load_policies` for required settings that are missing."""

_LINE_AND_COLUMN = re.compile(r":(\d+):(\d+)(?: |$)")


def load_settings(
    text: str,
    *,
    name: str = "redelivery.yaml",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    checks: Sequence[Callable[[Settings], Iterable[Violation]]] = (),
) -> Settings:
    """Load a configuration.

    Syntax, names and types are checked first. Rules that need more than one setting are checked only if those are
    right. Either step reports all its faults at once, in the order of the file.

    Args:
        text: the YAML document.
        name: the name of the file, for messages.
        environment: variables for ``${VAR}`` placeholders and ``REDELIVERY_...`` overrides.
        overrides: ``name=value`` of each ``--set`` flag; a later flag takes precedence over an earlier one.
        checks: further checks, made if the configuration has no other fault.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    variables = {} if environment is None else environment
    return settings_of(read_document(text, name, variables), environment=variables, overrides=overrides, checks=checks)


def settings_of(
    document: Document,
    *,
    additions: Sequence[Override] = (),
    environment: Mapping[str, str],
    overrides: Sequence[str] = (),
    checks: Sequence[Callable[[Settings], Iterable[Violation]]] = (),
) -> Settings:
    """Return the settings of a document, as :func:`load_settings`.

    Args:
        document: the document.
        additions: values laid over it, before those of variables and flags.
        environment: variables for ``REDELIVERY_...`` overrides.
        overrides: as of :func:`load_settings`.
        checks: as of :func:`load_settings`.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    own, override_faults = read_overrides(environment, overrides)
    laid_over = (*additions, *own)
    faults = [*document.faults, *override_faults]
    settings = None
    violations: list[Violation] = []
    if document.readable:
        try:
            settings = Settings.model_validate(merge(document.data, laid_over), by_alias=True, by_name=False)
        except ValidationError as error:
            violations = [each for each in shape_violations(error) if not _within(each.path, document.faulty)]
    if settings is not None and not faults:
        violations = list(rule_violations(settings)) or [each for check in checks for each in check(settings)]
        if not violations:
            return settings
    faults += [Fault(_location(each, document, laid_over), each.problem, each.fix) for each in violations]
    raise ConfigurationError(tuple(sorted(faults, key=lambda fault: _line_and_column(fault, document.name))))


def load_policies(
    text: str,
    *,
    name: str = "redelivery.yaml",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> tuple[Settings, bool]:
    """Load what a configuration says about destinations, even if it has no group, Kafka settings or sources yet.

    Stand-ins take the place of these three settings if they are missing.

    Returns:
        The settings, and whether their sources are the user's own.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    document = read_document(text, name, {} if environment is None else environment)
    data = document.data if isinstance(document.data, dict) else {}
    missing = [part for part in _STAND_INS if not data.get(part)]
    # JSON is valid YAML. The user's own flags come later and take precedence.
    stand_ins = [f"{part}={json.dumps(_STAND_INS[part])}" for part in missing]
    settings = load_settings(text, name=name, environment=environment, overrides=[*stand_ins, *overrides])
    given = any(override.startswith("sources") for override in overrides)
    return settings, "sources" not in missing or given


def _within(path: Path, others: set[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)


def _location(violation: Violation, document: Document, overrides: Sequence[Override]) -> str:
    """Return the override that set the value or something around it, else the location in the file."""
    by_path = {override.path: override.location for override in overrides}
    for end in range(len(violation.path), 0, -1):
        if violation.path[:end] in by_path:
            return by_path[violation.path[:end]]
    return document.location(violation.path, key=violation.key)


def _line_and_column(fault: Fault, name: str) -> tuple[float, float]:
    """Return the sort key of a fault; the faults of variables and flags come last."""
    found = _LINE_AND_COLUMN.match(fault.location.removeprefix(name))
    return (math.inf, math.inf) if found is None else (int(found[1]), int(found[2]))
