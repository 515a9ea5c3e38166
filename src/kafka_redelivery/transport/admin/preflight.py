"""Compares what a configuration needs with what the cluster has: for commands, and before a process starts."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import NamedTuple

from kafka_redelivery.topology.cluster.acls import AclRole, configured_topics, missing_rights, rights
from kafka_redelivery.topology.cluster.changes import changes, control_records, withdrawals
from kafka_redelivery.topology.cluster.check import Severity, TopologyFault, check
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.kafka_rights import PatternType, Resource, ResourceType, Right
from kafka_redelivery.topology.cluster.outage_check import LongestOutage, longest_outages
from kafka_redelivery.topology.cluster.plan import (
    Role,
    TopologyPlan,
    default_width_of,
    needs_scheduler,
    plan,
    scheduler_group,
    schedules_in_driver,
)
from kafka_redelivery.topology.config.rules.clients import exposed
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.control_topic import append_control, read_control, read_permitted
from kafka_redelivery.transport.admin.errors import (
    NotAuthorisedError,
    TopologyRefusedError,
)
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import AssignedReader
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import (
    PartitionUnfetchableError,
    ReaderError,
    TopicForbiddenError,
    TransportError,
)
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_READ_TIMEOUT_S = 10.0
_POLL_S = 0.1


def survey(admin: ClusterAdmin, settings: Settings, role: AclRole | None = None) -> tuple[TopologyPlan, ClusterFacts]:
    """Return what a configuration needs, and what the cluster has of it; offsets only of partitions with a leader.

    Args:
        admin: the cluster.
        settings: the configuration.
        role: the role of the user, whose missing rights are then reported together.

    Raises:
        NotAuthorisedError: the role cannot do its work.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    names = admin.topic_names()
    if role is None:
        return _survey(admin, settings, names)
    require_rights(admin, settings, role)
    try:
        return _survey(admin, settings, names, role)
    except NotAuthorisedError as error:
        group = Resource(ResourceType.GROUP, PatternType.LITERAL, error.group)
        needed = [right for right in rights(settings, [role]) if right.resource == group]
        if not needed:
            raise
        raise _lacks(role, needed) from error


def require_rights(admin: ClusterAdmin, settings: Settings, role: AclRole) -> None:
    """Report the rights on topics that the user lacks together.

    Raises:
        NotAuthorisedError: the role cannot do its work without them. Other missing rights are a warning.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    topics = [topic.name for topic in configured_topics(settings)]
    missing = missing_rights(settings, role, admin.allowed_operations(topics))
    if missing.refused:
        raise _lacks(role, missing.rights)
    if missing.rights and role is not AclRole.APPLY:
        _log.warning("starting in spite of missing rights: %s", _lacks(role, missing.rights))


def _lacks(role: AclRole, rights: Sequence[Right]) -> NotAuthorisedError:
    one = len(rights) == 1
    count, rule = ("a right", "rule that denies it") if one else (f"{len(rights)} rights", "rules that deny them")
    commands = f"`redelivery topology acls --role {role}`"
    head = f"the Kafka user lacks {count}; grant with the commands of {commands}, or remove the {rule}:"
    return NotAuthorisedError(str(role), "\n".join([head, *(f"  {right}" for right in rights)]))


def _survey(
    admin: ClusterAdmin, settings: Settings, names: Collection[str], role: AclRole | None = None
) -> tuple[TopologyPlan, ClusterFacts]:
    sources = [source.topic for source in settings.sources]
    known = admin.describe(sources, {}).topics
    planned = plan(settings, known)
    readers = {name: (group,) for name, group in planned.readers(names).items()}
    readers |= dict.fromkeys((*sources, *planned.unconfigured_ready_topics(names)), (settings.group,))
    wanted = {topic.name for topic in planned.topics} | readers.keys() | set(planned.outputs)
    cluster = admin.describe(wanted.intersection(names), readers, skip_leaderless=True)
    if role is AclRole.SPARK and not schedules_in_driver(settings):
        cluster = replace(cluster, consumer_protocol=None)  # a query is always a member by the classic protocol
    elif planned.consumer_protocol and cluster.consumer_protocol is not False:
        cluster = replace(cluster, consumer_protocol=admin.offers_consumer_protocol())
    control, forbidden = _control(settings, names, role)
    groups = dict.fromkeys(planned.retired_names(cluster.topics), scheduler_group(planned.group))
    groups |= dict.fromkeys(planned.unconfigured_ready_topics(cluster.topics), planned.group)
    cluster = replace(
        cluster,
        holding=_unfinished(settings, planned, cluster, groups),
        shared=_shared(admin, planned, cluster),
        control=control.of_topics(cluster.marks),
        control_forbidden=forbidden,
    )
    return plan(settings, known, default_width_of(planned, cluster)), cluster


def _control(settings: Settings, names: Collection[str], role: AclRole | None) -> tuple[ControlState, bool]:
    """Return what the control topic says, and whether it is there but may not be read.

    Only a worker or a scheduler can halt what needs it alone. For others it is then as if there was none.
    """
    topic = settings.naming().control_topic()
    if topic not in names:
        return ControlState(), False
    if role not in {AclRole.WORKER, AclRole.SCHEDULER}:
        return read_control(settings.kafka, settings.group, topic), False
    try:
        return read_permitted(settings.kafka, settings.group, topic), False
    except TopicForbiddenError as error:
        return ControlState(), not error.hidden  # the process warns of it when it reads the topic itself


def verify(settings: Settings, role: AclRole) -> None:
    """Refuse to start on a topology that would lose records.

    A partition without a leader is left out, with a warning: it alone waits until it has one.

    Args:
        settings: the configuration.
        role: what starts. A scheduler does not need the output topics.

    Raises:
        TopologyRefusedError: names each fault and its fix.
        NotAuthorisedError: the user lacks rights; it names all that are known.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    for each in exposed(settings):
        _log.warning("%s", each)
    _log.info("checking the topics at %s", settings.kafka.get("bootstrap.servers"))
    admin = ClusterAdmin(settings.kafka)
    planned, cluster = survey(admin, settings, role)
    if leaderless := cluster.leaderless():
        _log.warning("left out until they have a leader: %s", ", ".join(leaderless))
    if role is AclRole.SCHEDULER:
        planned = replace(planned, outputs=())
    faults = [fault for fault in check(planned, cluster) if fault.severity is Severity.REFUSE]
    if faults:
        raise TopologyRefusedError(faults)


def make_topics(settings: Settings, now_ms: int) -> None:
    """Do what ``redelivery topology apply`` does where no member runs: make and note the topics of the group.

    Args:
        settings: the configuration; its sources exist.
        now_ms: epoch ms.

    Raises:
        TransportError: the cluster does not answer, or refuses; see :class:`ClusterAdmin`.
    """
    admin, control = ClusterAdmin(settings.kafka), settings.naming().control_topic()
    planned, cluster = survey(admin, settings)
    todo = changes(planned, cluster)
    append_control(settings.kafka, control, withdrawals(todo, cluster))
    admin.apply(todo)
    append_control(settings.kafka, control, control_records(planned, cluster, now_ms))


def scheduler_runs(settings: Settings, *, every_protocol: bool) -> bool | None:
    """Return whether a scheduler of the group runs; ``None`` if it is unknown.

    ``every_protocol`` is that of :class:`GroupMembers`.
    """
    try:
        return GroupMembers(settings.kafka, every_protocol=every_protocol).any(scheduler_group(settings.group))
    except TransportError as error:
        _log.info("it is unknown whether a scheduler runs: %s", error)
        return None


def _shared(admin: ClusterAdmin, planned: TopologyPlan, cluster: ClusterFacts) -> dict[str, str]:
    """Return the ready topics in which another group has committed offsets, as far as the user may ask about it."""
    found = {}
    for topic in planned.topics:
        if topic.role is Role.READY and topic.name in cluster.topics:
            for group in planned.naming.other_groups(topic.name):
                with suppress(NotAuthorisedError):
                    readers = {topic.name: (group,)}
                    if admin.describe([topic.name], readers, skip_leaderless=True).committed[group]:
                        found[topic.name] = group
    return found


def _unfinished(
    settings: Settings, planned: TopologyPlan, cluster: ClusterFacts, groups: Mapping[str, str]
) -> frozenset[str]:
    """Return those of the topics in which there are records that their group, as ``groups`` says, has not finished.

    A partition without a leader counts as one with records.
    """
    starts: dict[Partition, int] = {}
    unknown: frozenset[str] = frozenset()
    for name, group in groups.items():
        for number in range(cluster.topics[name].partitions):
            committed, bounds = cluster.offset(group, name, number), cluster.topics[name].bounds.get(number)
            if committed is None and group == planned.group and planned.topic(name) is None:
                continue  # the topic of another group
            if bounds is None:
                unknown |= {name}
                continue
            start = bounds.start if committed is None else max(committed, bounds.start)
            if start < bounds.end:
                starts[Partition(name, number)] = start
    return unknown | (
        _topics_with_records(settings.kafka, starts, scheduler_group(planned.group)) if starts else frozenset()
    )


def _topics_with_records(
    kafka: Mapping[str, ConfigValue], starts: Mapping[Partition, int], group: str
) -> frozenset[str]:
    """Return the topics that have a committed record at or above one of these offsets.

    Offsets alone do not show it, because transaction markers take up offsets too. So this reads the partitions until
    their first record or their end. A topic that may not be read, or not in time, counts as one with records.

    Args:
        kafka: the client settings.
        starts: where to start each partition.
        group: the group id, which the broker may check; the consumer neither joins the group nor commits.

    Raises:
        ClientSettingsError: as :func:`open_consumer`.
    """
    reader = AssignedReader(kafka, group, {}, logger=admin_log)
    found: set[str] = set()
    unread = set(starts)
    deadline = time.monotonic() + _READ_TIMEOUT_S
    with closing(reader), suppress(ReaderError):
        reader.assign(starts)
        while unread and time.monotonic() < deadline:
            try:
                batch = reader.fetch(1, _POLL_S)
            except (TopicForbiddenError, PartitionUnfetchableError) as error:  # a worker needs no right to read tiers
                found.add(error.topic)
                unread = {each for each in unread if each.topic not in found}
                reader.assign({each: starts[each] for each in unread})
                continue
            found.update(topic for topic, _ in batch.places)
            unread = {each for each in unread - batch.ended if each.topic not in found}
    return frozenset(found | {partition.topic for partition in unread})


class TopologyLook(NamedTuple):
    """One look at the topics of a group."""

    plan: TopologyPlan
    cluster: ClusterFacts
    faults: tuple[TopologyFault, ...]


def look_at_topology(settings: Settings, now_ms: int, role: AclRole | None = None) -> TopologyLook:
    """Compare the topics of a group with what its configuration needs; change nothing.

    Args:
        settings: the configuration.
        now_ms: epoch ms.
        role: the role of the user of a command, whose missing rights are then an error.

    Raises:
        TransportError: the cluster does not answer, or the user lacks a right.
    """
    planned, cluster = survey(ClusterAdmin(settings.kafka), settings, role)
    if needs_scheduler(settings) or cluster.holding:
        cluster = replace(cluster, scheduler_runs=scheduler_runs(settings, every_protocol=role is not None))
    if wide := planned.wide(cluster.topics):
        readers = planned.readers(wide)
        found = _unfinished(settings, planned, cluster, {name: readers[name] for name in wide})
        cluster = replace(cluster, wide_hold=bool(found))
    if longest := longest_outages(planned):
        cluster = replace(cluster, behind=_behind(settings, planned, cluster, longest, now_ms))
    return TopologyLook(planned, cluster, tuple(check(planned, cluster)))


def _behind(
    settings: Settings, planned: TopologyPlan, cluster: ClusterFacts, longest: Mapping[str, LongestOutage], now_ms: int
) -> dict[str, int]:
    """Return how many unfinished records of each source are older than ``age_ms`` of its longest outage.

    Transaction markers and records finished out of order count.
    """
    offsets, found = PartitionOffsets(settings.kafka), {}
    for name, each in longest.items():
        bounds = {Partition(name, number): bound for number, bound in cluster.topics[name].bounds.items()}
        younger = offsets.offsets_for_time(bounds, now_ms - each.age_ms)
        found[name] = sum(
            max(0, younger.get(partition, bound.end) - max(bound.start, committed or 0))
            for partition, bound in bounds.items()
            for committed in (cluster.offset(planned.group, *partition),)
        )
    return found
