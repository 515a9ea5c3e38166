"""Values that take precedence over the file: ``REDELIVERY_...`` variables and, above those, ``--set`` flags.

``REDELIVERY_LIMITS__BATCH=500`` and ``--set limits.batch=500`` mean the same. Two underscores in a variable and a dot
in a flag lead one level down. Case and single underscores of a name do not matter; items of a list have their index
as name. Everything below ``kafka`` and ``registry`` is one name of the client: a variable's is lower-cased, and its
underscores become dots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kafka_redelivery.topology.config.document import read_document
from kafka_redelivery.topology.config.shape import (
    CLIENT_SETTINGS,
    fields_at,
    is_list,
    is_mapping,
    match_name,
    suggestion,
)
from kafka_redelivery.topology.faults import Fault, Path

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
