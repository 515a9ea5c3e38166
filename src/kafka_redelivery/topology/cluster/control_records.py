"""The control records that ``redelivery topology apply`` writes."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.topology.cluster.changes import Changes
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.offset_check import has_expired
from kafka_redelivery.topology.cluster.plan import Role, TopologyPlan
from kafka_redelivery.topology.wire.control import (
    ControlRecord,
    first_offset_record,
    level_record,
    source_record,
    tier_record,
    withdrawn_former_record,
    withdrawn_records,
)
from kafka_redelivery.topology.wire.topic_mark import MARK_LEVEL

FEATURE_LEVEL = MARK_LEVEL
"""The highest feature level that this version supports."""


def control_records(
    plan: TopologyPlan, cluster: ClusterFacts, now_ms: int, *, raise_level: bool = False
) -> Iterator[ControlRecord]:
    """Yield what the control topic lacks.

    Args:
        plan: what the configuration needs.
        cluster: what the cluster had before first offsets were committed.
        now_ms: epoch ms.
        raise_level: whether all members of the group support the features of this version. They do in a new group.
    """
    new = not cluster.control.exists and not any(cluster.committed.values())
    if (raise_level or new) and cluster.control.level < FEATURE_LEVEL:
        yield level_record(FEATURE_LEVEL, now_ms)
    yield from _sources(plan, cluster, now_ms)
    for group in cluster.committed.values():
        for (topic, number), offset in group.items():
            if (topic, number) not in cluster.control.committed:
                yield first_offset_record(topic, number, offset, now_ms, cluster.topics[topic].mark)
    if not cluster.control.exists:
        yield from _expired(plan, cluster, now_ms)
    yield from _tiers(plan, cluster, now_ms)


def withdrawals(changes: Changes, cluster: ClusterFacts) -> Iterator[ControlRecord]:
    """Yield what withdraws what is known of older topics. Append it before topics are created.

    Of a partition that exists only that there was an older topic is withdrawn.
    """
    for change in changes.forget:
        topic, actual = change.topic, cluster.topics.get(change.topic)
        for number in change.partitions:
            if actual is None or number >= actual.partitions:
                yield from withdrawn_records(topic, number)
            else:
                yield withdrawn_former_record(topic, number)


def _sources(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    for name, source in plan.sources.items():
        if name not in cluster.control.sources:
            # A group that began before there was a control topic: a partition without an offset was added since then.
            begun = [n for topic, n in cluster.committed.get(plan.group, {}) if topic == name]
            yield source_record(name, max(begun, default=source.partitions - 1) + 1, now_ms, source.mark)


def _tiers(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    retired = cluster.control.retired
    for each in plan.topics:
        if each.role in {Role.RETRY, Role.MIXED} and retired.get(each.name, 0) is not None:
            yield tier_record(each.name, None, now_ms)
    for name in plan.retired_names(cluster.topics):
        if retired.get(name) is None:
            yield tier_record(name, now_ms, now_ms)


def _expired(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    """Yield first offsets of partitions whose committed offset may have expired before there was a control topic."""
    for topic, group in plan.readers(cluster.topics).items():
        facts = cluster.topics.get(topic)
        if facts is None:
            continue
        for number, bounds in facts.bounds.items():
            if cluster.offset(group, topic, number) is None and has_expired(facts, number, cluster.control):
                yield first_offset_record(topic, number, bounds.start, now_ms)
