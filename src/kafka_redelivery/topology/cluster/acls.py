"""The least rights that each role needs in a cluster that denies what no ACL allows, and which of them a user lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_redelivery.topology.cluster.facts import OFFSETS_TOPIC
from kafka_redelivery.topology.cluster.kafka_rights import Operation, PatternType, Resource, ResourceType, Right
from kafka_redelivery.topology.cluster.plan import retried_sources, scheduler_group, schedules_in_driver
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.topics.naming import Naming, names_group
from kafka_redelivery.topology.topics.tiers import tier_set


class AclRole(StrEnum):
    """A process or command with a Kafka user of its own."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    APPLY = "apply"
    """``redelivery topology plan``, ``apply`` and ``check``."""

    SPARK = "spark"
    """``redelivery pipeline stream``."""

    ARCHIVE = "archive"
    """``redelivery pipeline archive``."""

    REPORT = "report"
    """``redelivery pipeline report``."""

    AUDIT = "audit"
    """``redelivery pipeline audit``."""

    VIEWER = "viewer"
    """What only reads of ``redelivery dlq``: ``list``, ``show``, ``summary``, ``export`` and ``jobs``."""

    REDRIVE = "redrive"
    """``redelivery dlq``, without ``import`` and ``purge``."""

    IMPORT = "import"
    """``redelivery dlq import`` and ``redelivery import-letters``, which write dead letters."""

    PURGE = "purge"
    """``redelivery dlq purge``, which deletes dead letters."""

    OPERATOR = "operator"
    """``redelivery status``, ``find``, ``pause``, ``resume`` and ``outage``."""

    CONSOLE = "console"
    """``redelivery console``, without purging."""


def rights(settings: Settings, roles: Iterable[AclRole]) -> tuple[Right, ...]:
    """Return the rights that a user needs for all these roles; none of them includes another."""
    return _least(right for role in roles for right in _NEEDED[role](settings))


def other_system_rights(letters: str, naming: Naming, origins: Iterable[str]) -> tuple[Right, ...]:
    """Return the rights that `redelivery dlq --bootstrap` needs, without `purge`; none of them includes another.

    Args:
        letters: the dead-letter topic of the other system.
        naming: names the topics of its jobs.
        origins: the topics that letters are sent to. Records that letters only name are read there, too.
    """
    own = _topics([naming.jobs_topic(), naming.actions_topic()])
    parking = _topics([naming.parking_topic()])
    return _least(
        (
            *_on(_topics([letters]), Operation.READ, Operation.DESCRIBE_CONFIGS),
            *_on(own, Operation.READ, Operation.WRITE, Operation.CREATE),
            *_on(parking, Operation.WRITE, Operation.CREATE),
            *_on(_topics(origins), Operation.READ, Operation.WRITE),
            *_on(_groups(letters), Operation.DESCRIBE),
            *_on([_id(f"{letters}.dlq.", PatternType.PREFIXED)], Operation.WRITE),
        )
    )


def _least(rights: Iterable[Right]) -> tuple[Right, ...]:
    """Return rights in the order in which they are printed, without those that another one includes."""
    needed = set(rights)
    least = (right for right in needed if not any(other != right and other.includes(right) for other in needed))
    types, patterns, operations = list(ResourceType), list(PatternType), list(Operation)
    return tuple(
        sorted(
            least,
            key=lambda right: (
                types.index(right.resource.type),
                patterns.index(right.resource.pattern),
                right.resource.name,
                operations.index(right.operation),
            ),
        )
    )


def configured_topics(settings: Settings) -> tuple[Resource, ...]:
    """Return every topic that the configuration names, outputs and internal topics included."""
    named = (*_sources(settings), *_outputs(settings), *_ready_topics(settings), *_tiers(settings), *_mixed(settings))
    return (*named, *_dead_letters(settings), *redrive_topics(settings), *_journal(settings), *_control(settings))


def redrive_topics(settings: Settings) -> tuple[Resource, ...]:
    """Return the topics of `redelivery dlq`. Workers and schedulers also start without them."""
    naming = settings.naming()
    names = (naming.jobs_topic(), naming.actions_topic(), naming.parking_topic())
    return tuple(_topics(names)) if _dead_letters(settings) else ()


def _worker(settings: Settings) -> Iterator[Right]:
    yield from _handling(settings)
    yield from _transactions(settings, "worker")


def _spark(settings: Settings) -> Iterator[Right]:
    yield from _handling(settings)
    yield from _on([_id(f"{settings.group}.spark")], Operation.WRITE)
    yield from _transactions(settings, "spark")
    if schedules_in_driver(settings):
        yield from _scheduler(settings)


def _handling(settings: Settings) -> Iterator[Right]:
    """Yield what calling handlers and writing their outcomes needs. At start all topics are described."""
    retry = Operation.WRITE if retried_sources(settings) else Operation.DESCRIBE
    tiers = tier_set(settings.entries().values())
    yield from _on(_sources(settings), Operation.READ, Operation.DESCRIBE_CONFIGS)
    yield from _on(_ready_topics(settings), Operation.READ, retry, Operation.DESCRIBE_CONFIGS)
    if tiers.mixed or tiers.delays_ms:
        yield from _on(_waiting(settings), retry, Operation.DESCRIBE_CONFIGS)
        yield from _on(_groups(scheduler_group(settings.group)), Operation.DESCRIBE)
    written = (*_dead_letters(settings), *_outputs(settings), *_journal(settings), *_actions(settings))
    yield from _on(written, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_groups(settings.group), Operation.READ)


def _scheduler(settings: Settings) -> Iterator[Right]:
    """Yield what releasing, sweeping, counting and trimming need."""
    letters, sweeps = _dead_letters(settings), sweep_plan(settings)
    yield from _on(_sources(settings), Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_ready(settings), Operation.WRITE, Operation.DELETE, Operation.DESCRIBE_CONFIGS)
    waiting = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_waiting(settings), *waiting)
    yield from _on(letters, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_journal(settings), Operation.WRITE, Operation.DELETE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_actions(settings), Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_groups(settings.group), Operation.DESCRIBE)
    yield from _on(_groups(scheduler_group(settings.group)), Operation.READ)
    yield from _transactions(settings, "scheduler")
    if sweeps.expiring or settings.metrics.port is not None:
        yield from _on(letters, Operation.READ)
    if sweeps.expiring:
        yield from _on(letters, Operation.DELETE)
        yield from _on(_topics([OFFSETS_TOPIC]), Operation.DESCRIBE)
        yield from _on(_groups(sweeper_group(settings.group)), Operation.READ)
        if sweeps.moving:
            yield from _transactions(settings, "sweeper")


def _apply(settings: Settings) -> Iterator[Right]:
    """Yield what creating, extending and checking the internal topics needs. Reading finds records that still wait."""
    create = (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS)
    others = (*_sources(settings), *_outputs(settings))
    yield from _on(others, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    yield from _on((*_ready(settings), *_waiting(settings)), *create, Operation.READ)
    yield from _on((*_dead_letters(settings), *_journal(settings), *redrive_topics(settings)), *create)
    control = (Operation.CREATE, Operation.READ, Operation.WRITE, Operation.ALTER_CONFIGS)  # it never grows
    yield from _on(_control(settings), *control)
    yield from _on(_groups(settings.group, scheduler_group(settings.group)), Operation.READ)


def _archive(settings: Settings) -> Iterator[Right]:
    yield from _on(_dead_letters(settings), Operation.READ, Operation.DESCRIBE_CONFIGS)
    yield from _on(redrive_topics(settings)[:-1], Operation.READ)  # what became of them; not the parking topic
    yield from _on(_groups(settings.group), Operation.DESCRIBE)


def _report(settings: Settings) -> Iterator[Right]:
    """Yield what counting dead letters, recoveries and waiting records needs."""
    read = (*_ready_topics(settings), *_waiting(settings), *_dead_letters(settings), *_journal(settings))
    yield from _on(read, Operation.READ, Operation.DESCRIBE_CONFIGS)
    yield from _on(_groups(settings.group, scheduler_group(settings.group)), Operation.DESCRIBE)


def _audit(settings: Settings) -> Iterator[Right]:
    yield from _report(settings)
    yield from _on(_sources(settings), Operation.READ, Operation.DESCRIBE_CONFIGS)
    if sweep_plan(settings).moving:
        yield from _on(_groups(sweeper_group(settings.group)), Operation.DESCRIBE)


def _viewer(settings: Settings) -> Iterator[Right]:
    yield from _on((*_dead_letters(settings), *redrive_topics(settings)[:-1]), Operation.READ)  # not the parking topic
    yield from _on(_groups(settings.group), Operation.DESCRIBE)


def _redrive(settings: Settings) -> Iterator[Right]:
    yield from _viewer(settings)
    yield from _on((*redrive_topics(settings), *_ready(settings)), Operation.WRITE)
    yield from _on([_id(f"{settings.group}.dlq.", PatternType.PREFIXED)], Operation.WRITE)


def _import(settings: Settings) -> Iterator[Right]:
    """Yield what writing dead letters to their topics needs. They are read to find those that are there already."""
    yield from _on(_dead_letters(settings), Operation.READ, Operation.WRITE)
    yield from _on(_groups(settings.group), Operation.DESCRIBE)
    yield from _on([_id(f"{settings.group}.dlq.import")], Operation.WRITE)


def _purge(settings: Settings) -> Iterator[Right]:
    """Yield what finding the dead letters that are done and deleting them needs."""
    naming = settings.naming()
    yield from _on(_dead_letters(settings), Operation.READ, Operation.DELETE)
    yield from _on(_topics([naming.jobs_topic(), naming.actions_topic()]), Operation.READ)
    yield from _on(_groups(settings.group), Operation.DESCRIBE)


def _operator(settings: Settings) -> Iterator[Right]:
    """Yield what looking at the group and pausing it needs. The configurations of topics are not read."""
    moving = (*_sources(settings), *_ready_topics(settings), *_waiting(settings))
    dead = (*_dead_letters(settings), *redrive_topics(settings)[:-1])  # not the parking topic
    yield from _on((*moving, *dead, *_journal(settings)), Operation.READ)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE)
    yield from _on(_groups(settings.group, scheduler_group(settings.group)), Operation.DESCRIBE)


def _console(settings: Settings) -> Iterator[Right]:
    """Yield what the web console needs. Its page of the topology reads the configurations of all topics."""
    yield from (*_redrive(settings), *_operator(settings))
    described = (*configured_topics(settings), *_ready(settings), *_waiting(settings))
    yield from _on(described, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


_NEEDED = {
    AclRole.WORKER: _worker,
    AclRole.SCHEDULER: _scheduler,
    AclRole.APPLY: _apply,
    AclRole.SPARK: _spark,
    AclRole.ARCHIVE: _archive,
    AclRole.REPORT: _report,
    AclRole.AUDIT: _audit,
    AclRole.VIEWER: _viewer,
    AclRole.REDRIVE: _redrive,
    AclRole.IMPORT: _import,
    AclRole.PURGE: _purge,
    AclRole.OPERATOR: _operator,
    AclRole.CONSOLE: _console,
}


def _on(resources: Iterable[Resource], *operations: Operation) -> Iterator[Right]:
    return (Right(resource, operation) for resource in resources for operation in operations)


def _topics(names: Iterable[str]) -> list[Resource]:
    return [Resource(ResourceType.TOPIC, PatternType.LITERAL, name) for name in names]


def _groups(*names: str) -> list[Resource]:
    return [Resource(ResourceType.GROUP, PatternType.LITERAL, name) for name in names]


def _id(name: str, pattern: PatternType = PatternType.LITERAL) -> Resource:
    return Resource(ResourceType.TRANSACTIONAL_ID, pattern, name)


def _transactions(settings: Settings, role: str) -> Iterator[Right]:
    """Yield the right to the transactional ids of all instances of a role."""
    if settings.mode is AcknowledgementMode.TRANSACTED:
        yield from _on([_id(f"{settings.group}.{role}.", PatternType.PREFIXED)], Operation.WRITE)


def _sources(settings: Settings) -> list[Resource]:
    return _topics(source.topic for source in settings.sources)


def _outputs(settings: Settings) -> list[Resource]:
    return _topics(output.topic for output in settings.outputs)


def _dead_letters(settings: Settings) -> list[Resource]:
    return _topics(sweep_plan(settings).topics)


def _journal(settings: Settings) -> list[Resource]:
    return _topics([settings.naming().journal_topic()] if settings.journal else [])


def _actions(settings: Settings) -> tuple[Resource, ...]:
    """Return the topic in which those who end a record that was sent again say so."""
    return redrive_topics(settings)[1:2]


def _control(settings: Settings) -> list[Resource]:
    return _topics([settings.naming().control_topic()])


def _waiting(settings: Settings) -> list[Resource]:
    """Return the retry tiers and the mixed topic; by prefix also the tiers of earlier policies, which must empty."""
    tiers = _prefixed(settings.group, settings.naming().retry.partition("{delay}")[0], _tiers(settings))
    return [*tiers, *_mixed(settings)]


def _tiers(settings: Settings) -> list[Resource]:
    return _topics(map(settings.naming().tier_topic, tier_set(settings.entries().values()).delays_ms))


def _mixed(settings: Settings) -> list[Resource]:
    return _topics([settings.naming().mixed_topic()] if tier_set(settings.entries().values()).mixed else [])


def _ready(settings: Settings) -> list[Resource]:
    """Return the ready topics; by prefix also those of former sources, whose retries still become due."""
    return _prefixed(settings.group, settings.naming().ready.partition("{topic}")[0], _ready_topics(settings))


def _ready_topics(settings: Settings) -> list[Resource]:
    return _topics(settings.naming().ready_topic(source.topic) for source in settings.sources)


def _prefixed(group: str, template: str, literal: list[Resource]) -> list[Resource]:
    """Return the start of a template as a prefix if it belongs to this group alone, else the literal topics.

    The group's name and a dot are no such prefix: all topics of the group begin so, its sources perhaps as well.
    """
    prefix = template.replace("{group}", group)
    if names_group(template, group) and prefix.endswith((".", "-", "_")) and prefix[:-1] != group:
        return [Resource(ResourceType.TOPIC, PatternType.PREFIXED, prefix)]
    return literal


_COUNTING = frozenset({AclRole.REPORT, AclRole.AUDIT})
"""Roles of commands whose figures are wrong without one of their topics."""


@dataclass(frozen=True, slots=True)
class MissingRights:
    """The rights that a user lacks for a role, and whether the role cannot start without one of them."""

    rights: tuple[Right, ...]
    refused: bool


def missing_rights(settings: Settings, role: AclRole, allowed: Mapping[str, Collection[Operation]]) -> MissingRights:
    """Compare the rights that a role needs with those that its user has.

    At start a role describes its topics and their configurations, and a worker, query or scheduler reads some of them.
    A right to write, delete or create is missed later, and by some records only, so a start goes on without it. The
    control topic is optional, and so are the topics of `redelivery dlq` for all roles but apply, which creates them;
    of one that may be described the configuration has to be readable.

    Args:
        settings: the configuration.
        role: the role.
        allowed: the operations that the user may do on each topic, those that others include as well. A topic whose
            operations are unknown is left out.
    """
    needed = [right for right in rights(settings, [role]) if right.resource.type is ResourceType.TOPIC]
    of_jobs = set() if role is AclRole.APPLY else {topic.name for topic in redrive_topics(settings)}
    optional = {settings.naming().control_topic(), *of_jobs}
    optional_reads = optional if role in _COUNTING else optional | set(sweep_plan(settings).topics)
    lacking: dict[Right, None] = {}
    refused = False
    for topic in configured_topics(settings):
        operations = allowed.get(topic.name)
        if operations is None:
            continue
        on_topic = [right for right in needed if right.resource.covers(topic)]
        lacking |= dict.fromkeys(right for right in on_topic if right.operation not in operations)
        if on_topic and Operation.DESCRIBE not in operations:
            refused |= topic.name not in optional
            continue
        described = Right(topic, Operation.DESCRIBE_CONFIGS)
        required = {described.operation} if any(right.includes(described) for right in on_topic) else set()
        if role is not AclRole.APPLY and topic.name not in optional_reads:
            required |= {right.operation for right in on_topic} & {Operation.READ}
        refused |= not required <= set(operations)
    return MissingRights(tuple(right for right in needed if right in lacking), refused)
