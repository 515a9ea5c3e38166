"""An import as the YAML file it becomes."""

from __future__ import annotations

from typing import Any

import yaml

from topology.classic.destination import COMPOSITE, with_kind, without_kind
from topology.configuration import load_policies
from topology.document import MOST_VALUES
from topology.faults import ConfigurationError
from topology.kafka_names import kafka_topic
from topology.migration.result import Imported, MigrationError

_HEAD = """\
# Imported from {source}.
# Set {blanks}, and list the topics you consume under sources; then run
#   redelivery config check, redelivery explain DESTINATION..., redelivery topology plan
"""
_CALLABLE = "handlers:handle"
"""Stands for the user's function."""

_WILD = frozenset("*>#?")


def written(imported: Imported) -> str:
    """The file, checked by reading it back.

    What cannot be a source after all is left out of the sources, with a note.

    Raises:
        MigrationError: our own configuration refuses what the broker accepts.
    """
    size = _size(imported.section)
    if size > MOST_VALUES:
        raise MigrationError(imported.name, f"has {size} settings, and our file may hold {MOST_VALUES}")
    sources = _sources(imported)
    if size + _size(sources) > MOST_VALUES:
        imported.note(None, f"the sources are left empty: there are {len(sources)}, too many for one file")
        sources = []
    faults = _faults(_text(imported, sources))
    if faults and sources:
        names = ", ".join(each["topic"] for each in sources)
        imported.note(None, f"the sources are left empty: with {names} there is a fault: {faults[0]}")
        sources = []
        faults = _faults(_text(imported, sources))
    if faults:
        raise MigrationError(imported.name, "; ".join(faults))
    return _text(imported, sources)


def _size(value: Any) -> int:  # noqa: ANN401 - plain data
    """How many values there are in it."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _sources(imported: Imported) -> list[dict[str, str]]:
    """The destinations that the file names, as sources."""
    found: dict[str, dict[str, str]] = {}
    for destination in imported.destinations:
        name = without_kind(destination)
        if _WILD & set(name) or COMPOSITE in name:
            continue
        topic = kafka_topic(name)
        plain = topic == name and with_kind(topic) == with_kind(destination)
        given = {"topic": topic} if plain else {"topic": topic, "destination": destination}
        if topic in found:
            imported.note(None, f"{destination} is not among the sources: {topic} is there already")
        found.setdefault(topic, given)
    return list(found.values())


def _text(imported: Imported, sources: list[dict[str, str]]) -> str:
    document: dict[str, Any] = {
        "group": "migrated",
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "sources": sources,
        **imported.whole,
    }
    if imported.handler:
        document["handler"] = {"callable": _CALLABLE, **imported.handler}
    document[imported.dialect] = imported.section
    body = yaml.safe_dump(_escaped(document), sort_keys=False, allow_unicode=True, width=110)
    blanks = "group, kafka and handler.callable" if imported.handler else "group and kafka"
    return _HEAD.format(source=" ".join(imported.name.split())[:200], blanks=blanks) + body


def _escaped(value: Any) -> Any:  # noqa: ANN401 - a YAML document
    """Our file has placeholders of its own."""
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _faults(text: str) -> list[str]:
    try:
        load_policies(text)
    except ConfigurationError as error:
        return [f"{fault.place}: {fault.problem}" for fault in error.faults]
    return []
