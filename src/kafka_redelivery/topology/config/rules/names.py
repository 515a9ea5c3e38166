"""Rules about topic names: the templates, and all names that follow from the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import Path, Violation
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.topology.topics.naming import MAX_NAME, check_names
from kafka_redelivery.topology.topics.tiers import tier_set

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ALLOWED = {
    "retry": {"group", "delay"},
    "mixed": {"group"},
    "ready": {"group", "topic"},
    "journal": {"group"},
    "control": {"group"},
    "redrive": {"group"},
}
_REQUIRED = {
    "retry": ("delay", "all tiers would be one topic, and a short delay would wait behind a long one"),
    "ready": ("topic", "the records of all sources would be in one topic, in the same partitions"),
}
_GROUP = "the group"


class _Name(NamedTuple):
    """A name, and the path of the setting that it is derived from."""

    name: str
    path: Path
    tier: bool = False


def name_rules(settings: Settings) -> Iterator[Violation]:
    """Yield violations in templates, topics that are listed twice, and derived names that Kafka would refuse."""
    in_templates = list(_templates(settings))
    yield from in_templates
    yield from _repeated(settings)
    wrong = {violation.path for violation in in_templates}
    names = {role: name for role, name in _derived_names(settings).items() if name.path not in wrong}
    yield from _refused_by_kafka(names)
    if ("topics", "retry") not in wrong:
        yield from _mistaken_for_tiers(settings, names)


def _templates(settings: Settings) -> Iterator[Violation]:
    for field, allowed in _ALLOWED.items():
        path: Path = ("topics", field)
        template = getattr(settings.topics, field)
        yield from _unknown_placeholders(path, template, allowed)
        required, reason = _REQUIRED.get(field, ("", ""))
        if f"{{{required}}}" not in template and required:
            yield Violation(path, f"lacks {{{required}}}: {reason}", f"add {{{required}}}")
        if "{group}" not in template and settings.group not in template:
            problem = "lacks {group}: another group with this template would take records of this group"
            yield Violation(path, problem, "add {group}")
    for entry_path, entry in settings.policy_sections():
        strategy = entry.dead_letter_strategy
        section = (*entry_path, "deadLetterStrategy")
        if strategy.topic is not None:
            yield from _dead_letter_template((*section, "topic"), strategy.kind, strategy.topic)
        if strategy.expiry_address is not None:
            yield from _unknown_placeholders((*section, "expiryAddress"), strategy.expiry_address, {"group", "topic"})


def _dead_letter_template(path: Path, kind: DeadLetterKind, template: str) -> Iterator[Violation]:
    if kind is DeadLetterKind.DISCARDING:
        problem = "is set, but kind: discarding has no dead-letter topic"
        yield Violation(path, problem, "remove it, or write kind: individual or shared")
    elif kind is DeadLetterKind.SHARED and "{topic}" in template:
        problem = "contains {topic}, but kind: shared has one topic for all sources"
        yield Violation(path, problem, "remove {topic}, or write kind: individual")
    elif kind is DeadLetterKind.INDIVIDUAL and "{topic}" not in template:
        problem = "lacks {topic}, but kind: individual has one topic per source"
        yield Violation(path, problem, "add {topic}, or write kind: shared")
    else:
        yield from _unknown_placeholders(path, template, {"group", "topic"})


def _unknown_placeholders(path: Path, template: str, allowed: set[str]) -> Iterator[Violation]:
    unknown = [name for name in _PLACEHOLDER.findall(template) if name not in allowed]
    if unknown:
        known = " and ".join(f"{{{each}}}" for each in sorted(allowed))
        yield Violation(path, f"contains the unknown placeholder {{{unknown[0]}}}", f"use only {known}")


def _repeated(settings: Settings) -> Iterator[Violation]:
    sources: dict[str, int] = {}
    for index, source in enumerate(settings.sources):
        first = sources.setdefault(source.topic, index)
        if first != index:
            problem = f"{source.topic} is already a source (sources.{first})"
            yield Violation(("sources", index, "topic"), problem, "remove one of the two")
    outputs: dict[str, int] = {}
    for index, output in enumerate(settings.outputs):
        path: Path = ("outputs", index, "topic")
        if output.topic in sources:
            problem = f"{output.topic} is a source: the group would consume its own outputs in an endless loop"
            yield Violation(path, problem, "emit to another topic")
        if output.topic.startswith("__"):
            yield Violation(path, f"{output.topic} is an internal topic of Kafka", "emit to another topic")
        first = outputs.setdefault(output.topic, index)
        if first != index:
            problem = f"{output.topic} is already an output (outputs.{first})"
            yield Violation(path, problem, "remove one of the two")


def _refused_by_kafka(names: Mapping[str, _Name]) -> Iterator[Violation]:
    reported: set[Path] = set()
    # The group may have the name of a topic, but it must be valid as a part of topic names.
    group = {_GROUP: names[_GROUP].name}
    topics = {role: name.name for role, name in names.items() if role != _GROUP}
    for error in check_names(group) + check_names(topics):
        role, _, problem = error.problem.removeprefix("(").partition(") ")
        path = names[role].path
        if path not in reported:
            reported.add(path)
            yield Violation(path, f"gives the name {error.name!r} ({role}), which {problem}", _fix(problem))


def _fix(problem: str) -> str:
    if "ambiguous" in problem:
        return "change one of the two names"
    if "characters, Kafka allows" in problem:
        return f"shorten the settings that it is derived from, to {MAX_NAME} characters in all"
    return "remove all other characters"


def _mistaken_for_tiers(settings: Settings, names: Mapping[str, _Name]) -> Iterator[Violation]:
    others = {name.name: name for role, name in names.items() if role != _GROUP and not name.tier}
    for found in settings.naming().tiers_among(others):
        yield Violation(
            others[found].path,
            f"gives the name {found!r}, which looks like a retry tier of this group: the scheduler would empty it",
            "choose a name that topics.retry cannot give",
        )


def _derived_names(settings: Settings) -> dict[str, _Name]:
    """Return all names by their role; names that the user chose come before names that are derived from them.

    Names derived from an invalid group or source are left out, because the fault is reported once.
    """
    names = {_GROUP: _Name(settings.group, ("group",))}
    sources: dict[str, int] = {}
    for index, source in enumerate(settings.sources):
        if sources.setdefault(source.topic, index) == index:
            names[f"the source {source.topic}"] = _Name(source.topic, ("sources", index, "topic"))
    for index, output in enumerate(settings.outputs):
        if output.topic not in sources:
            names.setdefault(f"the output {output.topic}", _Name(output.topic, ("outputs", index, "topic")))
    invalid = {each.name for each in names.values() if check_names({"": each.name})}
    if settings.group not in invalid:
        names |= _names_of_group(settings)
        for topic, index in sources.items():
            if topic not in invalid:
                names |= _names_of_source(settings, topic, index)
    return names


def _names_of_group(settings: Settings) -> dict[str, _Name]:
    naming = settings.naming()
    tiers = tier_set(settings.entries().values())
    retry = _template_path(settings, "retry", ("group",))
    names = {f"the retry tier of {ms} ms": _Name(naming.tier_topic(ms), retry, tier=True) for ms in tiers.delays_ms}
    if tiers.mixed:
        names["the mixed topic"] = _Name(naming.mixed_topic(), _template_path(settings, "mixed", ("group",)))
    if settings.journal:
        names["the journal"] = _Name(naming.journal_topic(), _template_path(settings, "journal", ("group",)))
    names["the control topic"] = _Name(naming.control_topic(), _template_path(settings, "control", ("group",)))
    redrive = _template_path(settings, "redrive", ("group",))
    names["the topic of the jobs"] = _Name(naming.jobs_topic(), redrive)
    names["the topic of the actions"] = _Name(naming.actions_topic(), redrive)
    names["the parking topic"] = _Name(naming.parking_topic(), redrive)
    return names


def _names_of_source(settings: Settings, topic: str, index: int) -> dict[str, _Name]:
    source: Path = ("sources", index, "topic")
    naming = settings.naming()
    names = {f"the ready topic of {topic}": _Name(naming.ready_topic(topic), _template_path(settings, "ready", source))}
    strategy = settings.entry(topic).dead_letter_strategy
    if not strategy.templates:
        return names
    name = naming.dead_letter_topic(strategy.topic, topic)
    shared = strategy.kind is DeadLetterKind.SHARED
    role = f"the shared dead-letter topic {name}" if shared else f"the dead-letter topic of {topic}"
    names[role] = _Name(name, _strategy_path(settings, index, "topic") or source)
    if strategy.expiry_topic is not None:
        name = naming.dead_letter_topic(strategy.expiry_topic, topic)
        names[f"the expiry topic {name}"] = _Name(name, _strategy_path(settings, index, "expiryAddress") or source)
    return names


def _strategy_path(settings: Settings, index: int, field: str) -> Path | None:
    """Return the path of a field of the source's ``deadLetterStrategy``, ``None`` if the file does not set it."""
    own = settings.sources[index].policy
    if own is None and (settings.activemq is not None or settings.artemis is not None):
        return None
    path: Path = ("policyEntry",) if own is None else ("sources", index, "policy")
    strategy = (settings.policy_entry if own is None else own).dead_letter_strategy
    given = {"topic": strategy.topic, "expiryAddress": strategy.expiry_address}[field]
    return None if given is None else (*path, "deadLetterStrategy", field)


def _template_path(settings: Settings, field: str, otherwise: Path) -> Path:
    return ("topics", field) if field in settings.topics.model_fields_set else otherwise
