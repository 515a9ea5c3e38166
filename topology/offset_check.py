"""Whether every group of ours knows where to go on reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology.facts import ClusterFacts, TopicFacts
from topology.plan import TopologyPlan
from topology.topology_fault import Severity, TopologyFault

_MOST_NAMED = 8


def internal_offsets(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Partitions of our own topics whose committed offset is missing or points at nothing."""
    for name, group in plan.readers(cluster.topics).items():
        actual = cluster.topics.get(name)
        if actual is None:
            continue
        missing, below, above = _sorted_out(group, actual, cluster)
        if missing:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has no committed offset in {_partitions(missing)}",
                "starting at the end would lose what waits there, starting at the beginning could repeat it",
                "run: redelivery topology apply (commits the beginning of the log: repeated rather than lost)",
            )
        if below:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has committed offsets below the log's start in {_partitions(below)}",
                "records were deleted before they were processed",
                f"find out what deleted them; then, accepting the loss: {_reset(group, name, below)}",
            )
        if above:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {group} has committed offsets beyond the log's end in {_partitions(above)}",
                "the topic was made anew or cut off: what waited there is gone, and new records would be skipped",
                f"accept that with: {_reset(group, name, above)}",
            )


def source_offsets(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Partitions of the sources in which the group's offset points at nothing; having none is no fault."""
    for name in plan.sources:
        actual = cluster.topics.get(name, plan.sources[name])
        _, below, above = _sorted_out(plan.group, actual, cluster)
        if below:
            yield TopologyFault(
                Severity.WARN,
                name,
                f"group {plan.group} has committed offsets below the log's start in {_partitions(below)}",
                "the source's own retention deleted records before the group read them",
                "give the source a longer retention, or the group more workers",
            )
        if above:
            yield TopologyFault(
                Severity.REFUSE,
                name,
                f"group {plan.group} has committed offsets beyond the log's end in {_partitions(above)}",
                "the topic was made anew or cut off: new records up to that offset would be skipped",
                f"start again at its beginning with: {_reset(plan.group, name, above)}",
            )


def _sorted_out(group: str, actual: TopicFacts, cluster: ClusterFacts) -> tuple[list[int], list[int], list[int]]:
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
    named = ", ".join(str(number) for number in numbers[:_MOST_NAMED])
    more = len(numbers) - _MOST_NAMED
    return f"partition{'s' if len(numbers) > 1 else ''} {named}" + (f" and {more} more" if more > 0 else "")


def _reset(group: str, topic: str, partitions: Sequence[int]) -> str:
    listed = ",".join(str(partition) for partition in partitions)
    return f"kafka-consumer-groups.sh --group {group} --reset-offsets --topic {topic}:{listed} --to-earliest --execute"
