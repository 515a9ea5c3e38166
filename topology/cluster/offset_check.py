"""Checks of the groups' committed offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_redelivery.topology.cluster.facts import MAX_METADATA, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan
from kafka_redelivery.topology.faults import Severity, TopologyFault
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT

OFFSETS_TOPIC = "__consumer_offsets"
_MAX_LISTED = 8
_ACCEPT_LOSS = "redelivery topology apply --accept-loss (goes on at the log start)"


def commit_metadata(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault if the brokers refuse metadata that a commit may need."""
    if plan.out_of_order and cluster.max_metadata < METADATA_LIMIT:
        yield TopologyFault(
            Severity.REFUSE,
            OFFSETS_TOPIC,
            f"takes at most {cluster.max_metadata} bytes of metadata per commit ({MAX_METADATA})",
            f"progress out of order needs up to {METADATA_LIMIT}: a commit with more is refused again and again",
            f"set {MAX_METADATA}={METADATA_LIMIT} on the brokers, or handle records in order (handler.ordering: "
            "partition, no collision avoidance and no delays that a handler chooses)",
        )


def internal_offsets(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault for each internal topic with missing committed offsets, or with some outside the log."""
    for name, group in plan.readers(cluster.topics).items():
        actual = cluster.topics.get(name)
        if actual is None:
            continue
        missing, below, above = _faulty_partitions(group, actual, cluster)
        new = [partition for partition in missing if is_new(actual, partition, cluster.control)]
        missing = [partition for partition in missing if partition not in new]
        if new:
            yield TopologyFault(
                Severity.WARN,
                name,
                f"group {group} has no committed offset in {_partitions(new)}",
                "no record is lost: the group has read nothing there; the member that gets it starts at its log start",
                "start a process that reads the topic; without running members: redelivery topology apply",
            )
        if missing:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has no committed offset in {_partitions(missing)}",
                "a start at the log end would lose the records that wait there, one at the log start could repeat some",
                "run: redelivery topology apply (commits the log start: records are repeated rather than lost)",
            )
        if below:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has committed offsets below the log start in {_partitions(below)}",
                "they were deleted; whether records were deleted with them before they were processed is unknown",
                f"find out what deleted them; then run: {_ACCEPT_LOSS}",
            )
        if above:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has committed offsets beyond the log end in {_partitions(above)}",
                "the topic was recreated or truncated: its records are lost, and new ones would be skipped",
                f"accept the loss with: {_reset(group, name, above)}",
            )


def source_offsets(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault for each source with committed offsets outside the log; a missing offset is no fault."""
    for name in plan.sources:
        actual = cluster.topics.get(name, plan.sources[name])
        _, below, above = _faulty_partitions(plan.group, actual, cluster)
        if below:
            yield TopologyFault(
                Severity.WARN,
                name,
                f"group {plan.group} has committed offsets below the log start in {_partitions(below)}",
                "they were deleted; whether records were deleted with them before the group read them is unknown, so "
                "workers halt these partitions alone",
                f"run: {_ACCEPT_LOSS}; if records were lost, give the source a longer retention, or the group more "
                "workers",
            )
        if above:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {plan.group} has committed offsets beyond the log end in {_partitions(above)}",
                "the topic was recreated or truncated: new records up to that offset would be skipped",
                f"start again at the log start with: {_reset(plan.group, name, above)}",
            )


def is_new(actual: TopicFacts, partition: int, control: ControlState) -> bool:
    """Whether nothing is repeated if a partition without a committed offset is read from its log start."""
    bounds = actual.bounds.get(partition)
    return control.is_new(actual.name, partition) or (bounds is not None and bounds.start == bounds.end)


def _faulty_partitions(group: str, actual: TopicFacts, cluster: ClusterFacts) -> tuple[list[int], list[int], list[int]]:
    missing, below, above = [], [], []
    for partition in range(actual.partitions):
        offset = cluster.offset(group, actual.name, partition)
        bounds = actual.bounds.get(partition)
        if offset is None:
            missing.append(partition)
        elif bounds is not None and offset < bounds.start:
            below.append(partition)
        elif bounds is not None and offset > bounds.end:
            above.append(partition)
    return missing, below, above


def _partitions(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number) for number in numbers[:_MAX_LISTED])
    more = len(numbers) - _MAX_LISTED
    return f"partition{'s' if len(numbers) > 1 else ''} {listed}" + (f" and {more} more" if more > 0 else "")


def _reset(group: str, topic: str, partitions: Sequence[int]) -> str:
    listed = ",".join(str(partition) for partition in partitions)
    return f"kafka-consumer-groups.sh --group {group} --reset-offsets --topic {topic}:{listed} --to-earliest --execute"
