"""What the driver sends to a task, and what the task returns."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from kafka_redelivery.consumers.telemetry.observers import Committed
from kafka_redelivery.pipeline.handler.child import FIRST_ATTEMPT, Attempt, HandlerConfig
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.transport.protocols import Partition


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Sent to every task of a micro-batch."""

    query: str
    """Identifies the run of the driver: a Python worker reuses its handler process and producers within one run."""

    config: HandlerConfig
    member: object
    """The driver's membership of the group. Kafka refuses commits with an outdated one."""

    partitions: Mapping[str, int]
    """The number of partitions of every topic."""

    runners: Mapping[int, str]
    """The Python worker that last had the transactional id of each task, by the number of the task."""

    marks: Mapping[str, str] = field(default_factory=dict)
    """The mark of each topic that the query reads, as the driver has seen it; empty if it is unknown."""

    named_in_commits: bool = False
    """Whether commits name their topic, because all members of the group can read that."""

    attempt: Attempt = FIRST_ATTEMPT
    running: frozenset[str] = frozenset()
    """The queries of the driver's process that have not ended."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.config.settings.group


class TaskStatus(StrEnum):
    """How a task ended. Any other error fails the task."""

    DONE = "done"
    HALTED = "halted"
    """A decision halted a partition, or the broker refused a record that must not be lost."""

    REPLACED = "replaced"
    """Another driver has joined the group with this driver's name and fenced it."""

    OUTDATED = "outdated"
    """The group has rebalanced. The micro-batch runs again with the current membership."""

    SUPERSEDED = "superseded"
    """Another task has these partitions. The micro-batch runs again."""


class Met(NamedTuple):
    """A record that found something away that its source has declared."""

    partition: Partition
    offset: int
    failure: Failure


@dataclass(slots=True)
class TaskOutages:
    """What a task has seen of the dependencies of its sources."""

    met: list[Met] = field(default_factory=list)
    waiting: Counter[str] = field(default_factory=Counter)
    """How many records have no outcome because it is away, by dependency."""

    handled: set[str] = field(default_factory=set)
    """The sources of which a record was handled without a failure."""

    failed: dict[str, Failure] = field(default_factory=dict)
    """The dependencies that were found away by records that have failed all the same, each with the last of them."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task did."""

    number: int | None
    """The number of the task in its micro-batch; ``None`` = it had no record."""

    status: TaskStatus
    cause: str
    runner: str
    """The Python worker that ran the task and still holds its producer."""

    writes: Sequence[Committed] = field(default=())
    aborted: Sequence[str] = ()
    """The cause of each transaction that was aborted and repeated."""

    outages: TaskOutages = field(default_factory=TaskOutages)

    def to_bytes(self) -> bytes:
        """Serialise for a row of Spark."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_bytes(cls, row: bytes) -> TaskResult:
        """Deserialise what :meth:`to_bytes` wrote."""
        found: TaskResult = pickle.loads(row)  # noqa: S301 - written by our own task
        return found


def merge_writes(writes: Iterable[Committed]) -> Committed:
    """Add up several writes: times and counts are added, lists are joined."""
    merged: dict[str, Any] = {
        "seconds": 0.0,
        "outcomes": Counter(),
        "redeliveries": Counter(),
        "dead_letters": Counter(),
    }
    for write in writes:
        for each in fields(write):
            value = getattr(write, each.name)
            if isinstance(value, Mapping):
                merged.setdefault(each.name, Counter()).update(value)
            elif isinstance(value, Sequence):
                merged.setdefault(each.name, []).extend(value)
            else:
                merged[each.name] += value
    return Committed(**merged)
