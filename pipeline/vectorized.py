"""Runs a vectorised handler: many records in one call, and still one outcome for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from consumers.clock import monotonic_s
from consumers.handler import Handler, not_run
from consumers.lane import Lane
from consumers.processor import Processor
from consumers.record import Record
from consumers.routes import Route
from consumers.unit import Assigned, Unit
from pipeline.batch_context import COLUMNS, BatchContext, Emitted
from pipeline.done import Done
from pipeline.rows import Rows
from pipeline.standing import Standing
from topology.decision import Failure, FailureKind
from topology.lineage import Lineage
from topology.progress import Progress
from transport.protocols import Topics

_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


class _Ready(NamedTuple):
    """What the handler is to be called with."""

    batch: pa.RecordBatch
    numbers: _Numbers
    """For each of its rows, which record of the run it is."""

    failures: list[tuple[int, Failure]]
    """Records that no handler is called for."""

    lineages: list[Lineage]
    lateness: list[tuple[int, int]]


class VectorRuns:
    """See :class:`pipeline.handler_child.Runs`."""

    def __init__(self, handler: Handler, processor: Processor, topics: Topics, standing: Standing) -> None:
        self._handler = handler
        self._processor = processor
        self._topics = topics
        self._standing = standing

    def run(self, rows: Rows, route: Route, redelivered: bool, *, most: int) -> Iterator[Done]:  # noqa: FBT001 - as routes have it
        """Handle records; what is told is in order.

        Args:
            rows: the records.
            route: of their topic.
            redelivered: whether they were delivered before.
            most: so many are given to the handler in one call.
        """
        ready = self._prepare(rows, route, redelivered=redelivered)
        told = _Telling(len(rows), ready)
        if not len(ready.numbers):
            yield told.rest()
            return
        number = len(ready.numbers)
        calls = (self._calls(ready, at, min(at + most, number)) for at in range(0, number, most))
        for first, end, failures, emitted, seconds in chain.from_iterable(calls):
            last = end == len(ready.numbers)
            upto = len(rows) if last else int(ready.numbers[end])
            done = told.upto(upto, first, failures, emitted, seconds)
            yield done
            if done.critical:
                return

    def _calls(
        self, ready: _Ready, first: int, end: int
    ) -> Iterator[tuple[int, int, dict[int, Failure], list[Emitted], float]]:
        """The rows from ``first`` to ``end`` in as few calls as they need."""
        number = end - first
        context = BatchContext(number, self._handler, self._topics)
        batch = ready.batch.slice(first, number)
        began = monotonic_s()
        self._standing.at(int(ready.numbers[first]), int(ready.numbers[end - 1] - ready.numbers[first]) + 1)
        try:
            result = self._handler.call(batch, context) if self._handler.takes_context else self._handler.call(batch)
            failure = None if result is None else not_run(result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome of its records
            failure = self._handler.failure(error)
        self._standing.nowhere()
        seconds = monotonic_s() - began
        if failure is None:
            yield first, end, context.failures, context.emitted, seconds
        elif number == 1 or failure.kind is FailureKind.CRITICAL:
            yield first, first + 1, {0: failure}, [], seconds
        else:
            half = first + number // 2
            for begin, until in ((first, half), (half, end)):
                for call in self._calls(ready, begin, until):
                    yield call
                    if any(each.kind is FailureKind.CRITICAL for each in call[2].values()):
                        return

    def _prepare(self, rows: Rows, route: Route, *, redelivered: bool) -> _Ready:
        columns = rows.batch
        plain = columns.column("headers").null_count == len(rows) or not _any_header(columns.column("headers"))
        if plain and not (redelivered or route.sets_expiration or route.exhausted_at_once):
            attempts = pa.array(np.ones(len(rows), np.int32))
            batch = pa.RecordBatch.from_arrays(
                [*(columns.column(name).cast(COLUMNS.field(name).type) for name in COLUMNS.names[:-1]), attempts],
                schema=COLUMNS,
            )
            return _Ready(batch, np.arange(len(rows)), [], [], [])
        return self._prepare_each(rows, route, redelivered=redelivered)

    def _prepare_each(self, rows: Rows, route: Route, *, redelivered: bool) -> _Ready:
        unit = Unit(Lane(Assigned(rows.place, route, redelivered, Progress(0)), exclusive=True), [])
        failures: list[tuple[int, Failure]] = []
        records: list[tuple[int, Record, int]] = []
        for index, message in enumerate(rows):
            found = self._processor.prepare(unit, message)
            if isinstance(found, Failure):
                failures.append((index, found))
            else:
                records.append((index, found, unit.lineages[-1].deliveries if unit.lineages else 0))
        batch = pa.RecordBatch.from_pylist([_row(record, made) for _, record, made in records], COLUMNS)
        numbers = np.array([index for index, _, _ in records], np.int64)
        return _Ready(batch, numbers, failures, unit.lineages, unit.lateness)


class _Telling:
    """Makes what is told of calls, in which only some of the records were, into what is told of all."""

    def __init__(self, total: int, ready: _Ready) -> None:
        self._total = total
        self._ready = ready
        self._position = 0

    def rest(self) -> Done:
        """All of them, none of which a handler was called for."""
        return self.upto(self._total, 0, {}, [], None)

    def upto(
        self, end: int, first: int, failures: dict[int, Failure], emitted: list[Emitted], seconds: float | None
    ) -> Done:
        """The records from where the last one ended to ``end``, of which a call had the rows from ``first`` on."""
        begin, ready = self._position, self._ready
        self._position = end
        own = [(index - begin, failure) for index, failure in ready.failures if begin <= index < end]
        failed = [(int(ready.numbers[first + row]) - begin, failure) for row, failure in failures.items()]
        return Done(
            end - begin,
            sorted([*own, *failed], key=lambda entry: entry[0]),
            ready.lineages[begin:end],
            [(index - begin, late) for index, late in ready.lateness if begin <= index < end],
            () if seconds is None else (seconds,),
            [_placed(each, ready.numbers[first:] - begin, failures) for each in emitted],
        )


def _placed(
    emitted: Emitted, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], failed: dict[int, Failure]
) -> Emitted:
    """With rows counted as records are, and without what failed rows emitted."""
    table = emitted.table
    if failed:
        kept = ~np.isin(table.column("row").to_numpy(), list(failed))
        table = table.filter(pa.array(kept))
    rows = pa.array(numbers[table.column("row").to_numpy()], pa.int32())
    return emitted._replace(table=table.set_column(0, "row", rows))


def _any_header(headers: pa.Array) -> bool:
    return len(headers.flatten()) > 0


def _row(record: Record, deliveries: int) -> dict[str, object]:
    return {
        "key": record.raw_key,
        "value": record.raw_value,
        "headers": [{"key": name, "value": value} for name, value in record.raw_headers],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "attempt": deliveries + 1,
    }
