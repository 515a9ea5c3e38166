"""Has several records handled at a time, seen from the Python worker that owns the child with the slots.

A record can kill the child or exceed the deadline. Exactly that record then has a failed delivery. If several records
were being handled when the child died, they are handled again with all others that have no outcome, one at a time,
until the one that kills the child is found. No output of theirs was written.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.handlers.child_process import LoadLimit
from kafka_redelivery.consumers.handlers.processor import deadline_passed
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.handler_child import HandlerChild, started_again
from kafka_redelivery.pipeline.handler.handler_slots import POSITIONS_PER_SLOT, Answer, Given
from kafka_redelivery.pipeline.handler.messages import receive, send
from kafka_redelivery.pipeline.handler.outcomes import Handled, Outcomes
from kafka_redelivery.pipeline.handler.process import CLOSING_S, MAX_IDLE_DEATHS
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.topology.config.settings import Isolation
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.05
"""How often the parent looks whether a call exceeds the deadline."""

_Place = tuple[int, int]
"""Partition number and offset."""


class _Unanswered(NamedTuple):
    row: Row
    bytes: int


class _ChildDiedError(Exception):
    """The child died, or was killed because a call exceeded its deadline."""

    def __init__(self, suspects: list[_Place], failure: Failure, *, killed: bool = False) -> None:
        super().__init__(failure.message)
        self.suspects = suspects
        """The records of which one is the cause."""

        self.failure = failure
        self.killed = killed


class ConcurrentHandling:
    """Runs one child at a time and replaces it when it dies. See :class:`Handling`."""

    def __init__(self, config: HandlerConfig) -> None:
        """Start the child and wait until it has loaded the handler.

        Raises:
            HandlerLoadError: the child cannot load the handler.
        """
        self._config = config
        section, limits = config.section, config.settings.limits
        # With isolation, each slot kills its own child at the deadline.
        isolated = section.isolation is not Isolation.NONE
        self._deadline_s = None if section.deadline is None or isolated else section.deadline.total_seconds()
        self._max_records, self._max_bytes = limits.buffer_records, limits.buffer_bytes // 2
        self._numbers: dict[Partition, int] = {}
        self._partitions: list[Partition] = []
        self._unanswered: dict[_Place, _Unanswered] = {}
        """Records without an outcome, in the order in which they were given."""

        self._bytes = self._idle_deaths = 0
        self._looked_s = 0.0
        self._load_limit = LoadLimit()
        self._child: _SlotsChild | None = _SlotsChild(config, self._load_limit)

    @property
    def full(self) -> bool:
        """See :class:`Handling`."""
        return len(self._unanswered) >= self._max_records or self._bytes >= self._max_bytes

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """See :class:`Handling`."""
        number = self._numbers.get(rows.partition)
        if number is None:
            number = self._numbers[rows.partition] = len(self._partitions)
            self._partitions.append(rows.partition)
        size = rows.bytes // len(rows)
        self._unanswered |= {(number, row.offset()): _Unanswered(row, size) for row in rows}
        self._bytes += size * len(rows)
        try:
            if self._child is None:
                self._start(())
            else:
                self._child.give(Given(number, rows.partition, rows))
        except _ChildDiedError as death:
            yield from self._replace(death)
        yield from self.collect(0.0)

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """See :class:`Handling`."""
        try:
            while self._unanswered and self._child is not None and self._answered(self._child, timeout_s):
                yield self._take(self._child.answer())
                timeout_s = 0.0
        except _ChildDiedError as death:
            yield from self._replace(death)

    def abandon(self) -> None:
        """See :class:`Handling`. The next answers of the child would be of these records, so it is killed."""
        if self._unanswered:
            self._kill()
            self._unanswered.clear()
            self._bytes = 0

    def close(self) -> None:
        """See :class:`Handling`."""
        if self._child is not None:
            self._child.leave()
            self._child.join(CLOSING_S)
            self._child = None

    def _answered(self, child: _SlotsChild, timeout_s: float) -> bool:
        """Wait for an answer, at most ``timeout_s``, and kill the child if a call exceeds the deadline."""
        end_s = monotonic_s() + timeout_s
        while True:
            now_s = monotonic_s()
            if self._deadline_s is not None and now_s - self._looked_s > _LOOK_EVERY_S:
                self._looked_s = now_s
                child.kill_overdue(self._deadline_s)
            if child.has_answer(min(_LOOK_EVERY_S, end_s - now_s)):
                return True
            if monotonic_s() >= end_s:
                return False

    def _take(self, answer: Answer) -> Handled:
        self._idle_deaths = 0
        found = [self._unanswered.pop((answer.number, offset)) for offset in answer.offsets]
        size = sum(each.bytes for each in found)
        self._bytes -= size
        if answer.outcomes.critical:
            self._kill()  # no further record is handled
        return Handled(self._partitions[answer.number], [each.row for each in found], size, answer.outcomes)

    def _replace(self, death: _ChildDiedError) -> Iterator[Handled]:
        """Start another child after one died, and yield the failure of the record that killed it, if that is known."""
        self._kill()
        suspects = [each for each in death.suspects if each in self._unanswered]
        if len(suspects) > 1:
            _log.warning("%d records were being handled: %s", len(suspects), death.failure.message)
        elif suspects:
            number, offset = suspects.pop()
            _log.warning("%s-%d@%d: %s", *self._partitions[number], offset, death.failure.message)
            yield self._take(Answer(number, [offset], Outcomes(1, [(0, death.failure)])))
        elif not death.killed:
            self._idle_deaths += 1
            _log.warning("%s; it was handling no record", death.failure.message)
            if self._idle_deaths >= MAX_IDLE_DEATHS:
                problem = f"{death.failure.message}, {self._idle_deaths} times in a row while it was handling no record"
                raise HaltedError(problem) from None
        try:
            self._start(suspects)
        except _ChildDiedError as again:
            yield from self._replace(again)

    def _start(self, suspects: Iterable[_Place]) -> None:
        """Start a child and give it all records that have no outcome."""
        self._child = child = started_again(partial(_SlotsChild, self._config, self._load_limit))
        records: defaultdict[int, list[Row]] = defaultdict(list)
        for (number, _), each in self._unanswered.items():
            records[number].append(each.row)
        found = frozenset(suspects)
        for number, rows in records.items():
            child.give(Given(number, self._partitions[number], rows, found))

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class _SlotsChild(HandlerChild):
    def __init__(self, config: HandlerConfig, load_limit: LoadLimit) -> None:
        super().__init__(config, load_limit, POSITIONS_PER_SLOT * config.section.slots)

    def give(self, given: Given) -> None:
        """Send records; a thread of the child takes them from the pipe.

        Raises:
            _ChildDiedError: the child is dead.
        """
        try:
            send(self._pipe, given)
        except OSError:
            raise self._died() from None

    def has_answer(self, timeout_s: float) -> bool:
        """Wait for an answer.

        Raises:
            _ChildDiedError: the child is dead.
        """
        try:
            return self.poll(timeout_s)
        except (EOFError, OSError):
            raise self._died() from None

    def answer(self) -> Answer:
        """Receive an answer.

        Raises:
            _ChildDiedError: the child is dead.
        """
        try:
            found: Answer = receive(self._pipe)
        except (EOFError, OSError):
            raise self._died() from None
        return found

    def kill_overdue(self, deadline_s: float) -> None:
        """Kill the child if a call exceeds the deadline.

        Raises:
            _ChildDiedError: it was killed.
        """
        limit_s = seconds_ago(deadline_s)
        for position in self.positions:
            handling = position.read()
            if handling is not None and handling[2] < limit_s:
                self._process.kill()
                self._process.wait()
                # If the position has changed, the call ended in time after all, and the record is handled again.
                overdue = [(handling[1], handling[0])] if position.read() == handling else []
                raise _ChildDiedError(overdue, deadline_passed(deadline_s), killed=True)

    def _died(self) -> _ChildDiedError:
        handling = [each.read() for each in self.positions]
        return _ChildDiedError([(each[1], each[0]) for each in handling if each is not None], self.death())
