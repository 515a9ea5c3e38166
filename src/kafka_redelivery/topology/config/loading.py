"""Turns the text of a configuration into settings, or reports its faults.

A ``--set`` flag takes precedence over a ``REDELIVERY_...`` variable, which takes precedence over the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import ValidationError

from kafka_redelivery.topology.config.document import Document, read_document
from kafka_redelivery.topology.config.overrides import Override, merge, read_overrides
from kafka_redelivery.topology.config.rules.combined import rule_violations
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape_violations import shape_violations
from kafka_redelivery.topology.faults import ConfigurationError, Fault, Path, Violation

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
    document = read_document(text, name, variables)
    laid_over, override_faults = read_overrides(variables, overrides)
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
    raise ConfigurationError(tuple(sorted(faults, key=lambda fault: _line_and_column(fault, name))))


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
