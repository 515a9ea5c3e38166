"""Rules about policies, strategies and maps of both dialects."""

from __future__ import annotations

import math
from collections.abc import Iterator

from topology.artemis.repository import SettingsRepository
from topology.artemis.settings import ArtemisSection
from topology.classic.destination import parse_destination
from topology.classic.settings import (
    ClassicSection,
    DiscardingPluginSection,
    RedeliveryMapSection,
    StrategySection,
    TargetSection,
)
from topology.errors import DestinationError, MatchError
from topology.faults import Path
from topology.java_numbers import LONG_MAX, LONG_MIN
from topology.policy_settings import PolicyEntrySection, RedeliveryPolicySection
from topology.section import Section
from topology.settings import Settings
from topology.violations import Violation

_ONE_OF_TARGETS = "write one of queue, topic, tempQueue: true and tempTopic: true"


def dialect_rules(settings: Settings) -> Iterator[Violation]:
    """What is wrong with the maps: of the whole, and of each entry."""
    simple = settings.policy_entry != PolicyEntrySection()
    given = {"policyEntry": simple, "activemq": settings.activemq is not None, "artemis": settings.artemis is not None}
    dialects = [name for name, present in given.items() if present]
    for other in dialects[1:]:
        problem = f"is given beside {dialects[0]}, and each of them says what happens to every source"
        yield Violation((other,), problem, "keep one of the two", ((dialects[0],),), key=True)
    if settings.activemq is not None:
        yield from _classic(settings.activemq)
    if settings.artemis is not None:
        yield from _artemis(settings.artemis)
    for index, source in enumerate(settings.sources):
        if source.destination is not None:
            yield from _named(("sources", index, "destination"), source.destination)


def slow_patterns(settings: Settings) -> Iterator[Violation]:
    """The first pattern of maps that are right otherwise for which a source's name takes too long."""
    try:
        settings.resolutions()
    except MatchError as error:
        mend = "write it without a repetition inside a repetition"
        yield Violation(_path_of(error.match, settings), f"{error.match!r} {error.problem}", mend)


def _path_of(pattern: str, settings: Settings) -> Path:
    """Where a pattern of a map stands, as far as that can be told."""
    if settings.artemis is not None:
        for index, setting in enumerate(settings.artemis.address_settings):
            if pattern in setting.match:
                return "artemis", "address-settings", index, "match"
        return "artemis", "address-settings"
    plugins = () if settings.activemq is None else settings.activemq.plugins
    for index, plugin in enumerate(plugins):
        if plugin.discarding_plugin is not None and pattern in (plugin.discarding_plugin.drop_only or ""):
            return "activemq", "plugins", index, "discardingDLQBrokerPlugin", "dropOnly"
    return "activemq", "plugins"


def redelivery_rules(path: Path, policy: RedeliveryPolicySection) -> Iterator[Violation]:
    """Which properties of one policy contradict each other or cannot be counted with."""
    if policy.collision_avoidance_factor is not None and policy.collision_avoidance_percent is not None:
        yield Violation(
            (*path, "collisionAvoidancePercent"),
            "is given beside collisionAvoidanceFactor, and both set the same thing",
            "keep one of the two",
            ((*path, "collisionAvoidanceFactor"),),
        )
    factor = policy.collision_avoidance_factor
    if factor is not None and not math.isfinite(factor):
        yield Violation((*path, "collisionAvoidanceFactor"), "is not a finite number", "write a number, as in 0.15")
    for name, delay in (
        ("initialRedeliveryDelay", policy.initial_redelivery_delay),
        ("redeliveryDelay", policy.redelivery_delay),
        ("maximumRedeliveryDelay", policy.maximum_redelivery_delay),
    ):
        if not LONG_MIN <= delay <= LONG_MAX:
            yield Violation((*path, name), "does not fit into 64 bits", "write a smaller number of milliseconds")


def _classic(classic: ClassicSection) -> Iterator[Violation]:
    path: Path = ("activemq",)
    if classic.redelivery_policy is not None:
        yield from redelivery_rules((*path, "redeliveryPolicy"), classic.redelivery_policy)
    yield from _policies((*path, "redeliveryPolicyMap"), classic.redelivery_policy_map)
    for index, plugin in enumerate(classic.plugins):
        here: Path = (*path, "plugins", index)
        yield from _one_of(here, plugin, "redeliveryPlugin or discardingDLQBrokerPlugin", least=1)
        if plugin.redelivery_plugin is not None:
            inner = (*here, "redeliveryPlugin", "redeliveryPolicyMap")
            yield from _policies(inner, plugin.redelivery_plugin.redelivery_policy_map)
        if plugin.discarding_plugin is not None:
            yield from _drop_only((*here, "discardingDLQBrokerPlugin", "dropOnly"), plugin.discarding_plugin)
    for index, entry in enumerate(classic.policy_entries):
        here = (*path, "policyEntries", index)
        yield from _target(here, entry)
        yield from _strategy((*here, "deadLetterStrategy"), entry.dead_letter_strategy)
    if classic.default_entry is not None:
        here = (*path, "defaultEntry", "deadLetterStrategy")
        yield from _strategy(here, classic.default_entry.dead_letter_strategy)


def _policies(path: Path, policies: RedeliveryMapSection) -> Iterator[Violation]:
    for index, entry in enumerate(policies.redelivery_policy_entries):
        here: Path = (*path, "redeliveryPolicyEntries", index)
        yield from _target(here, entry)
        yield from redelivery_rules(here, entry)
    if policies.default_entry is not None:
        yield from redelivery_rules((*path, "defaultEntry"), policies.default_entry)


def _target(path: Path, target: TargetSection) -> Iterator[Violation]:
    chosen = target.chosen
    if len(chosen) != 1:
        problem = "says both " + " and ".join(chosen) if chosen else "does not say which destinations it is about"
        yield Violation(path, problem, _ONE_OF_TARGETS, tuple((*path, name) for name in chosen))
    for name, text in (("queue", target.queue), ("topic", target.topic)):
        if text is not None:
            yield from _named((*path, name), f"{name}:{text}")


def _named(path: Path, text: str) -> Iterator[Violation]:
    try:
        parse_destination(text)
    except DestinationError as error:
        yield Violation(path, error.problem, "write a name or a pattern, as in orders.>")


def _strategy(path: Path, strategy: StrategySection | None) -> Iterator[Violation]:
    if strategy is None:
        return
    yield from _one_of(path, strategy, "sharedDeadLetterStrategy, individualDeadLetterStrategy or discarding")
    shared = strategy.shared_dead_letter_strategy
    if shared is not None and shared.dead_letter_queue is not None:
        yield from _target((*path, "sharedDeadLetterStrategy", "deadLetterQueue"), shared.dead_letter_queue)


def _one_of(path: Path, section: Section, names: str, least: int = 0) -> Iterator[Violation]:
    fields = type(section).model_fields
    written = section.model_fields_set
    given = sorted(str(fields[name].alias) for name in written if getattr(section, name) is not None)
    if len(given) > 1:
        problem = f"holds {' and '.join(given)}"
        yield Violation(path, problem, f"write one of {names}", tuple((*path, name) for name in given))
    elif not given and (least or 0 < len(written) < len(fields)):
        yield Violation(path, "names nothing that has a value", f"write one of {names}, as in discarding: {{}}")


def _drop_only(path: Path, plugin: DiscardingPluginSection) -> Iterator[Violation]:
    try:
        plugin.value().patterns()
    except MatchError as error:
        yield Violation(path, f"holds {error.match!r}, which {error.problem}", "correct the regular expression")


def _artemis(artemis: ArtemisSection) -> Iterator[Violation]:
    path: Path = ("artemis", "address-settings")
    wildcards = artemis.wildcard_addresses.value()
    characters = [wildcards.delimiter, wildcards.any_words, wildcards.single_word]
    if len(set(characters)) < len(characters):
        problem = "uses one character for two things"
        yield Violation(("artemis", "wildcard-addresses"), problem, "choose three different characters")
        return
    repository = SettingsRepository(wildcards, artemis.literal_match_markers)
    first: dict[tuple[str, bool], int] = {}
    for index, setting in enumerate(artemis.address_settings):
        here: Path = (*path, index, "match")
        try:
            before = first.setdefault(repository.checked(setting.match), index)
        except MatchError as error:
            yield Violation(here, f"{error.problem}: {error.match!r}", "write a pattern as in orders.#")
            continue
        if before != index:
            problem = f"is about the same as that of address-settings.{before}: only one can count"
            yield Violation(here, problem, "write both as one", ((*path, before, "match"),))
