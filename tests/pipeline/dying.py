"""A task that dies once behind its last commit, before the driver learns of it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.pipeline.task.task import SparkTask


@dataclass(frozen=True)
class DyingTask:
    """Takes the place of :class:`SparkTask`; the first one that has had records dies."""

    plan: TaskPlan

    def __reduce__(self) -> tuple[Callable[[TaskPlan], object], tuple[TaskPlan]]:
        """Pickled by its name."""
        return DyingTask, (self.plan,)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle and commit all records, and die."""
        seen = []

        def noted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                seen.append(len(batch))
                yield batch

        result = list(SparkTask(self.plan)(noted()))
        flag = Path(self.plan.config.base, "dies")
        if sum(seen) and flag.exists():
            flag.unlink(missing_ok=True)
            os._exit(1)
        yield from result
