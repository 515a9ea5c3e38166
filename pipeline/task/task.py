"""The task that runs on an executor: it handles the records of one partition and writes the outcomes to Kafka.

Every write of a task is a transaction of outputs, retry records, dead letters, journal entries and the committed
offset. A task that runs again reads the committed offset first and continues from there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.telemetry.logs import log_to_stderr
from kafka_redelivery.pipeline.handler.rows import by_partition
from kafka_redelivery.pipeline.task.contract import TaskPlan, TaskResult, TaskStatus
from kafka_redelivery.pipeline.task.partition import PartitionRun, SupersededError
from kafka_redelivery.pipeline.task.runner import Runner, runner_for
from kafka_redelivery.pipeline.task.search_path import load_task
from kafka_redelivery.transport.errors import MembershipOutdatedError, TransportError, WriterFencedError
from kafka_redelivery.transport.protocols import Partition

RESULT = "summary binary"
"""The Spark schema of what a task returns: a pickled :class:`TaskResult`."""


@dataclass(frozen=True, slots=True)
class Task:
    """The function that Spark applies to the Arrow batches of a partition."""

    plan: TaskPlan

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        """See :func:`load_task`."""
        return load_task, (pickle.dumps(self.plan),)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle all records and return one row for each partition among them."""
        plan = self.plan
        log_to_stderr(plan.config.log_level, plan.config.log_format)
        rows = [result.to_bytes() for result in _results(runner_for(plan), plan, batches)]
        yield pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], ["summary"])


def _results(runner: Runner, plan: TaskPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[TaskResult]:
    run: PartitionRun | None = None
    partition: Partition | None = None
    status, cause = TaskStatus.DONE, ""
    try:
        for batch in batches:
            for rows in by_partition(batch):
                if run is None or rows.partition != partition:
                    if run is not None:
                        run.finish()
                        yield TaskResult(partition, status, cause, runner.name, run.writes, run.aborted)
                    partition = rows.partition
                    run = PartitionRun(runner, plan, partition, first=rows[0].offset())
                run.add(rows)
        if run is not None:
            run.finish()
    except (HaltedError, MembershipOutdatedError, SupersededError, WriterFencedError) as error:
        status, cause = _status(error), str(error)
    finally:
        if run is not None:
            run.abandon()  # does nothing if the task has finished its writes
    written = ((), ()) if run is None else (run.writes, run.aborted)
    yield TaskResult(partition, status, cause, runner.name, *written)


def _status(error: HaltedError | TransportError) -> TaskStatus:
    match error:
        case HaltedError():
            return TaskStatus.HALTED
        case MembershipOutdatedError():
            return TaskStatus.OUTDATED
        case WriterFencedError(as_member=True):
            return TaskStatus.REPLACED
        case _:
            return TaskStatus.SUPERSEDED
