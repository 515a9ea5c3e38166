"""What runs on an executor: the records of one partition through the handler, and what became of them into Kafka.

Every write of a task is a transaction: outputs, retry copies, dead letters, journal and the offset that says how far
it is. A task that is run again, for whatever reason, reads that offset first and goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from consumers.errors import HaltedError
from consumers.logs import log_to_stderr
from pipeline.partition import PartitionRun, SupersededError
from pipeline.rows import by_place
from pipeline.runner import Runner, the_runner
from pipeline.summary import Ended, Summary
from pipeline.task_plan import TaskPlan
from transport.errors import MembershipOutdatedError, TransportError, WriterFencedError
from transport.protocols import Partition

RESULT = "summary binary"
"""What a task gives back, as Spark writes a schema."""


@dataclass(frozen=True, slots=True)
class Task:
    """The function that Spark runs over the batches of a partition."""

    plan: TaskPlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle all records; one row for each partition that was among them."""
        plan = self.plan
        log_to_stderr(plan.setup.log_level, plan.setup.log_format)
        rows = [summary.packed() for summary in _summaries(the_runner(plan), plan, batches)]
        yield pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], ["summary"])


def _summaries(runner: Runner, plan: TaskPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[Summary]:
    run: PartitionRun | None = None
    place: Partition | None = None
    ended, cause = Ended.DONE, ""
    try:
        for batch in batches:
            for rows in by_place(batch):
                if run is None or rows.place != place:
                    if run is not None:
                        run.finish()
                        yield Summary(place, ended, cause, runner.name, run.writes, run.undone)
                    place = rows.place
                    run = PartitionRun(runner, plan, place, first=rows[0].offset())
                run.add(rows)
        if run is not None:
            run.finish()
    except (HaltedError, MembershipOutdatedError, SupersededError, WriterFencedError) as error:
        ended, cause = _ended(error), str(error)
    finally:
        if run is not None:
            run.abandon()  # of a task that has come to its end there is none
    told = ((), ()) if run is None else (run.writes, run.undone)
    yield Summary(place, ended, cause, runner.name, *told)


def _ended(error: HaltedError | TransportError) -> Ended:
    match error:
        case HaltedError():
            return Ended.HALTED
        case MembershipOutdatedError():
            return Ended.OUTDATED
        case WriterFencedError(as_member=True):
            return Ended.REPLACED
        case _:
            return Ended.SUPERSEDED
