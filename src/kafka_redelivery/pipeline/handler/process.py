"""The process that runs the handler of a Spark task, seen from the Python worker that owns it.

A record can kill the process or exceed the deadline. Exactly that record then has a failed delivery. Records whose
outcome was lost with the process are handled again; no output of theirs was written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.handlers.child_process import MAX_WAIT_S, LoadLimit
from kafka_redelivery.consumers.handlers.processor import deadline_passed
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.handler_child import HandlerChild, started_again
from kafka_redelivery.pipeline.handler.messages import receive, send
from kafka_redelivery.pipeline.handler.outcomes import Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.topology.policy.decision import Failure

_log = logging.getLogger(__name__)

MAX_IDLE_DEATHS: Final = 3
"""Deaths in a row without a record being handled, after which the task halts."""

CLOSING_S: Final = 2.0


class _ChildDiedError(Exception):
    """The child is dead.

    ``handling`` is the index, within the records it was sent, of the first record that it was handling, and their
    number; ``None`` = it was handling no record.
    """

    def __init__(self, handling: tuple[int, int] | None, failure: Failure, *, killed: bool = False) -> None:
        super().__init__(failure.message)
        self.handling = handling
        self.failure = failure
        self.killed = killed
        """Whether its parent has killed it at the deadline of a call that ended in time after all."""


class HandlerProcess:
    """Has records handled one after the other. Runs one child at a time and replaces it when it dies.

    See :class:`Handling`.
    """

    full = False

    def __init__(self, config: HandlerConfig) -> None:
        """Start the child and wait until it has loaded the handler.

        Raises:
            HandlerLoadError: the child cannot load the handler.
        """
        self._config = config
        deadline = config.section.deadline
        self._deadline_s = None if deadline is None else deadline.total_seconds()
        self._load_limit = LoadLimit()
        self._child: _RowsChild | None = _RowsChild(config, self._load_limit)

    def close(self) -> None:
        """Let the child end by itself within two seconds, else kill it."""
        if self._child is not None:
            self._child.leave()
            self._child.join(CLOSING_S)
            self._child = None

    def abandon(self) -> None:
        """See :class:`Handling`. A child in the middle of a run is killed before the next one."""

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """See :class:`Handling`. Every record has had its outcome when :meth:`handle` has ended."""
        del timeout_s
        return iter(())

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """See :class:`Handling`."""
        position = 0
        for outcomes in self.run(rows):
            handled = rows[position : position + outcomes.number]
            position += outcomes.number
            yield Handled(rows.partition, handled, handled.bytes, outcomes)

    def run(self, rows: Rows) -> Iterator[Outcomes]:
        """Have records handled, and yield their outcomes in order as they come.

        If the child dies of several records that it was handling in one call, each of them is handled again in a call
        of its own, which finds the one that kills it.

        Raises:
            HaltedError: children die again and again without handling a record.
        """
        killers: dict[int, Failure] = {}
        suspects = range(0)
        """Records that were in one call when their child died."""

        position = idle_deaths = 0
        while position < len(rows):
            if position in killers:
                yield Outcomes(1, [(0, killers.pop(position))])
                position += 1
                continue
            start = position
            end = min(each for each in (*killers, suspects.start, suspects.stop, len(rows)) if each > start)
            try:
                for outcomes in self._idle_child().run(rows[start:end], self._deadline_s, singly=start in suspects):
                    position += outcomes.number
                    idle_deaths = 0
                    yield outcomes
                    if outcomes.critical:
                        return
            except _ChildDiedError as death:
                self._kill()
                if death.handling is not None:
                    first, number = start + death.handling[0], death.handling[1]
                    offset = rows[first].offset()
                    _log.warning(
                        "%d record(s) from %s-%d@%d: %s", number, *rows.partition, offset, death.failure.message
                    )
                    if number == 1:
                        killers[first] = death.failure
                    else:
                        suspects = range(first, first + number)
                    continue
                if death.killed:
                    continue
                idle_deaths += 1
                _log.warning("%s; it was handling no record", death.failure.message)
                if idle_deaths >= MAX_IDLE_DEATHS:
                    problem = f"{death.failure.message}, {idle_deaths} times in a row while it was handling no record"
                    raise HaltedError(problem) from None

    def _idle_child(self) -> _RowsChild:
        if self._child is not None and not self._child.idle:
            self._kill()  # the last task gave up in the middle of a run: the next answers would be of its records
        if self._child is None:
            self._child = started_again(partial(_RowsChild, self._config, self._load_limit))
        return self._child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class _RowsChild(HandlerChild):
    def __init__(self, config: HandlerConfig, load_limit: LoadLimit) -> None:
        super().__init__(config, load_limit)
        self._overdue = False
        """Whether it was killed because a call exceeded the deadline."""

        self.idle = True
        """Whether it has returned the outcome of every record that it was sent."""

        (self._position,) = self.positions

    def run(self, rows: Rows, deadline_s: float | None, *, singly: bool) -> Iterator[Outcomes]:
        """Send records, and yield their outcomes as they come.

        Args:
            rows: the records.
            deadline_s: longest time for one call of the handler.
            singly: whether a vectorised handler is called with one record at a time.

        Raises:
            _ChildDiedError: the child died, or was killed because a call exceeded the deadline.
        """
        left = len(rows)
        self.idle = False
        try:
            send(self._pipe, (rows, singly))
            while left:
                self._wait(deadline_s)
                outcomes: Outcomes = receive(self._pipe)
                left -= outcomes.number
                self.idle = not left or outcomes.critical
                yield outcomes
                if outcomes.critical:
                    return
        except (EOFError, OSError):
            handling = self._position.read()
            if handling is None or self._overdue:  # what it was handling when it was killed has not failed
                raise _ChildDiedError(None, self.death(), killed=self._overdue) from None
            raise _ChildDiedError(handling[:2], self.death()) from None

    def _wait(self, deadline_s: float | None) -> None:
        """Wait for an answer as long as no call exceeds the deadline.

        Raises:
            EOFError: the child is dead.
            _ChildDiedError: a call exceeded the deadline, and the child was killed.
        """
        while True:
            limit_s = None if deadline_s is None else seconds_ago(deadline_s)
            handling = self._position.read()
            if handling is None or limit_s is None:
                if self.poll(MAX_WAIT_S):
                    return
                continue
            left_s = handling[2] - limit_s
            if self.poll(left_s):
                return
            if self._position.read() != handling or left_s > 0:
                continue
            self._overdue = True
            self._process.kill()
            self._process.wait()
            if self._position.read() != handling:
                return  # the call ended in time after all; the pipe holds its outcome, or ends
            raise _ChildDiedError(handling[:2], deadline_passed(deadline_s))
