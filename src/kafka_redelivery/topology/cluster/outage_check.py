"""Whether sources keep their records for as long as a dependency of their handlers may be away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_redelivery.topology.cluster.facts import CLEANUP, RETENTION_BYTES, RETENTION_MS, ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan
from kafka_redelivery.topology.durations import format_milliseconds
from kafka_redelivery.topology.faults import TopologyFault, warning


class LongestOutage(NamedTuple):
    """The longest outage that the records of a source outlive, if none of them waits before."""

    dependency: str
    ms: int
    retention_ms: int

    @property
    def age_ms(self) -> int:
        """How old a record may be when the outage begins."""
        return self.retention_ms - self.ms


def longest_outages(plan: TopologyPlan) -> dict[str, LongestOutage]:
    """Return it of each source that deletes records by age, and whose dependencies all have a ``maxOutage`` below."""
    found = {}
    for name, limits in plan.outages.items():
        retention_ms = _retention_ms(plan.sources.get(name))
        known = {dependency: ms for dependency, ms in limits.items() if ms is not None}
        if known and known.keys() == limits.keys() and max(known.values()) < retention_ms:
            dependency = max(known, key=known.__getitem__)
            found[name] = LongestOutage(dependency, known[dependency], retention_ms)
    return found


def outages(plan: TopologyPlan, cluster: ClusterFacts) -> Iterator[TopologyFault]:
    """Yield the sources that delete records which wait for a dependency."""
    longest = longest_outages(plan)
    for name, limits in plan.outages.items():
        facts = plan.sources.get(name)
        retention_ms = _retention_ms(facts)
        if facts is not None and (size := _limit(facts, RETENTION_BYTES)) >= 0:
            yield warning(
                name,
                f"keeps {size:,} bytes of a partition ({RETENTION_BYTES}), and its records may wait for "
                f"{', '.join(limits)}",
                "what comes in during an outage deletes the records that wait",
                f"compare it with what comes in during maxOutage, or remove {RETENTION_BYTES} with kafka-configs.sh",
            )
        for dependency, ms in limits.items():
            if ms is None and retention_ms >= 0:
                yield _too_short(name, dependency, f"has no maxOutage, and {name} keeps records for", retention_ms)
            elif ms is not None and 0 <= retention_ms <= ms:
                longer = f"may last for {format_milliseconds(ms)} (maxOutage), and {name} keeps records for"
                yield _too_short(name, dependency, longer, retention_ms)
        if (old := cluster.behind.get(name, 0)) and name in longest:
            dependency, ms, _ = longest[name]
            age = format_milliseconds(longest[name].age_ms)
            yield warning(
                name,
                f"up to {old:,} records that are not finished are older than {age}, which is its retention "
                f"({format_milliseconds(retention_ms)}) less the maxOutage of {dependency} ({format_milliseconds(ms)})",
                f"they are deleted before they are handled if {dependency} is away for so long now",
                f"wait until the group has caught up, raise {RETENTION_MS}, or lower maxOutage",
            )


def _too_short(name: str, dependency: str, problem: str, retention_ms: int) -> TopologyFault:
    return warning(
        name,
        f"the outage of {dependency} {problem} {format_milliseconds(retention_ms)} ({RETENTION_MS})",
        "records that wait for longer are deleted before they are handled",
        f"set dependencies.{dependency}.maxOutage below that, or raise {RETENTION_MS} with kafka-configs.sh",
    )


def _retention_ms(facts: TopicFacts | None) -> int:
    """Return after how long a topic deletes its records; -1 = never, or it is unknown."""
    return -1 if facts is None else _limit(facts, RETENTION_MS)


def _limit(facts: TopicFacts, config: str) -> int:
    return -1 if facts.config(CLEANUP) == "compact" else int(facts.config(config) or -1)
