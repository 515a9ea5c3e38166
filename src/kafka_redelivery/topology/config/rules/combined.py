"""All rules: those about names, policies, maps, strategies, address settings, serdes, the handler, mode and limits.

Rules about client settings are in the module beside this one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

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
from kafka_redelivery.topology.config.rules.clients import client_rules, timing_rules
from kafka_redelivery.topology.config.section import PolicyEntrySection, RedeliveryPolicySection, Section
from kafka_redelivery.topology.config.settings import (
    SERDE_OPTIONS,
    WITH_SCHEMA,
    BatchSection,
    CodecSection,
    HandlerSection,
    Isolation,
    Ordering,
    SerdeSection,
    Settings,
)
from kafka_redelivery.topology.errors import DestinationError, MatchError
from kafka_redelivery.topology.faults import Path, Violation
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.policy.entry import DeadLetterKind
from kafka_redelivery.topology.topics.naming import MAX_NAME, check_names, names_group
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.urls import has_secret

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
        if not names_group(template, settings.group):
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
        path = names[error.role].path
        if path not in reported:
            reported.add(path)
            yield Violation(
                path,
                f"gives the name {error.name!r} ({error.role}), which {error.problem}",
                _fix(error.problem, path, error.name),
            )


_PATTERN_CHARACTERS = frozenset("^$*+?()[]|\\")
_NO_PATTERNS = (
    "name each topic: what a pattern will match is unknown at the start, so a topic without ready topic, dead-letter "
    "topic or rights could not be refused then, and its failed records could go nowhere; docs/operations.md says how a "
    "running group gets another source"
)
"""The eighth promise is that a bad configuration is refused at the start; the first, that each record ends."""


def _fix(problem: str, path: Path, name: str) -> str:
    if "ambiguous" in problem:
        return "change one of the two names"
    if "characters, Kafka allows" in problem:
        return f"shorten the settings that it is derived from, to {MAX_NAME} characters in all"
    if path[0] == "sources" and _PATTERN_CHARACTERS.intersection(name):
        return _NO_PATTERNS
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


def serde_rules(settings: Settings) -> Iterator[Violation]:
    """Yield serde settings of sources and outputs that contradict each other or are incomplete."""
    sections: list[tuple[str, tuple[CodecSection, ...]]] = [
        ("sources", settings.sources),
        ("outputs", settings.outputs),
    ]
    for name, codecs in sections:
        for index, codec in enumerate(codecs):
            for side, serde in (("key", codec.key), ("value", codec.value)):
                path: Path = (name, index, side)
                yield from _foreign_options(path, serde)
                if serde.format in WITH_SCHEMA:
                    yield from _schema(path, serde, writes=name == "outputs")


def _foreign_options(path: Path, serde: SerdeSection) -> Iterator[Violation]:
    for field, formats in SERDE_OPTIONS.items():
        if serde.format not in formats and getattr(serde, field) != SerdeSection.model_fields[field].default:
            name = str(SerdeSection.model_fields[field].alias)
            problem = f"is only for format: {' or '.join(formats)}, but the format is {serde.format}"
            yield Violation((*path, name), problem, f"write format: {formats[0]}, or remove it", key=True)


_EXAMPLES = {"avro": "order.avsc", "protobuf": "order.desc", "jsonschema": "order.json"}


def _schema(path: Path, serde: SerdeSection, *, writes: bool) -> Iterator[Violation]:
    if not serde.schemas and not serde.registry:
        problem = f"is {serde.format}, but has neither schemas nor a registry"
        fix = f"add schemas: {{1: {_EXAMPLES[serde.format]}}} or registry: {{url: http://registry:8081}}"
        yield Violation((*path, "format"), problem, fix)
        return
    if serde.registry and "url" not in serde.registry:
        yield Violation((*path, "registry"), "has no url", "add url: http://registry:8081")
    if serde.write_id is not None and serde.schemas and serde.write_id not in serde.schemas and not serde.registry:
        known = ", ".join(str(number) for number in sorted(serde.schemas))
        problem = f"is {serde.write_id}, which is not in schemas"
        yield Violation((*path, "writeId"), problem, f"write one of {known}, or add the schema to schemas")
    if serde.subject is not None and not serde.registry:
        problem = "names a subject of a registry, but there is no registry"
        yield Violation((*path, "subject"), problem, "add registry, or write writeId instead", key=True)
    if writes and serde.write_id is None and not serde.registry:
        problem = "does not say which schema outputs are written with"
        fix = f"add writeId: {min(serde.schemas)}" if serde.schemas else "add writeId"
        yield Violation(path, problem, fix)


def rule_violations(settings: Settings) -> Iterator[Violation]:
    """Yield every violation of a rule.

    Names are checked only if the maps are right and their patterns are fast, because names are derived from the maps.
    """
    yield from client_rules(settings)
    for path, entry in settings.policy_sections():
        yield from redelivery_rules((*path, "redeliveryPolicy"), entry.redelivery_policy)
    in_maps = list(dialect_rules(settings)) or list(slow_patterns(settings))
    yield from in_maps
    if not in_maps:
        yield from name_rules(settings)
    yield from serde_rules(settings)
    yield from _handler_rules(settings)
    yield from _dependency_rules(settings)
    yield from _limit_rules(settings)
    yield from acknowledgement_rules(settings)
    yield from timing_rules(settings)
    yield from _url_rules(settings)


def _url_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the URLs whose secrets would be shown: on pages of the console, in logs, and by Spark."""
    pipeline, grafana = settings.pipeline, settings.console.grafana
    if grafana is not None and has_secret(grafana):
        yield Violation(("console", "grafana"), "has a password or a token, which each page would show", "remove it")
    sink = None if pipeline is None else pipeline.sink
    paths: dict[Path, str | None] = {
        ("pipeline", "checkpoint"): None if pipeline is None else pipeline.checkpoint,
        ("pipeline", "sink", "path"): None if sink is None else sink.path,
    }
    for path, text in paths.items():
        if text is not None and has_secret(text):
            problem = "has a password or a token, which logs and Spark's pages would show"
            yield Violation(path, problem, "remove it, and give it as a setting of pipeline.spark (spark.hadoop.fs...)")


def _handler_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the sources without a handler, and what contradicts another setting, once for each place in the file."""
    yield from _missing_handlers(settings)
    yield from _once(
        violation
        for index, handler in _handlers(settings)
        for violation in _rules_of_handler(settings, index, handler, len(set(settings.handlers.values())))
    )


def _missing_handlers(settings: Settings) -> Iterator[Violation]:
    if not settings.handlers:
        if settings.handler is not None or any(source.handler is not None for source in settings.sources):
            fix = "add callable: package.module:function"
            yield Violation(("handler", "callable"), "is missing, and no source has its own", fix)
        return
    for index, source in enumerate(settings.sources):
        if source.topic not in settings.handlers:
            problem = f"has no handler: handler.callable is missing, here and at the top level ({source.topic})"
            fix = (
                "add handler: {callable: package.module:function} to the source, or at the top level for all sources; "
                f'or @app.handler("{source.topic}") if this is an App'
            )
            yield Violation(("sources", index), problem, fix)


def _handlers(settings: Settings) -> Iterator[tuple[int, HandlerSection]]:
    for index, source in enumerate(settings.sources):
        handler = settings.handlers.get(source.topic)
        if handler is not None:
            yield index, handler


def _handler_path(settings: Settings, index: int, field: str) -> Path:
    """Return where the file sets a field of a source's handler."""
    own, name = settings.sources[index].handler, str(HandlerSection.model_fields[field].alias)
    return ("sources", index, "handler", name) if own and field in own.model_fields_set else ("handler", name)


def _once(violations: Iterator[Violation]) -> Iterator[Violation]:
    """Yield one violation for each path: what several sources take from the section ``handler`` is wrong once."""
    yield from {violation.path: violation for violation in violations}.values()


def _rules_of_handler(settings: Settings, index: int, handler: HandlerSection, number: int) -> Iterator[Violation]:
    """Yield the violations in the handler of a source; ``number``: how many handlers share the buffer."""
    if handler.deadline is not None and handler.deadline <= timedelta(0):
        problem = "is zero: every record would fail before its handler starts"
        path = _handler_path(settings, index, "deadline")
        yield Violation(path, problem, "write a longer time, or remove it for no limit")
    share = settings.limits.buffer_records // number
    if handler.slots > share:
        of = "limits.bufferRecords" if number == 1 else f"limits.bufferRecords that each of {number} handlers gets"
        yield Violation(
            _handler_path(settings, index, "slots"),
            f"is {handler.slots}, more than the {share} records of {of}",
            "lower it, or raise limits.bufferRecords",
        )
    if handler.vectorized and handler.value is not None:
        problem = "is set, but a vectorized handler gets batches of records as they are in Kafka"
        yield Violation(_handler_path(settings, index, "value"), problem, "remove it, or remove vectorized")
    if handler.batch is not None:
        most = min(settings.limits.batch_records, share)
        yield from _batch_rules(_handler_path(settings, index, "batch"), handler, handler.batch, most)
    if not handler.non_blocking_redelivery and handler.ordering is Ordering.UNORDERED:
        yield Violation(
            _handler_path(settings, index, "non_blocking_redelivery"),
            "is false, which keeps an order, but handler.ordering is unordered",
            "set handler.ordering to partition or key, or remove this",
        )


def _batch_rules(path: Path, handler: HandlerSection, batch: BatchSection, most: int) -> Iterator[Violation]:
    if handler.vectorized:
        problem = "is used together with vectorized, but a function takes either a Batch or an Arrow record batch"
        yield Violation(path, problem, "remove one of the two", key=True)
    if batch.records > most:
        yield Violation(
            (*path, "records") if "records" in batch.model_fields_set else path,
            f"is {batch.records} records, more than a commit or the buffer may have ({most}, from limits)",
            f"write records: {most} or less, or raise limits.batch and limits.bufferRecords",
        )


def _dependency_rules(settings: Settings) -> Iterator[Violation]:
    """Yield what contradicts itself in `dependencies`, and names that it does not have."""
    for name, section in settings.dependencies.items():
        path: Path = ("dependencies", name)
        if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
            fix = "use letters, digits, '.', '_' and '-': it is a label of metrics"
            yield Violation(path, f"has the name {name!r}", fix)
        if section.first_pause <= timedelta(0) or section.longest_pause < section.first_pause:
            problem = "is zero, or longer than longestPause"
            yield Violation((*path, "firstPause"), problem, "write a time above zero, and at most longestPause")
        if section.max_outage is not None and section.max_outage <= timedelta(0):
            problem = "is zero: the redelivery policy would decide about each failure"
            yield Violation((*path, "maxOutage"), problem, "write a longer time, or remove it for no limit")
    for index, source in enumerate(settings.sources):
        for position, name in enumerate(source.dependencies):
            if name not in settings.dependencies:
                known = ", ".join(settings.dependencies) or "nothing"
                problem = f"is {name!r}, but the section dependencies has {known}"
                yield Violation(
                    ("sources", index, "dependencies", position), problem, f"add dependencies: {{{name}: {{}}}}"
                )
    yield from _once(
        violation for index, handler in _handlers(settings) for violation in _rules_of_needs(settings, index, handler)
    )


def _rules_of_needs(settings: Settings, index: int, handler: HandlerSection) -> Iterator[Violation]:
    """Yield the violations in what the handler of a source depends on."""
    by_deadline = [name for name, section in handler.dependencies if section.deadline]
    if by_deadline and handler.deadline is None:
        problem = f"is true, but the handler of {settings.sources[index].topic} has no deadline"
        yield Violation(("dependencies", by_deadline[0], "deadline"), problem, "set handler.deadline, or remove this")
    if len(by_deadline) > 1:
        problem = f"is true, and also for {by_deadline[0]}: which of them is away is unknown"
        yield Violation(
            ("dependencies", by_deadline[1], "deadline"), problem, "leave it to one of a source's dependencies"
        )
    for name, section in handler.dependencies:
        for listed in set(section.unavailable) & set(handler.not_retryable):
            problem = f"lists {listed}, and so does unavailable of the dependency {name}"
            fix = "list it once: it is either the record's fault or that of the dependency"
            yield Violation(_handler_path(settings, index, "not_retryable"), problem, fix)
    if handler.dependencies and handler.vectorized:
        problem = "is true, and a vectorized handler cannot say which record met an outage"
        yield Violation(_handler_path(settings, index, "vectorized"), problem, "remove the source's dependencies")


def _limit_rules(settings: Settings) -> Iterator[Violation]:
    limits = settings.limits
    if "batch" in limits.model_fields_set and limits.buffer_records < limits.batch:
        yield Violation(
            ("limits", "bufferRecords"),
            f"is {limits.buffer_records}, less than limits.batch ({limits.batch}): a batch could never be full",
            "raise it to limits.batch or more, or lower limits.batch",
        )
    if settings.journal and settings.mode is not AcknowledgementMode.TRANSACTED:
        problem = f"is true, but mode: {settings.mode} has no transaction to write the journal in"
        yield Violation(("journal",), problem, "set mode: transacted, or set this to false")


def acknowledgement_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the settings that contradict the mode."""
    section, mode = settings.acknowledgement, settings.mode
    if section.optimize_acknowledge and mode is not AcknowledgementMode.AUTO:
        yield Violation(
            ("acknowledgement", "optimizeAcknowledge"),
            f"is true, but has an effect only in mode: auto, and the mode is {mode}",
            "set mode: auto, or remove it",
        )
    if section.timeout is not None and section.timeout <= timedelta(0):
        problem = "is zero: every record would be redelivered before it could be acknowledged"
        yield Violation(("acknowledgement", "timeout"), problem, "write a longer time, or remove it for no limit")
    if section.timeout is not None and not mode.by_handler:
        yield Violation(
            ("acknowledgement", "timeout"),
            f"is set, but in mode: {mode} a record is acknowledged when its handler returns",
            "set mode: client or individual, or limit the handler's time with handler.deadline",
        )
    if mode.by_handler:
        yield from _handler_acknowledgement_rules(settings)


def _handler_acknowledgement_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the handler settings that need a record to be acknowledged when its handler returns."""
    yield from _once(
        Violation(
            _handler_path(settings, index, field),
            problem,
            f"set mode: transacted or auto, or remove it: mode: {settings.mode} does not support it",
        )
        for index, handler in _handlers(settings)
        for broken, field, problem in (
            (
                not handler.non_blocking_redelivery,
                "non_blocking_redelivery",
                "is false, but later records cannot wait for records that the handler leaves unacknowledged",
            ),
            (
                handler.persist_delivery_count_before_delivery,
                "persist_delivery_count_before_delivery",
                "is true, but an unacknowledged record looks the same as one that killed the worker",
            ),
            (
                handler.batch is not None,
                "batch",
                "is set, but each record of a batch has its outcome when the call returns",
            ),
            (
                handler.isolation is Isolation.PROCESS,
                "isolation",
                "is process, but a child process can only acknowledge the record that it handles",
            ),
        )
        if broken
    )
