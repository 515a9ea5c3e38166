"""The least rights that each role needs in a cluster that denies what no ACL allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from kafka_redelivery.topology.cluster.kafka_rights import Operation, PatternType, Resource, ResourceType, Right
from kafka_redelivery.topology.cluster.plan import scheduler_group, schedules_in_driver
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.topology.topics.tiers import tier_set

OFFSETS_TOPIC = "__consumer_offsets"


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
    """``redelivery status``, ``find``, ``pause`` and ``resume``."""

    CONSOLE = "console"
    """``redelivery console``, without purging."""


def rights(settings: Settings, roles: Iterable[AclRole]) -> tuple[Right, ...]:
    """Return the rights that a user needs for all these roles; none of them includes another."""
    needed = {right for role in roles for right in _NEEDED[role](settings)}
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
    named = (*map(_topic, _sources(settings)), *_outputs(settings), *_ready_topics(settings), *_tiers(settings))
    letters = (*_mixed(settings), *_dead_letters(settings), *redrive_topics(settings), *_journal(settings))
    return (*named, *letters, _control(settings))


def redrive_topics(settings: Settings) -> tuple[Resource, ...]:
    """Return the topics of `redelivery dlq`. Workers and schedulers also start without them."""
    naming = settings.naming()
    names = (naming.jobs_topic(), naming.actions_topic(), naming.parking_topic())
    return tuple(map(_topic, names)) if _dead_letters(settings) else ()


def _worker(settings: Settings) -> Iterator[Right]:
    yield from _handling(settings)
    yield from _transactions(settings, "worker")


def _spark(settings: Settings) -> Iterator[Right]:
    yield from _handling(settings)
    yield Right(
        Resource(ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, f"{settings.group}.spark"), Operation.WRITE
    )
    yield from _transactions(settings, "spark")
    if schedules_in_driver(settings):
        yield from _scheduler(settings)


def _handling(settings: Settings) -> Iterator[Right]:
    """Yield what calling handlers and writing their outcomes needs. At start all topics are described."""
    naming = settings.naming()
    blocking = settings.handler is not None and not settings.handler.non_blocking_redelivery
    retry = Operation.DESCRIBE if blocking else Operation.WRITE
    for source in _sources(settings):
        yield from _on(_topic(source), Operation.READ, Operation.DESCRIBE_CONFIGS)
        ready = _topic(naming.ready_topic(source))
        yield from _on(ready, Operation.READ, retry, Operation.DESCRIBE_CONFIGS)
    if _has_tiers(settings):
        for waiting in _waiting(settings):
            yield from _on(waiting, retry, Operation.DESCRIBE_CONFIGS)
        yield Right(_group(scheduler_group(settings.group)), Operation.DESCRIBE)
    for topic in (*_dead_letters(settings), *_outputs(settings), *_journal(settings), *_actions(settings)):
        yield from _on(topic, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield Right(_group(settings.group), Operation.READ)


def _scheduler(settings: Settings) -> Iterator[Right]:
    """Yield what releasing, sweeping, counting and trimming need."""
    yield from _releasing(settings)
    sweeps = sweep_plan(settings)
    for letters in _dead_letters(settings):
        yield from _on(letters, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
        if sweeps.expiring or settings.metrics.port is not None:
            yield Right(letters, Operation.READ)
        if sweeps.expiring:
            yield Right(letters, Operation.DELETE)
    for topics, operation in ((_journal(settings), Operation.DELETE), (_actions(settings), Operation.WRITE)):
        for topic in topics:
            yield from _on(topic, operation, Operation.DESCRIBE_CONFIGS)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    yield Right(_group(settings.group), Operation.DESCRIBE)
    yield Right(_group(scheduler_group(settings.group)), Operation.READ)
    yield from _transactions(settings, "scheduler")
    if sweeps.expiring:
        yield Right(_topic(OFFSETS_TOPIC), Operation.DESCRIBE)
        yield Right(_group(sweeper_group(settings.group)), Operation.READ)
        if sweeps.moving:
            yield from _transactions(settings, "sweeper")


def _releasing(settings: Settings) -> Iterator[Right]:
    for source in _sources(settings):
        yield from _on(_topic(source), Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    for ready in _ready(settings):
        yield from _on(ready, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE_CONFIGS)
    for waiting in _waiting(settings):
        yield from _on(waiting, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE_CONFIGS)


def _apply(settings: Settings) -> Iterator[Right]:
    """Yield what creating, extending and checking the internal topics needs. Reading finds records that still wait."""
    create = (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS)
    for source in _sources(settings):
        yield from _on(_topic(source), Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    for output in _outputs(settings):
        yield from _on(output, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    for topic in (*_ready(settings), *_waiting(settings)):
        yield from _on(topic, *create, Operation.READ)
    for topic in (*_dead_letters(settings), *_journal(settings), *redrive_topics(settings)):
        yield from _on(topic, *create)
    control = (Operation.CREATE, Operation.READ, Operation.WRITE, Operation.ALTER_CONFIGS)  # it never grows
    yield from _on(_control(settings), *control)
    yield Right(_group(settings.group), Operation.READ)
    yield Right(_group(scheduler_group(settings.group)), Operation.READ)


def _archive(settings: Settings) -> Iterator[Right]:
    for letters in _dead_letters(settings):
        yield from _on(letters, Operation.READ, Operation.DESCRIBE_CONFIGS)


def _report(settings: Settings) -> Iterator[Right]:
    """Yield what counting dead letters, recoveries and waiting records needs."""
    for topic in (*_ready_topics(settings), *_waiting(settings), *_dead_letters(settings), *_journal(settings)):
        yield from _on(topic, Operation.READ, Operation.DESCRIBE_CONFIGS)
    yield Right(_group(settings.group), Operation.DESCRIBE)
    yield Right(_group(scheduler_group(settings.group)), Operation.DESCRIBE)


def _audit(settings: Settings) -> Iterator[Right]:
    """Yield what accounting for every record of the sources needs."""
    yield from _report(settings)
    for source in _sources(settings):
        yield from _on(_topic(source), Operation.READ, Operation.DESCRIBE_CONFIGS)
    if sweep_plan(settings).moving:
        yield Right(_group(sweeper_group(settings.group)), Operation.DESCRIBE)


def _viewer(settings: Settings) -> Iterator[Right]:
    """Yield what looking at dead letters needs."""
    naming = settings.naming()
    for letters in _dead_letters(settings):
        yield Right(letters, Operation.READ)
    if _dead_letters(settings):
        for name in (naming.jobs_topic(), naming.actions_topic()):
            yield Right(_topic(name), Operation.READ)
    yield Right(_group(settings.group), Operation.DESCRIBE)


def _redrive(settings: Settings) -> Iterator[Right]:
    """Yield what listing dead letters and sending them again needs."""
    yield from _viewer(settings)
    if _dead_letters(settings):
        naming = settings.naming()
        for name in (naming.jobs_topic(), naming.actions_topic(), naming.parking_topic()):
            yield Right(_topic(name), Operation.WRITE)
    for ready in _ready(settings):
        yield Right(ready, Operation.WRITE)
    ids = Resource(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, f"{settings.group}.dlq.")
    yield Right(ids, Operation.WRITE)


def _import(settings: Settings) -> Iterator[Right]:
    """Yield what writing dead letters to their topics needs. They are read to find those that are there already."""
    for letters in _dead_letters(settings):
        yield from _on(letters, Operation.READ, Operation.WRITE)
    yield Right(_group(settings.group), Operation.DESCRIBE)
    ids = Resource(ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, f"{settings.group}.dlq.import")
    yield Right(ids, Operation.WRITE)


def _purge(settings: Settings) -> Iterator[Right]:
    """Yield what finding the dead letters that are done and deleting them needs."""
    for letters in _dead_letters(settings):
        yield from _on(letters, Operation.READ, Operation.DELETE)
    naming = settings.naming()
    for topic in (naming.jobs_topic(), naming.actions_topic()):
        yield Right(_topic(topic), Operation.READ)
    yield Right(_group(settings.group), Operation.DESCRIBE)


def _operator(settings: Settings) -> Iterator[Right]:
    """Yield what looking at the group and pausing it needs. The configurations of topics are not read."""
    for topic in (*map(_topic, _sources(settings)), *_ready_topics(settings), *_dead_letters(settings)):
        yield Right(topic, Operation.READ)
    for topic in (*_waiting(settings), *_journal(settings)):
        yield Right(topic, Operation.READ)
    yield from _on(_control(settings), Operation.READ, Operation.WRITE)
    yield Right(_group(settings.group), Operation.DESCRIBE)
    yield Right(_group(scheduler_group(settings.group)), Operation.DESCRIBE)


def _console(settings: Settings) -> Iterator[Right]:
    """Yield what the web console needs. Its page of the topology reads the configurations of all topics."""
    yield from (*_redrive(settings), *_operator(settings))
    for each in (*configured_topics(settings), *_ready(settings), *_waiting(settings)):
        yield from _on(each, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


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


def _on(resource: Resource, *operations: Operation) -> Iterator[Right]:
    for operation in operations:
        yield Right(resource, operation)


def _topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, PatternType.LITERAL, name)


def _group(name: str) -> Resource:
    return Resource(ResourceType.GROUP, PatternType.LITERAL, name)


def _transactions(settings: Settings, role: str) -> Iterator[Right]:
    """Yield the right to the transactional ids of all instances of a role."""
    if settings.mode is AcknowledgementMode.TRANSACTED:
        ids = Resource(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, f"{settings.group}.{role}.")
        yield Right(ids, Operation.WRITE)


def _sources(settings: Settings) -> list[str]:
    return [source.topic for source in settings.sources]


def _outputs(settings: Settings) -> list[Resource]:
    return [_topic(output.topic) for output in settings.outputs]


def _dead_letters(settings: Settings) -> list[Resource]:
    return [_topic(name) for name in sweep_plan(settings).topics]


def _journal(settings: Settings) -> list[Resource]:
    return [_topic(settings.naming().journal_topic())] if settings.journal else []


def _actions(settings: Settings) -> list[Resource]:
    """Return the topic in which those who end a record that was sent again say so."""
    return [_topic(settings.naming().actions_topic())] if _dead_letters(settings) else []


def _control(settings: Settings) -> Resource:
    return _topic(settings.naming().control_topic())


def _has_tiers(settings: Settings) -> bool:
    tiers = tier_set(settings.entries().values())
    return tiers.mixed or bool(tiers.delays_ms)


def _waiting(settings: Settings) -> list[Resource]:
    """Return the retry tiers and the mixed topic; by prefix also the tiers of earlier policies, which must empty."""
    tiers = _prefixed(settings.group, settings.naming().retry.partition("{delay}")[0], _tiers(settings))
    return [*tiers, *_mixed(settings)]


def _tiers(settings: Settings) -> list[Resource]:
    return [_topic(settings.naming().tier_topic(delay)) for delay in tier_set(settings.entries().values()).delays_ms]


def _mixed(settings: Settings) -> list[Resource]:
    return [_topic(settings.naming().mixed_topic())] if tier_set(settings.entries().values()).mixed else []


def _ready(settings: Settings) -> list[Resource]:
    """Return the ready topics; by prefix also those of former sources, whose retries still become due."""
    return _prefixed(settings.group, settings.naming().ready.partition("{topic}")[0], _ready_topics(settings))


def _ready_topics(settings: Settings) -> list[Resource]:
    return [_topic(settings.naming().ready_topic(source)) for source in _sources(settings)]


def _prefixed(group: str, template: str, literal: list[Resource]) -> list[Resource]:
    """Return the start of a template as a prefix if it belongs to this group alone, else the literal topics."""
    prefix = template.replace("{group}", group)
    if group in prefix and prefix.endswith((".", "-", "_")):
        return [Resource(ResourceType.TOPIC, PatternType.PREFIXED, prefix)]
    return literal
