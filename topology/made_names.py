"""Every topic name a configuration makes, with the value of the file it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topology.faults import Path
from topology.naming import check_names
from topology.policy import DeadLetterKind
from topology.policy_settings import PolicyEntrySection
from topology.settings import Settings
from topology.tiers import tier_set

GROUP_ROLE = "the group"


class MadeName(NamedTuple):
    """A name, the path of what makes it (as far as the user wrote that), and what else went into it."""

    name: str
    path: Path
    involves: tuple[Path, ...] = ()
    tier: bool = False


def policy_entries(settings: Settings) -> Iterator[tuple[Path, PolicyEntrySection]]:
    """Every policy entry of the file, by its path."""
    yield ("policyEntry",), settings.policy_entry
    for index, source in enumerate(settings.sources):
        if source.policy is not None:
            yield ("sources", index, "policy"), source.policy


def made_names(settings: Settings) -> dict[str, MadeName]:
    """All names by what they are for; what the user chose comes before what is made of it.

    What is made of a group or source that cannot be part of a topic's name is left out: every such
    name is wrong, too, and the fault is told once.
    """
    names = {GROUP_ROLE: MadeName(settings.group, ("group",))}
    sources: dict[str, int] = {}
    for index, source in enumerate(settings.sources):
        if sources.setdefault(source.topic, index) == index:
            names[f"the source {source.topic}"] = MadeName(source.topic, ("sources", index, "topic"))
    for index, output in enumerate(settings.outputs):
        if output.topic not in sources:
            names.setdefault(f"the output {output.topic}", MadeName(output.topic, ("outputs", index, "topic")))
    bad = {made.name for made in names.values() if check_names({"": made.name})}
    if settings.group not in bad:
        names |= _of_the_group(settings)
        for topic, index in sources.items():
            if topic not in bad:
                names |= _of_a_source(settings, topic, index)
    return names


def _of_the_group(settings: Settings) -> dict[str, MadeName]:
    naming = settings.naming()
    tiers = tier_set(settings.entries().values())
    policies = tuple(path for path, _ in policy_entries(settings))
    names = {
        f"the retry tier of {delay} ms": MadeName(
            naming.tier_topic(delay), _template(settings, "retry"), (("group",), *policies), tier=True
        )
        for delay in tiers.delays_ms
    }
    if tiers.mixed:
        names["the mixed topic"] = MadeName(naming.mixed_topic(), _template(settings, "mixed"), (("group",), *policies))
    if settings.journal:
        names["the journal"] = MadeName(naming.journal_topic(), _template(settings, "journal"), (("group",),))
    return names


def _of_a_source(settings: Settings, topic: str, index: int) -> dict[str, MadeName]:
    source: Path = ("sources", index, "topic")
    naming = settings.naming()
    ready = ("topics", "ready") if "ready" in settings.topics.model_fields_set else source
    names = {f"the ready topic of {topic}": MadeName(naming.ready_topic(topic), ready, (("group",), source))}
    strategy = settings.entry(topic).dead_letter_strategy
    shared = strategy.kind is DeadLetterKind.SHARED
    path, involved = _of_a_strategy(settings, index)
    if strategy.templates:
        name = naming.dead_letter_topic(strategy.topic, topic)
        role = f"the shared dead-letter topic {name}" if shared else f"the dead-letter topic of {topic}"
        names[role] = MadeName(name, path, (("group",), source, involved))
    if strategy.templates and strategy.expiry_topic is not None:
        name = naming.dead_letter_topic(strategy.expiry_topic, topic)
        section = (*involved, "expiryAddress") if involved[-1] == "deadLetterStrategy" else path
        names[f"the expiry topic {name}"] = MadeName(name, section, (("group",), source, involved))
    return names


def _of_a_strategy(settings: Settings, index: int) -> tuple[Path, Path]:
    """The path of what makes a source's dead-letter topic, and that of its strategy."""
    own = settings.sources[index].policy
    if own is None and settings.activemq is not None:
        return ("sources", index, "topic"), ("activemq",)
    if own is None and settings.artemis is not None:
        return ("sources", index, "topic"), ("artemis",)
    entry: Path = ("policyEntry",) if own is None else ("sources", index, "policy")
    strategy: Path = (*entry, "deadLetterStrategy")
    chosen = (settings.policy_entry if own is None else own).dead_letter_strategy.topic
    return ("sources", index, "topic") if chosen is None else (*strategy, "topic"), strategy


def _template(settings: Settings, field: str) -> Path:
    return ("topics", field) if field in settings.topics.model_fields_set else ("group",)
