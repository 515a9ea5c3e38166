"""A topology plan, its changes and its faults as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.cli.views.acls import strimzi_resource
from kafka_redelivery.topology.cluster.changes import (
    AlterConfig,
    Changes,
    CommitFirst,
    CreateTopic,
    ForgetTopic,
    GrowTopic,
    MoveToLogStart,
    topic_rows,
    whole,
)
from kafka_redelivery.topology.cluster.facts import ClusterFacts, TopicFacts
from kafka_redelivery.topology.cluster.plan import PlannedTopic, TopologyPlan, suffices
from kafka_redelivery.topology.faults import Severity, TopologyFault

_KUBERNETES_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
"""Source: RFC 1123, as Kubernetes reads it: each part between dots begins and ends with a letter or digit."""

_NOT_IN_KUBERNETES: Final = re.compile(r"[^a-z0-9]+")
_READABLE: Final = 240
"""With what follows, a name is not longer than Kubernetes allows: 253 characters."""

_STYLES = {"+": "green", "~": "yellow", "=": "dim", "!": "magenta"}


def print_plan(console: Console, plan: TopologyPlan, cluster: ClusterFacts, todo: Changes) -> None:
    """Print each topic with its change, then the first offsets, then the totals."""
    table = _table()
    signs = dict.fromkeys(("+", "~", "=", "!"), 0)
    for row in topic_rows(plan, cluster, todo):
        signs[row.sign] += 1
        table.add_row(*row, style=_STYLES[row.sign])
    for line in offset_lines(todo.commit):
        table.add_row("+", *line, style=_STYLES["+"])
    if table.row_count:
        print_table(console, table)
    if not plan.topics:
        return
    offsets = f", {len(todo.commit)} first offsets to commit" if todo.commit else ""
    console.print(f"{signs['+']} to create, {signs['~']} to change, {signs['=']} in order{offsets}")


def print_offline(console: Console, plan: TopologyPlan) -> None:
    """Print each topic as it would be created."""
    table = _table()
    for topic in plan.topics:
        table.add_row("+", topic.name, str(topic.role), whole(topic), style=_STYLES["+"])
    for topic in plan.topics:
        if topic.reader is not None:
            partitions = _ranges(range(topic.partitions))
            table.add_row("+", topic.name, "offset", f"group {topic.reader}, partitions {partitions}: 0", style="green")
    print_table(console, table)
    console.print(f"{len(plan.topics)} topics; not compared with a cluster")


def strimzi_topics(plan: TopologyPlan, existing: Mapping[str, TopicFacts]) -> list[dict[str, Any]]:
    """Return a resource ``KafkaTopic`` for each topic. The name of its cluster is to be corrected.

    Strimzi makes a topic as its resource is, and deletes it with its resource. So a topic that exists keeps what it has
    where that is safe and what was set for other reasons, and one that is not configured any more is among them.
    """
    return [
        strimzi_resource("KafkaTopic", *_strimzi_topic(topic, existing.get(topic.name)))
        for topic in (*plan.topics, *plan.retired(existing))
    ]


def _strimzi_topic(topic: PlannedTopic, actual: TopicFacts | None) -> tuple[str, dict[str, Any]]:
    configs = {} if actual is None else {name: actual.config(name) for name in topic.configs}
    kept = {name: value for name, value in configs.items() if suffices(name, value, topic.configs[name])}
    # Strimzi deletes what a resource does not name.
    own = {} if actual is None else {name: actual.configs[name] for name in sorted(actual.own & actual.configs.keys())}
    spec = {
        "partitions": topic.partitions if actual is None else max(topic.partitions, actual.partitions),
        "replicas": topic.replication_factor if actual is None else actual.replication_factor,
        "config": {**own, **topic.configs, **kept},
    }
    if _KUBERNETES_NAME.fullmatch(topic.name):
        return topic.name, spec
    # Two topics can differ in what a name in Kubernetes may not have.
    readable = _NOT_IN_KUBERNETES.sub("-", topic.name.lower()).strip("-")[:_READABLE]
    return f"{readable}-{sha256(topic.name.encode()).hexdigest()[:8]}".strip("-"), {"topicName": topic.name, **spec}


def change_line(change: CreateTopic | GrowTopic | AlterConfig | MoveToLogStart | ForgetTopic, *, done: bool) -> str:
    """Return a line about a change that was made or would be; :func:`offset_lines` returns those of first offsets."""
    would = "" if done else "would change "
    match change:
        case CreateTopic(topic):
            return f"+ {topic.name}: {'created' if done else 'would create'}, {whole(topic)}"
        case GrowTopic():
            return f"~ {change.topic}: {would}partitions {change.before} -> {change.partitions}"
        case AlterConfig():
            return f"~ {change.topic}: {would}{change.config} {change.before} -> {change.after}"
        case ForgetTopic():
            what = f"partitions {_ranges(change.partitions)} of an older topic of this name"
            return f"~ {change.topic}: {'forgot' if done else 'would forget'} {what}"
        case MoveToLogStart():
            what = f"offset of {change.group} in partition {change.partition}:"
            before = "expired" if change.before is None else change.before
            return f"~ {change.topic}: {would}{what} {before} -> {change.offset}, the log start"


def offset_lines(firsts: Sequence[CommitFirst]) -> list[tuple[str, str, str]]:
    """Return a row per topic with first offsets: topic, kind, and the first offset of each partition."""
    lines = []
    for group, topic in dict.fromkeys((first.group, first.topic) for first in firsts):
        mine = [first for first in firsts if (first.group, first.topic) == (group, topic)]
        parts = [
            f"{_ranges(first.partition for first in mine if first.offset == offset)}: {offset}"
            for offset in sorted({first.offset for first in mine})
        ]
        lines.append((topic, "offset", f"group {group}, partitions {', '.join(parts)}"))
    return lines


def print_faults(console: Console, faults: Iterable[TopologyFault]) -> None:
    """Print each fault: what is wrong, what would be lost, and the fix."""
    for fault in faults:
        refuse = fault.severity is Severity.REFUSE
        head = Text(f"{fault.severity}: ", style="bold red" if refuse else "yellow")
        head.append(f"{fault.topic}: {fault.problem}", style="default")
        console.print(head, soft_wrap=True)
        console.print(f"  loss: {fault.loss}", markup=False, soft_wrap=True)
        console.print(f"  fix: {fault.fix}", markup=False, soft_wrap=True)


def _table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(width=1)
    table.add_column(overflow="fold")
    table.add_column()
    table.add_column(overflow="fold")
    return table


def _ranges(numbers: Iterable[int]) -> str:
    """``0-3, 5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(str(each) for each in run) for run in runs)
