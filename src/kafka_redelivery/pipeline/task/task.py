"""The task that runs on an executor: it handles the records of some partitions and writes the outcomes to Kafka.

Every write of a task is a transaction of outputs, retry records, dead letters, journal entries and the committed
offsets. A task that runs again reads the committed offsets first and continues from there.

Loads a task in a Python worker, where Spark puts the files of a job in front of the standard library.

This module imports only what Python and PySpark have imported before: a user's ``grp.py`` must not be found instead.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import pyarrow as pa

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.telemetry.logs import log_to_stderr
from kafka_redelivery.pipeline.handler.rows import by_partition
from kafka_redelivery.pipeline.task.contract import TaskPlan, TaskResult, TaskStatus
from kafka_redelivery.pipeline.task.runner import Runner, runner_for
from kafka_redelivery.pipeline.task.task_run import TaskRun
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    TransportError,
    WriteAbortedError,
    WriterFencedError,
)


def load_task(home: str, plan: bytes) -> object:
    """Return the task with a pickled plan, after the standard library has its place in the search path again.

    Args:
        home: the module of ``SparkTask``, which imports modules that could be hidden before.
        plan: the pickled plan.
    """
    from pyspark import SparkFiles  # noqa: PLC0415 - only Python workers need it

    standard_library_first(SparkFiles.getRootDirectory())
    task: Callable[[object], object] = import_module(home).SparkTask
    return task(pickle.loads(plan))  # noqa: S301 - from our own driver


def standard_library_first(root: str) -> None:
    """Move the folder of a job's files, and the archives in it, behind the standard library in ``sys.path``."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - as in sys.path
    shipped = [path for path in sys.path if path == root or path.startswith(root + os.sep)]
    others = [path for path in sys.path if path not in shipped]
    at = [number for number, path in enumerate(others, 1) if path in {library, os.path.join(library, "lib-dynload")}]  # noqa: PTH118
    if at:
        sys.path[:] = [*others[: at[-1]], *shipped, *others[at[-1] :]]


RESULT = "summary binary"
"""The Spark schema of what a task returns: a pickled :class:`TaskResult`."""


@dataclass(frozen=True, slots=True)
class SparkTask:
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
    except (HaltedError, WriteAbortedError, WriterFencedError) as error:
        status, cause = _status(error), str(error)
    finally:
        if run is not None:
            run.abandon()  # does nothing if the task has finished its writes
    if run is None:
        return TaskResult(None, status, cause, runner.name)
    return TaskResult(number, status, cause, runner.name, run.report.writes, run.report.aborted, run.report.outages)


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
