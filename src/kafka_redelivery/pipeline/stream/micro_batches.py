"""Runs micro-batches: a few tasks for each core, repeated until all tasks are done.

A task covers several partitions if there are more partitions than tasks. No other task of its micro-batch has them, but
one of the next micro-batch may, under another transactional id. So the tasks of a micro-batch must have ended, or lost
the right to commit, before the next one begins: if a micro-batch does not end well, the membership is renewed.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.telemetry.observers import QueryObserver
from kafka_redelivery.consumers.writes.engine import GIVE_UP_AFTER_S, AbortDeadline
from kafka_redelivery.pipeline.errors import StreamHaltedError, first_line
from kafka_redelivery.pipeline.handler.child import Attempt, HandlerConfig
from kafka_redelivery.pipeline.stream.lost_positions import RecordsDeletedError, is_data_loss
from kafka_redelivery.pipeline.stream.membership import Membership
from kafka_redelivery.pipeline.stream.pause_gate import PauseGate
from kafka_redelivery.pipeline.stream.read_topics import ReadTopics
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.task.contract import TaskPlan, TaskResult, TaskStatus, merge_writes
from kafka_redelivery.pipeline.task.task import RESULT, SparkTask
from kafka_redelivery.transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafka_redelivery.pipeline.stream.transformation import Transformation

_log = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 1.0

_TASKS_PER_CORE: Final = 4
"""More tasks even out the work of the cores; each costs a producer and transactions.

With several slots it is one task for each core: the slots of a task work on the partitions that the task covers.
"""

_RUNNING: Final[set[str]] = set()
"""The queries of this process, of all groups, that have not ended."""

_INCOMPLETE: Final = re.compile(
    r"ModuleNotFoundError: |.*\[(PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION|PYTHON_VERSION_MISMATCH)\]"
)
"""Errors of a task whose executor lacks a package, or has another Python. No other attempt can do better."""


class QueryEndedError(Exception):
    """Ends the query. :attr:`MicroBatches.failure` has the cause.

    From this message Spark concludes that the query was stopped, which is not a failure to it.
    """

    def __init__(self) -> None:
        super().__init__("py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException")


@dataclass
class MicroBatches:
    """The function of ``foreachBatch``. Spark calls it on a thread of its own."""

    config: HandlerConfig
    member: Membership
    counts: Mapping[str, int]
    """The number of partitions of each topic."""

    observer: QueryObserver
    """Receives the outcomes of every micro-batch."""

    shutdown: Shutdown
    gate: PauseGate
    topics: ReadTopics
    transformation: Transformation | None = None
    """Computes the outcomes of records; ``None`` = a handler is called for each."""

    failure: Exception | None = field(default=None, init=False)
    """The error that ended the query."""

    _query: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
    _runners: dict[int, str] = field(default_factory=dict, init=False)
    _unsettled: bool = field(default=False, init=False)
    """Whether tasks of an earlier micro-batch may still run, with the current membership."""

    _abort_deadline: AbortDeadline = field(default_factory=AbortDeadline, init=False)

    def __post_init__(self) -> None:
        """Count the query as running."""
        _RUNNING.add(self._query)

    def close(self) -> None:
        """Let Python workers close what they keep of the query, when they have the next task of another one."""
        _RUNNING.discard(self._query)

    @property
    def settled(self) -> bool:
        """Whether no task of a micro-batch may still run."""
        return not self._unsettled

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Handle a micro-batch. Tasks skip records whose outcomes are already committed.

        Raises:
            QueryEndedError: the query cannot go on; why is in :attr:`failure`.
        """
        try:
            done = False
            while not done:
                self.gate.wait()
                with self.shutdown.micro_batch():
                    if not self.gate.closed:  # looked at again, because now the micro-batch counts as running
                        done = self._run(frame, number)
        except Exception as error:  # noqa: BLE001 - run_stream raises it again
            self.failure = error
            raise QueryEndedError from None

    def _run(self, frame: DataFrame, number: int) -> bool:
        """Run the tasks of a micro-batch. Return whether all its records have their outcomes, despite outages."""
        several = any(section.slots > 1 for section in self.config.sections)
        per_core = 1 if several else _TASKS_PER_CORE
        tasks = frame.sparkSession.sparkContext.defaultParallelism * per_core
        outdated: object = None
        computes, failed = self.transformation, False
        while True:
            self._abort_deadline.begins()
            self.topics.refuse_created_again()  # Spark has chosen the offsets by the names of the topics
            if self._unsettled and outdated is None:
                self.member.renew()
            member = self.member.member(than=outdated)
            self._unsettled = True
            begun_s, outages = monotonic_s(), self.gate.outages
            attempt = Attempt() if outages is None else outages.begin()
            part = frame if attempt.only is None else frame.where(_is_in(attempt.only[0]))
            plan = TaskPlan(
                self._query,
                self.config,
                member,
                self.counts,
                dict(self._runners),
                marks=self.topics.marks,
                named_in_commits=self.topics.named_in_commits,
                attempt=attempt,
                running=frozenset(_RUNNING),
            )
            try:
                given = part.coalesce(tasks) if computes is None else computes.outcomes(part, tasks, again=failed)
                rows = given.mapInArrow(SparkTask(plan), RESULT).collect()
            except Exception as error:
                # A process was killed or an executor was lost. In local mode Spark does not retry the task.
                if self.shutdown.cancelled:
                    raise
                self.member.member()  # raises the cause if the membership is lost
                cause, outdated, failed = _repeatable(error), None, True
            else:
                results = [TaskResult.from_bytes(bytes(row.summary)) for row in rows]
                self._report(results)
                repeated = [each for each in results if each.status in {TaskStatus.OUTDATED, TaskStatus.SUPERSEDED}]
                if not repeated:
                    self._abort_deadline.succeeded()
                    self._unsettled = False
                    _log_outcomes(number, monotonic_s() - begun_s, results)
                    return outages is None or not outages.end(attempt, results, begun_s)
                cause = repeated[0].cause
                outdated = member if any(each.status is TaskStatus.OUTDATED for each in repeated) else None
            self._pause(number, cause)

    def _pause(self, number: int, cause: str) -> None:
        """Wait until the micro-batch may run again.

        Raises:
            StreamHaltedError: it has failed for too long, or a shutdown does not let it run again.
        """
        self.observer.write_aborted(cause)
        try:
            self._abort_deadline.aborted(cause)
        except HaltedError:
            raise StreamHaltedError(
                f"every attempt of the micro-batch in the last {GIVE_UP_AFTER_S:.0f} s failed, the last one because: "
                f"{cause}"
            ) from None
        _log.warning("micro-batch %d is run again: %s", number, cause)
        if self.shutdown.wait_cancelled(_RETRY_PAUSE_S):
            raise StreamHaltedError("stopped before the micro-batch could be run again")

    def _report(self, results: list[TaskResult]) -> None:
        for each in results:
            if each.number is not None:
                self._runners[each.number] = each.runner
            if each.writes:
                self.observer.committed(merge_writes(each.writes))
            for cause in each.aborted:
                self.observer.write_aborted(cause)
        for each in results:
            if each.status is TaskStatus.HALTED:
                raise HaltedError(each.cause)
            if each.status is TaskStatus.REPLACED:
                self.observer.fenced()
                raise StreamHaltedError(
                    f"another query of group {self.config.settings.group} was started and has taken over; this one ends"
                )


def _is_in(partition: Partition) -> str:
    return f"topic = '{partition.topic}' AND partition = {partition.number}"


def _repeatable(error: Exception) -> str:
    """Return why a micro-batch failed that may run again.

    Raises:
        RecordsDeletedError: it had to read records that were deleted.
        StreamHaltedError: an executor lacks what a task needs.
    """
    cause = first_line(error)
    if is_data_loss(error):
        raise RecordsDeletedError(cause) from error
    if _INCOMPLETE.match(cause):
        raise StreamHaltedError(
            f"a task cannot run on its executor: {cause}; the section 'On a cluster' of docs/spark.md says what "
            "executors need"
        ) from error
    return cause


def _log_outcomes(number: int, seconds: float, results: Sequence[TaskResult]) -> None:
    found: Counter[str] = Counter()
    for each in results:
        for write in each.writes:
            for label, count in write.outcomes.items():
                found[label.outcome] += count
    if found:
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        more = {"micro_batch": number, "seconds": round(seconds, 3), "outcomes": dict(found)}
        _log.info("micro-batch %d: %s in %.2f s", number, text, seconds, extra=more)
