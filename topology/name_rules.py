"""Rules about topic names: templates, and the names that come out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from topology.faults import Path
from topology.made_names import GROUP_ROLE, MadeName, made_names, policy_entries
from topology.naming import MAX_NAME, check_names
from topology.policy import DeadLetterKind
from topology.settings import Settings
from topology.violations import Violation

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ALLOWED = {"retry": {"group", "delay"}, "mixed": {"group"}, "ready": {"group", "topic"}, "journal": {"group"}}
_NEEDED = {"retry": "delay", "ready": "topic"}
_WHY_NEEDED = {
    "delay": "all tiers would be one topic, and a short delay would wait behind a long one",
    "topic": "the records of all sources would be in one topic, where their partitions mix",
}


def name_rules(settings: Settings) -> Iterator[Violation]:
    """What is wrong with the templates and with the names they give."""
    broken = list(_templates(settings))
    yield from broken
    yield from _repeated(settings)
    spoilt = {violation.path for violation in broken}
    sound = {role: name for role, name in made_names(settings).items() if not spoilt & {name.path, *name.involves}}
    yield from _bad_names(sound)
    if ("topics", "retry") not in spoilt:
        yield from _taken_for_tiers(settings, sound)


def _templates(settings: Settings) -> Iterator[Violation]:
    topics = settings.topics
    for field, template in (
        ("retry", topics.retry),
        ("mixed", topics.mixed),
        ("ready", topics.ready),
        ("journal", topics.journal),
    ):
        path: Path = ("topics", field)
        yield from _unknown_placeholders(path, template, _ALLOWED[field])
        needed = _NEEDED.get(field)
        if needed is not None and f"{{{needed}}}" not in template:
            yield Violation(path, f"lacks {{{needed}}}: {_WHY_NEEDED[needed]}", f"put {{{needed}}} into it")
        if "{group}" not in template and settings.group not in template:
            problem = "lacks {group}: another group with this template would take this group's records"
            yield Violation(path, problem, "put {group} into it", (("group",),))
    for entry_path, entry in policy_entries(settings):
        strategy = entry.dead_letter_strategy
        if strategy.topic is not None:
            path = (*entry_path, "deadLetterStrategy", "topic")
            kind_path = (*entry_path, "deadLetterStrategy", "kind")
            yield from _dead_letter_template(path, kind_path, strategy.kind, strategy.topic)
        if strategy.expiry_address is not None:
            path = (*entry_path, "deadLetterStrategy", "expiryAddress")
            yield from _unknown_placeholders(path, strategy.expiry_address, {"group", "topic"})


def _dead_letter_template(path: Path, kind_path: Path, kind: DeadLetterKind, template: str) -> Iterator[Violation]:
    involves = (kind_path,)
    if kind is DeadLetterKind.DISCARDING:
        problem = "is given, but the discarding strategy has no topic"
        yield Violation(path, problem, "remove it, or choose kind: individual or shared", involves)
    elif kind is DeadLetterKind.SHARED and "{topic}" in template:
        problem = "holds {topic}, but a shared strategy has one topic for all"
        yield Violation(path, problem, "remove {topic}, or choose kind: individual", involves)
    elif kind is DeadLetterKind.INDIVIDUAL and "{topic}" not in template:
        problem = "lacks {topic}, but an individual strategy has a topic for each source"
        yield Violation(path, problem, "put {topic} into it, or choose kind: shared", involves)
    else:
        yield from _unknown_placeholders(path, template, {"group", "topic"})


def _unknown_placeholders(path: Path, template: str, allowed: set[str]) -> Iterator[Violation]:
    for name in _PLACEHOLDER.findall(template):
        if name not in allowed:
            known = " and ".join(f"{{{each}}}" for each in sorted(allowed))
            yield Violation(path, f"holds {{{name}}}, which nothing replaces", f"only {known} are replaced there")
            return


def _repeated(settings: Settings) -> Iterator[Violation]:
    sources: dict[str, int] = {}
    for index, source in enumerate(settings.sources):
        first = sources.setdefault(source.topic, index)
        if first != index:
            yield Violation(
                ("sources", index, "topic"),
                f"{source.topic} is a source already (sources.{first})",
                "remove one of the two",
                (("sources", first, "topic"),),
            )
    outputs: dict[str, int] = {}
    for index, output in enumerate(settings.outputs):
        path: Path = ("outputs", index, "topic")
        if output.topic in sources:
            problem = f"{output.topic} is a source: the group would consume its own outputs without end"
            yield Violation(path, problem, "emit to another topic", (("sources", sources[output.topic], "topic"),))
        first = outputs.setdefault(output.topic, index)
        if first != index:
            problem = f"{output.topic} is an output already (outputs.{first})"
            yield Violation(path, problem, "remove one of the two", (("outputs", first, "topic"),))


def _bad_names(names: Mapping[str, MadeName]) -> Iterator[Violation]:
    told: set[Path] = set()
    # The group is no topic: it may be called like one, but must be fit to be part of one's name.
    group = {GROUP_ROLE: names[GROUP_ROLE].name}
    topics = {role: name.name for role, name in names.items() if role != GROUP_ROLE}
    for error in check_names(group) + check_names(topics):
        role, _, problem = error.problem.removeprefix("(").partition(") ")
        name = names[role]
        if name.path not in told:
            told.add(name.path)
            yield Violation(
                name.path, f"makes the name {error.name!r} ({role}), which {problem}", _mend(problem), name.involves
            )


def _mend(problem: str) -> str:
    if "ambiguous" in problem:
        return "change one of the two names"
    if "characters, the broker" in problem:
        return f"shorten what it is made of to {MAX_NAME} characters in all"
    return "leave out all others"


def _taken_for_tiers(settings: Settings, names: Mapping[str, MadeName]) -> Iterator[Violation]:
    others = {name.name: name for role, name in names.items() if role != GROUP_ROLE and not name.tier}
    for found in settings.naming().tiers_among(others):
        name = others[found]
        yield Violation(
            name.path,
            f"makes {found!r}, which looks like a retry tier of this group: the scheduler would empty it",
            "choose a name that the retry template cannot give",
            (*name.involves, ("topics", "retry"), ("group",)),
        )
