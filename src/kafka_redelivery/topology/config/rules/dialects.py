"""Rules about redelivery policies, Classic's maps, strategies and plugins, and Artemis's address settings."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kafka_redelivery.topology.artemis.repository import SettingsRepository
from kafka_redelivery.topology.classic.destination import parse_destination
from kafka_redelivery.topology.config.artemis_section import ArtemisSection
from kafka_redelivery.topology.config.classic_section import (
    ClassicSection,
    DiscardingPluginSection,
    RedeliveryMapSection,
    StrategySection,
    TargetSection,
)
from kafka_redelivery.topology.config.policy_section import PolicyEntrySection, RedeliveryPolicySection
from kafka_redelivery.topology.config.section import Section
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import DestinationError, MatchError
from kafka_redelivery.topology.faults import Path, Violation
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN

_ONE_OF_TARGETS = "write exactly one of queue, topic, tempQueue: true and tempTopic: true"


def dialect_rules(settings: Settings) -> Iterator[Violation]:
    """Yield violations in ``activemq`` and ``artemis``, and destinations of sources that are not valid."""
    simple = settings.policy_entry != PolicyEntrySection()
    given = {"policyEntry": simple, "activemq": settings.activemq is not None, "artemis": settings.artemis is not None}
    dialects = [name for name, present in given.items() if present]
    for other in dialects[1:]:
        problem = f"is used together with {dialects[0]}, but only one of them can define the policies"
        yield Violation((other,), problem, "remove one of the two", key=True)
    if settings.activemq is not None:
        yield from _classic(settings.activemq)
    if settings.artemis is not None:
        yield from _artemis(settings.artemis)
    for index, source in enumerate(settings.sources):
        if source.destination is not None:
            yield from _named(("sources", index, "destination"), source.destination)


def slow_patterns(settings: Settings) -> Iterator[Violation]:
    """Yield the first pattern that takes too long to match a source's name. Needs maps without other violations."""
    try:
        settings.resolutions()
    except MatchError as error:
        fix = "write the pattern without a repetition inside a repetition"
        yield Violation(_path_of(error.match, settings), f"{error.match!r} {error.problem}", fix)


def _path_of(pattern: str, settings: Settings) -> Path:
    """Return the path of a pattern, or of the list around it if no single entry contains it."""
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
    """Yield properties of a policy that contradict each other or are out of range."""
    if policy.collision_avoidance_factor is not None and policy.collision_avoidance_percent is not None:
        yield Violation(
            (*path, "collisionAvoidancePercent"),
            "is used together with collisionAvoidanceFactor, but both set the same value",
            "remove one of the two",
        )
    factor = policy.collision_avoidance_factor
    if factor is not None and not math.isfinite(factor):
        yield Violation((*path, "collisionAvoidanceFactor"), "is not a finite number", "write a number, such as 0.15")
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
        problem = f"has {' and '.join(chosen)}" if chosen else "does not say which destinations it is for"
        yield Violation(path, problem, _ONE_OF_TARGETS)
    for name, text in (("queue", target.queue), ("topic", target.topic)):
        if text is not None:
            yield from _named((*path, name), f"{name}:{text}")


def _named(path: Path, text: str) -> Iterator[Violation]:
    try:
        parse_destination(text)
    except DestinationError as error:
        yield Violation(path, error.problem, "write a name or a pattern, such as orders.>")


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
        problem = f"has {' and '.join(given)}"
        yield Violation(path, problem, f"write only one of {names}")
    elif not given and (least or 0 < len(written) < len(fields)):
        yield Violation(path, "is empty", f"write one of {names}, with a value such as {{}}")


def _drop_only(path: Path, plugin: DiscardingPluginSection) -> Iterator[Violation]:
    try:
        plugin.value().patterns()
    except MatchError as error:
        yield Violation(path, f"contains {error.match!r}, which {error.problem}", "correct the regular expression")


def _artemis(artemis: ArtemisSection) -> Iterator[Violation]:
    path: Path = ("artemis", "address-settings")
    wildcards = artemis.wildcard_addresses.value()
    characters = [wildcards.delimiter, wildcards.any_words, wildcards.single_word]
    if len(set(characters)) < len(characters):
        problem = "uses the same character twice"
        yield Violation(("artemis", "wildcard-addresses"), problem, "write three different characters")
        return
    repository = SettingsRepository(wildcards, artemis.literal_match_markers)
    first: dict[tuple[str, bool], int] = {}
    for index, setting in enumerate(artemis.address_settings):
        here: Path = (*path, index, "match")
        try:
            before = first.setdefault(repository.checked(setting.match), index)
        except MatchError as error:
            yield Violation(here, f"{error.problem}: {error.match!r}", "write a pattern such as orders.#")
            continue
        if before != index:
            problem = f"matches the same addresses as address-settings.{before}: only one of them would apply"
            yield Violation(here, problem, "merge the two entries")
