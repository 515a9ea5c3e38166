"""One micro-batch after the other: a task for each partition, until each has come to its end."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from consumers.clock import monotonic_s
from consumers.errors import HaltedError
from consumers.observer import Observer
from consumers.patience import Patience
from pipeline.errors import StreamHaltedError
from pipeline.membership import Membership
from pipeline.setup import Setup
from pipeline.spark_errors import first_line
from pipeline.stopping import Stop
from pipeline.summary import Ended, Summary, together
from pipeline.task import RESULT, Task
from pipeline.task_plan import TaskPlan
from transport.protocols import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0


class EndedError(Exception):
    """Ends a query; why is not in its text, which Spark carries through several messages.

    By this text Spark tells whether a query ended because it was stopped, which is no error.
    """

    def __init__(self) -> None:
        super().__init__("py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException")


class MicroBatches:
    """Runs them. Called on Spark's thread."""

    def __init__(
        self, setup: Setup, member: Membership, counts: Mapping[str, int], observer: Observer, stop: Stop
    ) -> None:
        """Prepare.

        Args:
            setup: for the processes that run the handler.
            member: the group's membership.
            counts: how many partitions each topic has.
            observer: told of every micro-batch.
            stop: asked whether to end.
        """
        self._setup = setup
        self._member = member
        self._counts = counts
        self._observer = observer
        self._stop = stop
        self._query = secrets.token_hex(8)
        self._runners: dict[Partition, str] = {}
        self._patience = Patience()
        self.failure: Exception | None = None
        """Why the query ended."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Handle a micro-batch. What has been done of it already is skipped, however often it is run.

        Raises:
            EndedError: the query cannot go on; why is in :attr:`failure`.
        """
        try:
            with self._stop.busy():
                self._run(frame, number)
        except Exception as error:  # noqa: BLE001 - raised again by whoever has started the query
            self.failure = error
            raise EndedError from None

    def _run(self, frame: DataFrame, number: int) -> None:
        begun_s = monotonic_s()
        outdated: object = None
        while True:
            member = self._member.member(than=outdated)
            plan = TaskPlan(self._query, self._setup, member, self._counts, dict(self._runners))
            try:
                rows = frame.mapInArrow(Task(plan), RESULT).collect()
            except Exception as error:
                # A process was killed, or an executor is lost: where a task may fail only once that is the batch's end.
                if self._stop.wanted:
                    raise
                self._member.member()  # if it is lost, that is the reason
                cause, outdated = first_line(error), None
            else:
                summaries = [Summary.unpacked(bytes(row.summary)) for row in rows]
                self._tell(summaries)
                again = [each for each in summaries if each.ended in {Ended.OUTDATED, Ended.SUPERSEDED}]
                if not again:
                    self._patience.succeeded()
                    _tell_outcomes(number, monotonic_s() - begun_s, summaries)
                    return
                cause = again[0].cause
                outdated = member if any(each.ended is Ended.OUTDATED for each in again) else None
            self._observer.undone(cause)
            self._patience.undone(cause)
            _log.warning("micro-batch %d is run again: %s", number, cause)
            if self._stop.wait(_AGAIN_S):
                raise StreamHaltedError("stopped before the micro-batch could be run again")

    def _tell(self, summaries: list[Summary]) -> None:
        for each in summaries:
            if each.place is not None:
                self._runners[each.place] = each.runner
            if each.writes:
                self._observer.committed(together(each.writes))
            for cause in each.undone:
                self._observer.undone(cause)
        for each in summaries:
            if each.ended is Ended.HALTED:
                raise HaltedError(each.cause)
            if each.ended is Ended.REPLACED:
                self._observer.fenced()
                raise StreamHaltedError(
                    f"another query of group {self._setup.settings.group} has been started and has taken over; "
                    "this one ends"
                )


def _tell_outcomes(number: int, seconds: float, summaries: Sequence[Summary]) -> None:
    """A line of the log for a micro-batch that had records."""
    found: Counter[str] = Counter()
    for each in summaries:
        for write in each.writes:
            for label, count in write.outcomes.items():
                found[label.outcome] += count
    if found:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        more = {"micro_batch": number, "seconds": round(seconds, 3), "outcomes": dict(found)}
        _log.info("micro-batch %d: %s in %.2f s", number, told, seconds, extra=more)
