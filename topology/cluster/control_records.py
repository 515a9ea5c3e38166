"""The control records that ``redelivery topology apply`` writes."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.plan import Role, TopologyPlan
from kafka_redelivery.topology.wire.control import ControlRecord, birth_record, source_record, tier_record


def control_records(plan: TopologyPlan, cluster: ClusterFacts, now_ms: int) -> Iterator[ControlRecord]:
    """Yield what the control topic lacks.

    Args:
        plan: what the configuration needs.
        cluster: what the cluster had before first offsets were committed.
        now_ms: epoch ms.
    """
    state = cluster.control
    for name, source in plan.sources.items():
        if name not in state.sources:
            # A group that began before there was a control topic: a partition without an offset was added since then.
            begun = [n for topic, n in cluster.committed.get(plan.group, {}) if topic == name]
            yield source_record(name, max(begun, default=source.partitions - 1) + 1, now_ms)
    for group in cluster.committed.values():
        for (topic, number), offset in group.items():
            if (topic, number) not in state.births:
                yield birth_record(topic, number, offset, now_ms)
    for each in plan.topics:
        if each.role in {Role.RETRY, Role.MIXED} and state.retired.get(each.name, 0) is not None:
            yield tier_record(each.name, None, now_ms)
    for name in plan.retired_names(cluster.topics):
        if state.retired.get(name) is None:
            yield tier_record(name, now_ms, now_ms)
