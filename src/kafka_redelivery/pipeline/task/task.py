"""The task that runs on an executor: it handles the records of some partitions and writes the outcomes to Kafka.

Every write of a task is a transaction of outputs, retry records, dead letters, journal entries and the committed
offsets. A task that runs again reads the committed offsets first and continues from there.
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
from kafka_redelivery.pipeline.task.runner import Runner, runner_for
from kafka_redelivery.pipeline.task.search_path import load_task
from kafka_redelivery.pipeline.task.task_run import SupersededError, TaskRun
from kafka_redelivery.transport.errors import MembershipOutdatedError, TransportError, WriterFencedError

RESULT = "summary binary"
"""The Spark schema of what a task returns: a pickled :class:`TaskResult`."""


@dataclass(frozen=True, slots=True)
class Task:
    """The function that Spark applies to the Arrow batches of its task."""

    plan: TaskPlan

    def __reduce__(self) -> tuple[Callable[[str, bytes], object], tuple[str, bytes]]:
        """See :func:`load_task`."""
        return load_task, (__name__, pickle.dumps(self.plan))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle all records and return one row."""
        from pyspark import TaskContext  # noqa: PLC0415 - only Python workers have one

        plan = self.plan
        log_to_stderr(plan.config.log_level, plan.config.log_format)
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark calls this in a task
        result = run_task(runner_for(plan), plan, context.partitionId(), batches)
        yield pa.RecordBatch.from_arrays([pa.array([result.to_bytes()], pa.binary())], ["summary"])


def run_task(runner: Runner, plan: TaskPlan, number: int, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """Handle the records of a task and return what became of them.

    Args:
        runner: the runner of this process.
        plan: the plan of the micro-batch.
        number: the number of the task in its micro-batch.
        batches: the records, in order within each partition.
    """
    run: TaskRun | None = None
    status, cause = TaskStatus.DONE, ""
    try:
        for batch in batches:
            parts = list(by_partition(batch))
            if parts:
                run = run or TaskRun(runner, plan, number)
                run.add(parts)
        if run is not None:
            run.finish()
    except (HaltedError, MembershipOutdatedError, SupersededError, WriterFencedError) as error:
        status, cause = _status(error), str(error)
    finally:
        if run is not None:
            run.abandon()  # does nothing if the task has finished its writes
    if run is None:
        return TaskResult(None, status, cause, runner.name)
    return TaskResult(number, status, cause, runner.name, run.writes, run.aborted)


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
