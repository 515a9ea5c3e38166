"""Runs a vectorised handler: many records in one call, one outcome for each record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler, not_run
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.pipeline.handler.batch_context import COLUMNS, BatchContext
from kafka_redelivery.pipeline.handler.outcomes import Emitted, Outcomes
from kafka_redelivery.pipeline.handler.plain_rows import need_no_preparation
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.pipeline.handler.shared_position import SharedPosition
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import TopicMetadata

_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


class _Prepared(NamedTuple):
    """The arguments of the handler and the records that it is not called for."""

    batch: pa.RecordBatch
    numbers: _Numbers
    """The index of the record of each row."""

    failures: list[tuple[int, Failure]]
    """Failures of records that the handler is not called for."""

    lineages: list[Lineage]
    lateness: list[tuple[int, int]]


class VectorRuns:
    """Runs a vectorised handler over records."""

    def __init__(
        self, handler: Handler, processor: Processor, topics: TopicMetadata, shared_position: SharedPosition
    ) -> None:
        self._handler = handler
        self._processor = processor
        self._topics = topics
        self._position = shared_position

    def run(self, rows: Rows, route: Route, redelivered: bool, *, max_rows: int) -> Iterator[Outcomes]:  # noqa: FBT001 - as routes have it
        """Handle records and yield their outcomes in order.

        Args:
            rows: the records.
            route: the route of their topic.
            redelivered: whether the records come from a ready topic.
            max_rows: the maximum number of rows in one call of the handler.
        """
        prepared = self._prepare(rows, route, redelivered=redelivered)
        outcomes = _OutcomeAssembler(len(rows), prepared)
        if not len(prepared.numbers):
            yield outcomes.rest()
            return
        number = len(prepared.numbers)
        calls = (self._calls(prepared, at, min(at + max_rows, number)) for at in range(0, number, max_rows))
        for first, end, failures, emitted, seconds in chain.from_iterable(calls):
            last = end == len(prepared.numbers)
            upto = len(rows) if last else int(prepared.numbers[end])
            done = outcomes.upto(upto, first, failures, emitted, seconds)
            yield done
            if done.critical:
                return

    def _calls(
        self, prepared: _Prepared, first: int, end: int
    ) -> Iterator[tuple[int, int, dict[int, Failure], list[Emitted], float]]:
        """Call the handler for the rows from ``first`` to ``end``, and again for each half if it raises."""
        number = end - first
        context = BatchContext(number, self._handler, self._topics)
        batch = prepared.batch.slice(first, number)
        began = monotonic_s()
        self._position.set(int(prepared.numbers[first]), int(prepared.numbers[end - 1] - prepared.numbers[first]) + 1)
        try:
            result = self._handler.call(batch, context) if self._handler.takes_context else self._handler.call(batch)
            failure = None if result is None else not_run(result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome of its records
            failure = self._handler.failure(error)
        self._position.clear()
        seconds = monotonic_s() - began
        if failure is None:
            yield first, end, context.failures, context.emitted, seconds
        elif number == 1 or failure.kind is FailureKind.CRITICAL:
            yield first, first + 1, {0: failure}, [], seconds
        else:
            half = first + number // 2
            for begin, until in ((first, half), (half, end)):
                for call in self._calls(prepared, begin, until):
                    yield call
                    if any(each.kind is FailureKind.CRITICAL for each in call[2].values()):
                        return

    def _prepare(self, rows: Rows, route: Route, *, redelivered: bool) -> _Prepared:
        columns = rows.batch
        if need_no_preparation(rows, route, redelivered=redelivered):
            attempts = pa.array(np.ones(len(rows), np.int32))
            batch = pa.RecordBatch.from_arrays(
                [*(columns.column(name).cast(COLUMNS.field(name).type) for name in COLUMNS.names[:-1]), attempts],
                schema=COLUMNS,
            )
            return _Prepared(batch, np.arange(len(rows)), [], [], [])
        return self._prepare_each(rows, route, redelivered=redelivered)

    def _prepare_each(self, rows: Rows, route: Route, *, redelivered: bool) -> _Prepared:
        item = WorkItem(Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True), [])
        failures: list[tuple[int, Failure]] = []
        records: list[tuple[int, Record, int]] = []
        for index, message in enumerate(rows):
            found = self._processor.prepare(item, message)
            if isinstance(found, Failure):
                failures.append((index, found))
            else:
                records.append((index, found, item.lineages[-1].deliveries if item.lineages else 0))
        batch = pa.RecordBatch.from_pylist([_row(record, made) for _, record, made in records], COLUMNS)
        numbers = np.array([index for index, _, _ in records], np.int64)
        return _Prepared(batch, numbers, failures, item.lineages, item.lateness)


class _OutcomeAssembler:
    """Combines the outcomes of calls, which have only some of the records, into outcomes of all records."""

    def __init__(self, total: int, prepared: _Prepared) -> None:
        self._total = total
        self._ready = prepared
        self._position = 0

    def rest(self) -> Outcomes:
        """Return the outcomes of all records if the handler is called for none of them."""
        return self.upto(self._total, 0, {}, [], None)

    def upto(
        self, end: int, first: int, failures: dict[int, Failure], emitted: list[Emitted], seconds: float | None
    ) -> Outcomes:
        """Return the outcomes of the records up to ``end``, of which a call had the rows from ``first`` on."""
        begin, prepared = self._position, self._ready
        self._position = end
        own = [(index - begin, failure) for index, failure in prepared.failures if begin <= index < end]
        failed = [(int(prepared.numbers[first + row]) - begin, failure) for row, failure in failures.items()]
        return Outcomes(
            end - begin,
            sorted([*own, *failed], key=lambda entry: entry[0]),
            prepared.lineages[begin:end],
            [(index - begin, late) for index, late in prepared.lateness if begin <= index < end],
            () if seconds is None else (seconds,),
            [_with_record_indexes(each, prepared.numbers[first:] - begin, failures) for each in emitted],
        )


def _with_record_indexes(
    emitted: Emitted, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], failed: dict[int, Failure]
) -> Emitted:
    """Replace row indexes by record indexes, and drop what failed rows emitted."""
    table = emitted.table
    if failed:
        kept = ~np.isin(table.column("row").to_numpy(), list(failed))
        table = table.filter(pa.array(kept))
    rows = pa.array(numbers[table.column("row").to_numpy()], pa.int32())
    return emitted._replace(table=table.set_column(0, "row", rows))


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
