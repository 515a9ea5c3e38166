"""Values that stand above the file: ``REDELIVERY_...`` variables, and ``--set`` flags above those.

``REDELIVERY_LIMITS__BATCH=500`` and ``--set limits.batch=500`` mean the same: two underscores (or a dot)
lead one level down, names are matched whatever their case and underscores, list items by their index.
Below ``kafka`` and a ``registry`` the rest is one name of the client's own: in a variable it is lower-cased
and ``_`` stands for a dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from topology.document import read_document
from topology.faults import Fault, Path
from topology.shape import CLIENT_SETTINGS, fields_at, is_list, is_mapping, match_name, suggestion

PREFIX = "REDELIVERY_"

NOT_SETTINGS = frozenset(
    {
        "REDELIVERY_CACHE",
        "REDELIVERY_CONFIG",
        "REDELIVERY_DEBUG",
        "REDELIVERY_JAVA",
        "REDELIVERY_LOG_FORMAT",
        "REDELIVERY_LOG_LEVEL",
    }
)
"""Variables of the command line itself."""

_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_LONGEST_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Override:
    """One value, where it goes, and the variable or flag it came from."""

    path: Path
    value: Any
    place: str


def read_overrides(
    environment: Mapping[str, str], flags: Sequence[str]
) -> tuple[tuple[Override, ...], tuple[Fault, ...]]:
    """All overrides, the weaker ones first, and what is wrong with any of them."""
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
            faults.append(Fault(f"--set {name}", "has no value", "write --set limits.batch=500"))
            continue
        found = _override(name.strip().split("."), text, f"--set {name.strip()}", ".".join)
        if isinstance(found, Override):
            overrides.append(found)
        else:
            faults.append(found)
    return tuple(overrides), tuple(faults)


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes set it: it does so in every pod for a service whose name starts with ``redelivery``.

    A setting whose name was mistyped must not pass for one.
    """
    if "__" in variable:
        return False
    if variable.endswith("_PORT") and _SERVICE_ADDRESS.match(value):
        return True
    return _SERVICE_LINK.search(variable) is not None


def merge(data: Any, overrides: Sequence[Override]) -> Any:  # noqa: ANN401 - a YAML document
    """The document with the overrides laid over it; what is in their way is replaced."""
    for override in overrides:
        data = _laid_over(data, override.path, override.value)
    return data


def _laid_over(data: Any, path: Path, value: Any) -> Any:  # noqa: ANN401 - a YAML document
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int) and not isinstance(data, dict):
        items = list(data) if isinstance(data, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = _laid_over(items[step], rest, value)
        return items
    named = dict(data) if isinstance(data, dict) else {}
    named[step] = _laid_over(named.get(step), rest, value)
    return named


def _override(
    steps: Sequence[str], text: str, place: str, client_name: Callable[[Sequence[str]], str]
) -> Override | Fault:
    path: Path = ()
    for index, step in enumerate(steps):
        if is_list(path):
            if not (step.isascii() and step.isdigit() and int(step) < _LONGEST_LIST):
                return Fault(place, f"has {step!r} where an item's number belongs", "count the items from 0")
            path = (*path, int(step))
        elif is_mapping(path):
            rest = client_name(steps[index:])
            path = (*path, int(rest) if path[-1] not in CLIENT_SETTINGS and rest.isdigit() else rest)
            break
        else:
            name = match_name(step, path)
            if name is None:
                return Fault(place, _unknown(step, path), suggestion(step, path))
            path = (*path, name)
    if any(step == "" for step in path):
        return Fault(place, "names nothing", "write the name of a setting")
    return _valued(path, text, place)


def _unknown(step: str, path: Path) -> str:
    if path and not fields_at(path):
        return f"{path[-1]} has nothing below it"
    return f"names no setting: {step!r} is not known" + (f" in {path[-1]}" if path else "")


def _valued(path: Path, text: str, place: str) -> Override | Fault:
    """Lists, mappings and null are read as YAML; a single value stays text, which the model then reads."""
    if any(step in CLIENT_SETTINGS for step in path[:-1]):
        # A password may look like anything: it is taken to the letter.
        return Override(path, text, place)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return Fault(place, "has a value that is not valid YAML", "put the text in quotes")
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return Override(path, None, place)
    if isinstance(node, yaml.ScalarNode):
        return Override(path, node.value, place)
    read = read_document(text, place, {})
    return read.faults[0] if read.faults else Override(path, read.data, place)


def _from_variable(steps: Sequence[str]) -> str:
    return "_".join(steps).lower().replace("_", ".")
