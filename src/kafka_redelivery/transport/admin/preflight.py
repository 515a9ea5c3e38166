"""Checks before the start whether the cluster has what the configuration needs."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from kafka_redelivery.topology.cluster.acls import AclRole, configured_topics, rights
from kafka_redelivery.topology.cluster.check import Severity, check
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.kafka_rights import PatternType, Resource, ResourceType
from kafka_redelivery.topology.cluster.missing_rights import missing_rights
from kafka_redelivery.topology.cluster.plan import Role, TopologyPlan, plan, scheduler_group
from kafka_redelivery.topology.config.rules.exposed import exposed
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.transport.admin.cluster_admin import TIMEOUT_S, ClusterAdmin
from kafka_redelivery.transport.admin.control_topic import read_control, read_permitted
from kafka_redelivery.transport.admin.errors import (
    ClientSettingsError,
    GroupForbiddenError,
    MissingRightsError,
    NotAuthorisedError,
    TopologyRefusedError,
)
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.client_config import ConfigValue, consumer_config
from kafka_redelivery.transport.client_log import admin_log
from kafka_redelivery.transport.errors import TopicForbiddenError, TransportError
from kafka_redelivery.transport.kafka_errors import message_of
from kafka_redelivery.transport.opening import open_consumer
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
        MissingRightsError: the role cannot do its work.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    names = admin.topic_names()
    if role is None:
        return _survey(admin, settings, names)
    require_rights(admin, settings, role)
    try:
        return _survey(admin, settings, names, role)
    except GroupForbiddenError as error:
        group = Resource(ResourceType.GROUP, PatternType.LITERAL, error.group)
        needed = [right for right in rights(settings, [role]) if right.resource == group]
        if not needed:
            raise
        raise MissingRightsError(role, needed) from error


def require_rights(admin: ClusterAdmin, settings: Settings, role: AclRole) -> None:
    """Report the rights on topics that the user lacks together.

    Raises:
        MissingRightsError: the role cannot do its work without them. Other missing rights are a warning.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    topics = [topic.name for topic in configured_topics(settings)]
    missing = missing_rights(settings, role, admin.allowed_operations(topics))
    if missing.refused:
        raise MissingRightsError(role, missing.rights)
    if missing.rights and role is not AclRole.APPLY:
        _log.warning("starting in spite of missing rights: %s", MissingRightsError(role, missing.rights))


def _survey(
    admin: ClusterAdmin, settings: Settings, names: Collection[str], role: AclRole | None = None
) -> tuple[TopologyPlan, ClusterFacts]:
    sources = [source.topic for source in settings.sources]
    planned = plan(settings, admin.describe(sources, {}).topics)
    readers = {name: (group,) for name, group in planned.readers(names).items()}
    readers |= dict.fromkeys((*sources, *planned.unconfigured_ready_topics(names)), (settings.group,))
    wanted = {topic.name for topic in planned.topics} | readers.keys() | set(planned.outputs)
    cluster = admin.describe(wanted.intersection(names), readers, skip_leaderless=True)
    control, forbidden = _control(settings, names, role)
    return planned, replace(
        cluster,
        holding=_unfinished(settings, planned, cluster),
        shared=_shared(admin, planned, cluster),
        control=control.of_topics(cluster.marks),
        control_forbidden=forbidden,
    )


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


def verify(settings: Settings, role: AclRole, *, timeout_s: float = TIMEOUT_S) -> None:
    """Refuse to start on a topology that would lose records.

    A partition without a leader is left out, with a warning: it alone waits until it has one.

    Args:
        settings: the configuration.
        role: what starts. A scheduler does not need the output topics.
        timeout_s: the time limit of each request.

    Raises:
        TopologyRefusedError: names each fault and its fix.
        MissingRightsError: the user lacks rights; it names all that are known.
        TransportError: the cluster does not answer; see :class:`ClusterAdmin`.
    """
    for each in exposed(settings):
        _log.warning("%s", each)
    _log.info("checking the topics at %s", settings.kafka.get("bootstrap.servers"))
    admin = ClusterAdmin(settings.kafka, timeout_s=timeout_s)
    planned, cluster = survey(admin, settings, role)
    if leaderless := cluster.leaderless():
        _log.warning("left out until they have a leader: %s", ", ".join(leaderless))
    if role is AclRole.SCHEDULER:
        planned = replace(planned, outputs=())
    faults = [fault for fault in check(planned, cluster) if fault.severity is Severity.REFUSE]
    if faults:
        raise TopologyRefusedError(faults)


def scheduler_runs(settings: Settings) -> bool | None:
    """Return whether a scheduler of the group runs; ``None`` if it is unknown."""
    try:
        return GroupMembers(settings.kafka).any(scheduler_group(settings.group))
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


def _unfinished(settings: Settings, planned: TopologyPlan, cluster: ClusterFacts) -> frozenset[str]:
    """Return the topics that are no longer configured but hold records that their group has not finished.

    A partition without a leader counts as one with records.
    """
    scheduler = scheduler_group(planned.group)
    groups = dict.fromkeys(planned.retired_names(cluster.topics), scheduler)
    groups |= dict.fromkeys(planned.unconfigured_ready_topics(cluster.topics), planned.group)
    starts: dict[Partition, int] = {}
    unknown: frozenset[str] = frozenset()
    for name, group in groups.items():
        for number in range(cluster.topics[name].partitions):
            committed, bounds = cluster.offset(group, name, number), cluster.topics[name].bounds.get(number)
            if committed is None and group == planned.group:
                continue  # the topic of another group
            if bounds is None:
                unknown |= {name}
                continue
            start = bounds.start if committed is None else max(committed, bounds.start)
            if start < bounds.end:
                starts[Partition(name, number)] = start
    return unknown | (_topics_with_records(settings.kafka, starts, scheduler) if starts else frozenset())


def _topics_with_records(
    kafka: Mapping[str, ConfigValue], starts: Mapping[Partition, int], group: str
) -> frozenset[str]:
    """Return the topics that have a committed record at or above one of these offsets.

    Offsets alone do not show it, because transaction markers take up offsets too. So this reads the partitions until
    their first record or their end. A topic that may not be read, or not in time, counts as one with records.

    Args:
        kafka: the client settings.
        starts: where to start each partition; a negative offset means its beginning.
        group: the group id, which the broker may check; the consumer neither joins the group nor commits.

    Raises:
        ClientSettingsError: the client refuses its settings.
    """
    try:
        consumer = open_consumer(consumer_config(kafka, group=group, instance=None), admin_log)
    except (KafkaException, TypeError, ValueError) as error:
        raise ClientSettingsError(message_of(error)) from None
    try:
        consumer.assign(
            [
                TopicPartition(*partition, start if start >= 0 else OFFSET_BEGINNING)
                for partition, start in starts.items()
            ]
        )
        return _read_first_records(consumer, set(starts), time.monotonic() + _READ_TIMEOUT_S)
    finally:
        consumer.close()


def _read_first_records(consumer: Consumer, partitions: set[Partition], deadline: float) -> frozenset[str]:
    found: set[str] = set()
    while partitions and time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        topic, error = str(message.topic()), message.error()
        if error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            found.add(topic)
            partitions = {partition for partition in partitions if partition.topic != topic}
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            partitions.discard(Partition(topic, message.partition() or 0))
    return frozenset(found | {partition.topic for partition in partitions})
