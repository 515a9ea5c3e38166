"""Has the records of a Spark task handled in a process of its own, seen from the Python worker that owns it.

A record can kill the process or exceed the deadline. Exactly that record then has a failed delivery. If several records
were being handled when the process died, they are handled again with all others that have no outcome, one at a time,
until the one that kills it is found. No output of theirs was written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from threading import Event
from typing import Final, NamedTuple

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import HaltedError, HandlerLoadError
from kafka_redelivery.consumers.handlers.child import Child, ChildDiedError, LoadLimit, Setup
from kafka_redelivery.consumers.handlers.dependencies import Declared
from kafka_redelivery.pipeline.handler.child import POSITIONS_PER_SLOT, Answer, Attempt, Given, HandlerConfig, load
from kafka_redelivery.pipeline.handler.items import Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_MAX_IDLE_DEATHS: Final = 3
"""Deaths in a row without a record being handled, after which the task halts."""

_CLOSING_S: Final = 2.0

_Place = tuple[int, int]
"""Partition number and offset."""


class _Part(NamedTuple):
    rows: Rows
    record_bytes: int


class Handling:
    """Runs one child at a time and replaces it when it dies. Used by one thread."""

    def __init__(self, config: HandlerConfig) -> None:
        """Start the child and wait until it has loaded the handler.

        Raises:
            HandlerLoadError: the child cannot load the handler.
        """
        self._config = config
        limits = config.settings.limits
        naming, handlers = config.settings.naming(), config.settings.handlers
        self._handlers = {**handlers, **{naming.ready_topic(topic): found for topic, found in handlers.items()}}
        """By source and ready topic."""

        self._deadlines: list[float | None] = []
        """By partition number: longest time in seconds for one call, if this process has to notice it."""

        self._max_records, self._max_bytes = limits.buffer_records, limits.buffer_bytes // 2
        self._numbers: dict[Partition, int] = {}
        self._unanswered: list[dict[int, _Part]] = []
        """By partition number, in the order in which they were given: the records without an outcome, by offset."""

        self.attempt = Attempt()
        """The run of the micro-batch whose records are given."""

        self._records = self._bytes = self._idle_deaths = 0
        self._load_limit = LoadLimit()
        self._child: Child | None = self._started()

    @property
    def full(self) -> bool:
        """Whether so many records have no outcome yet that :meth:`collect` is to be called before :meth:`handle`."""
        return self._records >= self._max_records or self._bytes >= self._max_bytes

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """Accept records, and yield what was handled meanwhile, of these and of earlier ones.

        Raises:
            HaltedError: children die again and again without handling a record.
        """
        number = self._numbers.setdefault(rows.partition, len(self._numbers))
        if number == len(self._unanswered):
            self._unanswered.append({})
            self._deadlines.append(self._deadline_s(rows.partition))
        part = _Part(rows, rows.bytes // len(rows))
        self._unanswered[number].update(dict.fromkeys(rows.offsets(), part))
        self._records += len(rows)
        self._bytes += len(rows) * part.record_bytes
        try:
            if self._child is None:
                self._start_again(())
            else:
                self._child.give(Given(number, rows, attempt=self.attempt), self._deadlines)
        except ChildDiedError as death:
            yield from self._replace(death)
        yield from self.collect(0.0)

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """Yield what was handled meanwhile. Wait for it, at most ``timeout_s``.

        Raises:
            HaltedError: as in :meth:`handle`.
        """
        try:
            while self._records and self._child is not None and self._child.has_answer(timeout_s, self._deadlines):
                yield self._take(self._child.answer())
                timeout_s = 0.0
        except ChildDiedError as death:
            yield from self._replace(death)

    def abandon(self) -> None:
        """Forget the records that have no outcome yet. The child's next answers would be of them, so it is killed."""
        if self._records:
            self._kill()
            self._records = self._bytes = 0
            for unanswered in self._unanswered:
                unanswered.clear()

    def close(self) -> None:
        """Let the child end by itself within two seconds, else kill it."""
        if self._child is not None:
            self._child.leave()
            self._child.join(_CLOSING_S)
            self._child = None

    def _deadline_s(self, partition: Partition) -> float | None:
        """Return the limit for one call; ``None`` if there is none, or if a child of the child is killed at it."""
        section = self._handlers[partition.topic]
        if section.deadline is None or self._config.isolates(section):
            return None
        return section.deadline.total_seconds()

    def _take(self, answer: Answer) -> Handled:
        self._idle_deaths = 0
        parts = list(map(self._unanswered[answer.number].pop, answer.offsets))
        self._records -= len(parts)
        self._bytes -= sum([part.record_bytes for part in parts])
        if answer.outcomes.critical:
            self._kill()  # no further record is handled
        return Handled(_rows(parts, answer.offsets), answer.outcomes)

    def _replace(self, death: ChildDiedError) -> Iterator[Handled]:
        """Start another child after one died, and yield the failure of the record that killed it, if that is known."""
        self._kill()
        suspects = {
            (each.number, offset)
            for each in death.positions
            for offset in _following(self._unanswered[each.number], each.first, each.records)
        }
        if len(suspects) > 1:
            _log.warning("%d records were being handled: %s", len(suspects), death.failure.message)
        elif suspects:
            number, offset = suspects.pop()
            yield from self._failed(number, offset, death.failure)
        elif not death.killed:
            self._idle_deaths += 1
            _log.warning("%s; it was handling no record", death.failure.message)
            if self._idle_deaths >= _MAX_IDLE_DEATHS:
                problem = f"{death.failure.message}, {self._idle_deaths} times in a row while it was handling no record"
                raise HaltedError(problem) from None
        try:
            self._start_again(suspects)
        except ChildDiedError as again:
            yield from self._replace(again)

    def _failed(self, number: int, offset: int, failure: Failure) -> Iterator[Handled]:
        """Yield the failure of the record that killed its process; or, if that is so, that a dependency is away."""
        partition = next(each for each, known in self._numbers.items() if known == number)
        _log.warning("%s-%d@%d: %s", *partition, offset, failure.message)
        name = Declared.by(self._handlers[partition.topic]).of_deadline
        if not name or failure.kind is not FailureKind.DEADLINE:
            yield self._take(Answer(number, [offset], Outcomes(1, [(0, failure)])))
        elif name in self.attempt.failing:
            failure = failure._replace(kind=FailureKind.RAISED, dependency=name)
            yield self._take(Answer(number, [offset], Outcomes(1, [(0, failure)])))
        else:
            failure = failure._replace(kind=FailureKind.UNAVAILABLE, dependency=name)
            yield self._take(Answer(number, [offset], Outcomes(1, waits=name, met=failure)))
            for each, known in self._numbers.items():
                left = list(self._unanswered[known])
                if left and name in dict(self._handlers[each.topic].dependencies):
                    yield self._take(Answer(known, left, Outcomes(len(left), waits=name)))

    def _start_again(self, suspects: Iterable[_Place]) -> None:
        """Start a child as soon as that is possible, and give it all records that have no outcome.

        What the handler needs at its start may be away. The records wait, uncounted.
        """
        backoff, found = Backoff(), frozenset(suspects)
        while self._child is None:
            try:
                self._child = self._started()
            except (HandlerLoadError, OSError) as error:
                backoff = backoff.failed(monotonic_s())
                _log.warning("%s; the records wait, and it is tried again in %g s", error, backoff.pause_s)
                Event().wait(backoff.pause_s)
        for number, unanswered in enumerate(self._unanswered):
            for suspect, places in groupby(unanswered, lambda offset: (number, offset) in found):  # noqa: B023 - used here
                offsets = list(places)
                rows = _rows([unanswered[each] for each in offsets], offsets)
                given = Given(number, rows, suspect, self.attempt)
                self._child.give(given, self._deadlines)

    def _started(self) -> Child:
        config = self._config
        # Spark's Python workers run with PYTHONSAFEPATH. Programs that the handler starts must not inherit it.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        environment["PYTHONPATH"] = os.pathsep.join(config.search_path)
        child = Child(
            Setup(load, config, config.log_level, config.log_format),
            search_path=config.search_path,
            positions=POSITIONS_PER_SLOT * sum(section.slots for section in config.sections),
            environment=environment,
        )
        child.wait_until_ready(", ".join(each.callable for each in config.sections), self._load_limit)
        return child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.leave()
            self._child = None


def _rows(parts: Sequence[_Part], offsets: list[int]) -> Rows:
    """Return records of one partition: for each its part, and its offset."""
    found, first = [], 0
    for _, same in groupby(parts, id):
        end = first + sum(1 for _ in same)
        found.append(parts[first].rows.of(offsets[first:end]))
        first = end
    return Rows.joined(found)


def _following(offsets: Iterable[int], first: int, count: int) -> list[int]:
    """Return the first one and those behind it, ``count`` in all; none if the first one is not there."""
    found = list(offsets)
    return found[found.index(first) :][:count] if first in found else []
