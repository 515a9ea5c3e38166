"""Checks of the groups' committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kafka_redelivery.topology.cluster.facts import MAX_METADATA, OFFSETS_TOPIC, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan
from kafka_redelivery.topology.faults import Severity, TopologyFault, refusal, warning
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT

_MAX_LISTED = 8
_ACCEPT_LOSS = "redelivery topology apply --accept-loss (goes on at the log start)"
_ACCEPT_REPEATS = "redelivery topology apply --accept-repeats (goes on at the log start)"


def commit_metadata(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault if the brokers refuse metadata that a commit may need."""
    if plan.out_of_order and cluster.max_metadata < METADATA_LIMIT:
        yield refusal(
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
        expired = [partition for partition in missing if has_expired(actual, partition, cluster.control)]
        new = [partition for partition in missing if partition not in expired]
        if new:
            yield warning(
                name,
                f"group {group} has no committed offset in {listed_partitions(new)}",
                "no record is lost: the group has read nothing there; the member that gets it starts at its log start",
                "start a process that reads the topic; without running members: redelivery topology apply",
            )
        yield from _expired(group, actual, expired, cluster)
        if below:
            yield refusal(
                name,
                f"group {group} has committed offsets below the log start in {listed_partitions(below)}",
                "they were deleted; whether records were deleted with them before they were processed is unknown",
                f"find out what deleted them; then run: {_ACCEPT_LOSS}",
            )
        if above:
            yield refusal(
                name,
                f"group {group} has committed offsets beyond the log end in {listed_partitions(above)}",
                "the topic was recreated or truncated: its records are lost, and new ones would be skipped",
                f"stop the group, and accept the loss with: {_reset(group, name, above)}",
            )


def source_offsets(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault for each source with committed offsets outside the log; a missing offset is no fault."""
    for name in plan.sources:
        actual = cluster.topics.get(name, plan.sources[name])
        missing, below, above = _faulty_partitions(plan.group, actual, cluster)
        expired = [each for each in missing if has_expired(actual, each, cluster.control, source=True)]
        yield from _expired(plan.group, actual, expired, cluster)
        if below:
            yield warning(
                name,
                f"group {plan.group} has committed offsets below the log start in {listed_partitions(below)}",
                "they were deleted; whether records were deleted with them before the group read them is unknown, so "
                "workers halt these partitions alone",
                f"run: {_ACCEPT_LOSS}; if records were lost, give the source a longer retention, or the group more "
                "workers",
            )
        if above:
            yield refusal(
                name,
                f"group {plan.group} has committed offsets beyond the log end in {listed_partitions(above)}",
                "the topic was recreated or truncated: new records up to that offset would be skipped",
                f"stop the group, and start again at the log start with: {_reset(plan.group, name, above)}",
            )


def created_again(control: ControlState, topics: Collection[str]) -> Iterator[TopologyFault]:
    """Yield a fault for each topic of which the group has read an older one of the same name."""
    for topic in sorted({name for name, _ in control.former} & set(topics)):
        older = {number: offset for (name, number), offset in sorted(control.former.items()) if name == topic}
        unread = [number for number in older if (topic, number) not in control.committed]
        yield warning(
            topic,
            f"was deleted and created again; of the older topic the group had read {listed_partitions([*older])}, to "
            f"offset {', '.join(map(str, [*older.values()][:_MAX_LISTED]))}",
            "records of the older topic that were not handled are gone with it; the new one is read from its start",
            "start a process that reads the topic" if unread else "redelivery topology apply ends this message",
        )


def has_expired(actual: TopicFacts, partition: int, control: ControlState, *, source: bool = False) -> bool:
    """Whether records may be repeated if a partition without a committed offset is read from its log start.

    Args:
        actual: the topic.
        partition: the partition without a committed offset.
        control: what the group knows. Without a control topic, a tier or ready topic is taken to have had an offset.
        source: whether the topic is a source, which has no offset before the group begins.
    """
    known = (actual.name, partition)
    if control.is_new(*known) or known in control.saved or (source and not control.exists):
        return False
    bounds = actual.bounds.get(partition)
    return bounds is None or bounds.start < bounds.end


def listed_partitions(numbers: Sequence[int]) -> str:
    """Return the numbers of partitions for a message, the first few of many."""
    listed = ", ".join(str(number) for number in numbers[:_MAX_LISTED])
    more = len(numbers) - _MAX_LISTED
    return f"partition{'s' if len(numbers) > 1 else ''} {listed}" + (f" and {more} more" if more > 0 else "")


def _expired(group: str, actual: TopicFacts, expired: Sequence[int], cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield a fault for partitions whose offset has expired. A process halts them alone if it can know of it."""
    if not expired:
        return
    problem = f"group {group} has no committed offset in {listed_partitions(expired)}"
    if cluster.control_forbidden:  # to accept repeats could be wrong: the topic may have a saved position
        yield warning(
            actual.name,
            problem,
            "where they start is in the control topic, which may not be read, so these partitions alone are halted",
            "grant the right Read on the control topic (`redelivery topology acls` prints the command), or remove the "
            "rule that denies it",
        )
        return
    records = sum(bounds.end - bounds.start for number, bounds in actual.bounds.items() if number in expired)
    halted = ", so these partitions alone are halted" if cluster.control.exists else ""
    yield TopologyFault(
        Severity.WARN if cluster.control.exists else Severity.REFUSE,
        actual.name,
        problem,
        f"it has expired or was deleted: a start at the log end would lose records, one at the log start repeats up to "
        f"{records}{halted}",
        f"run: {_ACCEPT_REPEATS}",
    )


def _faulty_partitions(group: str, actual: TopicFacts, cluster: ClusterFacts) -> tuple[list[int], list[int], list[int]]:
    missing, below, above = [], [], []
    for partition in range(actual.partitions):
        offset = cluster.offset(group, actual.name, partition)
        bounds = actual.bounds.get(partition)
        if offset is None:
            if (actual.name, partition) not in cluster.control.saved:  # else its next owner commits that position
                missing.append(partition)
        elif bounds is not None and offset < bounds.start:
            below.append(partition)
        elif bounds is not None and offset > bounds.end:
            above.append(partition)
    return missing, below, above


def _reset(group: str, topic: str, partitions: Sequence[int]) -> str:
    listed = ",".join(str(partition) for partition in partitions)
    return (
        f"kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {group} --reset-offsets "
        f"--topic {topic}:{listed} --to-earliest --execute"
    )
