"""Deletes committed records that are older than the audit horizon from internal topics.

Internal topics have unlimited retention, because retention cannot know which records are still pending. This module
deletes finished records with DeleteRecords, up to the lower of two offsets: the committed offset of the group that
reads the topic, and the offset of the first record younger than the horizon. No group reads the journal, so only the
horizon counts there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

from confluent_kafka.admin import OffsetSpec

from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.plan import Role, plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.admin.partition_offsets import RecordDeleter, readable_offsets
from kafka_redelivery.transport.client_config import admin_config
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_TIMEOUT_S = 30.0


def trim(settings: Settings, now_ms: int, names: Collection[str] | None = None) -> dict[Partition, int]:
    """Trim every internal topic of the group once. A partition that fails does not affect the others.

    Args:
        settings: the configuration; ``topics.auditHorizon`` is how long finished records are kept.
        now_ms: epoch ms.
        names: the topics of the group that may exist, configured or not; ``None``: all topics of the cluster are
            listed, to find those that are not configured any more.

    Returns:
        the new log start offset of each partition that was trimmed. A source is never among them.

    Raises:
        TransportError: the cluster does not answer; or some partitions cannot be trimmed, and all others are. One
            without a leader is only logged.
    """
    calls = AdminCalls(admin_config(settings.kafka), timeout_s=_TIMEOUT_S)
    admin = ClusterAdmin(settings.kafka, calls=calls)
    planned = plan(settings, admin.describe([source.topic for source in settings.sources], {}).topics)
    sources = {source.topic for source in settings.sources}
    journals = {topic.name for topic in planned.topics if topic.role is Role.JOURNAL}
    readers = planned.readers(admin.topic_names() if names is None else names)
    groups: dict[str, tuple[str, ...]] = {
        topic: (group,) for topic, group in readers.items() if topic not in sources | journals
    }
    groups |= dict.fromkeys(journals, ())
    cluster = admin.describe(groups, groups, skip_leaderless=True)
    if leaderless := cluster.leaderless():
        _log.warning("not trimmed until they have a leader: %s", ", ".join(leaderless))
    limits = _limits(cluster, groups)
    horizon_ms = now_ms - settings.topics.audit_horizon // timedelta(milliseconds=1)
    young, failed = readable_offsets(calls, limits, OffsetSpec.for_timestamp(horizon_ms))
    new_starts = {}
    for partition, first_young in young.items():
        end = limits[partition] if first_young < 0 else min(limits[partition], first_young)  # -1: all are older
        if end > cluster.topics[partition.topic].bounds[partition.number].start:
            new_starts[partition] = end
    if new_starts:
        failed |= RecordDeleter(settings.kafka, calls=calls).delete_before(new_starts)
    problems = [
        f"{topic}, {count} partition{'s' if count > 1 else ''}: {reason}"
        for (topic, reason), count in sorted(Counter((each.topic, why) for each, why in failed.items()).items())
    ]
    unseen = {*journals, *planned.readers(())} - sources - cluster.topics.keys()
    if unseen:
        topics = ", ".join(sorted(unseen))
        problems.append(f"{topics} do not exist, or may not be described{grant(f'Delete on topics {topics}')}")
    if problems:
        raise AdminError("delete finished records", "; ".join(problems))
    return new_starts


def _limits(cluster: ClusterFacts, groups: Mapping[str, tuple[str, ...]]) -> dict[Partition, int]:
    """Return the offset below which each of its readers has finished each partition, as far as that is known."""
    limits = {}
    for name, topic in cluster.topics.items():
        for number, bounds in topic.bounds.items():
            finished = [cluster.offset(group, name, number) for group in groups[name]]
            known = [offset for offset in finished if offset is not None]
            if len(known) == len(finished):
                limits[Partition(name, number)] = min([bounds.end, *known])
    return limits
