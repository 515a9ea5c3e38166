"""What the driver gives to every task of a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.setup import Setup
from transport.protocols import Partition


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Pickled with the task."""

    query: str
    """Names the run of the driver: what a Python worker keeps from one task to the next is for one run only."""

    setup: Setup
    member: object
    """The driver's membership of the group: commits with an outdated one are refused."""

    partitions: Mapping[str, int]
    """Of every topic."""

    runners: Mapping[Partition, str]
    """Which Python worker had each partition last."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.setup.settings.group
