"""Vectorised handlers: what they are called with, and how their calls become outcomes of records.

A handler is called with a ``pyarrow.RecordBatch`` of these columns, one row for each record:

========== ================================ ======================================================
key        binary                           as in Kafka; null stays null
value      binary                           as in Kafka; null stays null
headers    list<struct<key, value>>         the record's own, in order
topic      string                           of the first delivery, as are the next three
partition  int32
offset     int64
timestamp  int64                            epoch ms
attempt    int32                            the number of this delivery, from 1
========== ================================ ======================================================

A row that the handler does not fail succeeds. If the handler raises, it is called again with each half of the rows,
down to single rows: only a row for which the handler raises alone fails. Records emitted in a call that raised are
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler, not_run
from kafka_redelivery.consumers.handlers.outputs import check_destination, check_headers
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.handlers.tracing import carrier
from kafka_redelivery.consumers.telemetry.tracing import tracing
from kafka_redelivery.pipeline.handler.items import Emitted, Outcomes, PublishedItem
from kafka_redelivery.pipeline.handler.rows import HEADERS, SCHEMA, Rows, need_no_preparation
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT, HeaderList, Headers
from kafka_redelivery.transport.protocols import TopicMetadata

if TYPE_CHECKING:
    from kafka_redelivery.consumers.handlers.spans import Call

COLUMNS: Final = SCHEMA.append(pa.field("attempt", pa.int32()))


class BatchContext:
    """One call of a vectorised handler."""

    def __init__(
        self,
        rows: int,
        handler: Handler,
        topics: TopicMetadata | None,
        carrier: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._rows = rows
        self._handler = handler
        self._topics = topics
        self._carrier = carrier
        self.emitted: list[Emitted] = []
        self.failures: dict[int, Failure] = {}

    def fail(self, rows: Any, error: BaseException) -> None:  # noqa: ANN401 - arrays of several libraries
        """Fail rows, as if a handler of one record had raised ``error`` for each of them.

        Args:
            rows: a boolean mask over all rows (null = false), or row indexes from 0, as an Arrow or NumPy array or a
                sequence.
            error: any exception; :class:`Reject` and :class:`Redeliver` have the same effect as when raised.

        Raises:
            TypeError: ``rows`` is neither a mask nor indexes.
            ValueError: an index is out of range, or the mask is not as long as the batch.
        """
        failure = self._handler.failure(error)
        for row in self._numbers(rows).tolist():
            self.failures.setdefault(row, failure)

    def send(
        self,
        topic: str,
        values: Any,  # noqa: ANN401 - an Arrow array, or what converts to one
        *,
        keys: Any = None,  # noqa: ANN401 - as the values
        headers: Mapping[str, bytes | None] | Headers | pa.Array = (),
        rows: Any = None,  # noqa: ANN401 - as in fail
        partition: int | None = None,
    ) -> None:
        """Emit a record for each value, in the transaction that acknowledges its row. Dropped if that row fails.

        Args:
            topic: the target topic. If it does not exist, the rows fail.
            values: binary or string.
            keys: binary or string, one per value; ``None`` = null keys.
            headers: the same headers for all records, or a column like ``headers`` of the batch.
            rows: the row each value belongs to, as a mask or indexes; ``None`` = one value per row.
            partition: the target partition; ``None`` = by the key, as Java clients do.

        Raises:
            TypeError, ValueError: the columns differ in length, or have types that Kafka records do not have.
        """
        found = _binary(values, "values")
        numbers = np.arange(self._rows) if rows is None else self._numbers(rows)
        if len(numbers) != len(found):
            raise ValueError(f"{len(found)} values for {len(numbers)} rows; name with rows= which row each belongs to")
        key = pa.nulls(len(found), pa.binary()) if keys is None else _binary(keys, "keys")
        own = self._headers_of(topic, headers, len(found))
        table = pa.RecordBatch.from_arrays(
            [pa.array(numbers, pa.int32()), key, found, own], ["row", "key", "value", "headers"]
        )
        try:
            check_destination(topic, partition, self._topics)
        except ValueError as error:
            self.fail(numbers, error)
            return
        self.emitted.append(Emitted(topic, partition, table))

    def _numbers(self, rows: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401 - as in fail
        if isinstance(rows, pa.ChunkedArray):
            rows = rows.combine_chunks()
        if not isinstance(rows, pa.Array):
            rows = np.asarray(rows)
            if rows.dtype == np.object_:  # as in masks of pandas
                rows = pa.array(rows.tolist(), from_pandas=True)
        if isinstance(rows, pa.Array):
            if pa.types.is_boolean(rows.type):
                rows = rows.fill_null(False)  # noqa: FBT003 - Arrow's signature
            rows = rows.to_numpy(zero_copy_only=False)
        found = np.asarray(rows)
        if found.dtype == np.bool_:
            if len(found) != self._rows:
                raise ValueError(f"the mask has {len(found)} entries for {self._rows} rows")
            return np.flatnonzero(found)
        if len(found) and found.dtype.kind not in "iu":
            raise TypeError(f"rows are a mask of bool or numbers of int, not {found.dtype}")
        numbers = found.astype(np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self._rows:
            raise ValueError(f"there is no row {numbers.min()} or {numbers.max()}: the batch has {self._rows}")
        return numbers

    def _headers_of(self, topic: str, headers: Any, number: int) -> pa.Array:  # noqa: ANN401 - as in send
        if isinstance(headers, pa.ChunkedArray):
            headers = headers.combine_chunks()
        if isinstance(headers, pa.Array):
            column = headers.cast(HEADERS)
            pairs = column.flatten()
            if pairs.null_count or pairs.field("key").null_count:
                raise TypeError(f"a header to {topic} has no name")
            return column
        own: Sequence[Any] = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        traced = self._carrier()
        if traced and traced.keys().isdisjoint(name for name, _ in own):
            own = (*own, *((name, value.encode()) for name, value in traced.items()))
        if not own:
            return pa.nulls(number, HEADERS)
        check_headers(topic, own)
        return pa.array([[{"key": name, "value": value} for name, value in own]] * number, HEADERS)


def _binary(values: Any, what: str) -> pa.Array:  # noqa: ANN401 - as in send
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    array = values if isinstance(values, pa.Array) else pa.array(values)
    kind = array.type
    if pa.types.is_binary(kind):
        return array
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_large_binary)):
        return array.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.binary())
    raise TypeError(f"{what} must be binary or string, got {kind}")


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
    spans: Mapping[int, bytes] = {}
    """The span of the attempt before, by row."""


class VectorProcessor:
    """Takes the place of :class:`Processor` for a vectorised handler: it handles the records of an item together."""

    def __init__(
        self,
        handler: Handler,
        processor: Processor,
        topics: TopicMetadata,
        answer: Callable[[int, list[int], Outcomes], None],
    ) -> None:
        """Prepare.

        Args:
            handler: the user's function, synchronous.
            processor: prepares records.
            topics: answers whether topic and partition of an output exist.
            answer: sends the outcomes of the records with some offsets of a partition, by its number.
        """
        self._handler = handler
        self._spans = vector_spans(handler)
        self._carrier = carrier()
        self._processor = processor
        self._topics = topics
        self._answer = answer

    async def run_async(self, item: WorkItem) -> None:
        """Not called: the handler is synchronous."""
        raise NotImplementedError

    def run(self, item: WorkItem) -> None:
        """Handle records and answer after each call, up to a critical failure."""
        assert isinstance(item, PublishedItem)  # noqa: S101 - of this process
        rows = cast("Rows", item.messages)
        prepared = self._prepare(rows, item)
        outcomes = _OutcomeAssembler(len(rows), prepared)
        number = len(prepared.numbers)
        if not number:
            self._ended(item, rows, outcomes.rest())
            return
        step = 1 if item.singly else number
        calls = (self._calls(item, rows, prepared, at, min(at + step, number)) for at in range(0, number, step))
        for first, end, failures, emitted, seconds in chain.from_iterable(calls):
            upto = len(rows) if end == number else int(prepared.numbers[end])
            done = outcomes.upto(upto, first, failures, emitted, seconds)
            self._ended(item, rows, done)
            if done.critical:
                return

    def _ended(self, item: PublishedItem, rows: Rows, outcomes: Outcomes) -> None:
        end = item.position + outcomes.number
        self._answer(item.number, rows.offsets()[item.position : end], outcomes)
        item.position = item.taken = end

    def _calls(
        self, item: PublishedItem, rows: Rows, prepared: _Prepared, first: int, end: int
    ) -> Iterator[tuple[int, int, dict[int, Failure], list[Emitted], float]]:
        """Call the handler for the rows from ``first`` to ``end``, and again for each half if it raises."""
        number = end - first
        handler = self._handler if self._spans is None else self._spans.handler
        context = BatchContext(number, handler, self._topics, self._carrier)
        batch = prepared.batch.slice(first, number)
        began = monotonic_s()
        begin, last = int(prepared.numbers[first]), int(prepared.numbers[end - 1])
        item.place.set(item.number, rows.offsets()[begin], last - begin + 1, began)
        span = (
            nullcontext()
            if self._spans is None
            else self._spans.call(batch, item.lane.assigned.route.group, prepared.spans, first)
        )
        try:
            with span as opened:
                result = handler.call(batch, context) if handler.takes_context else handler.call(batch)
                if opened is not None:
                    opened.failed(len(context.failures))
                    opened.returned(result)
            failure = None if result is None else not_run(result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome of its records
            failure = handler.failure(error)
        item.place.clear()
        seconds = monotonic_s() - began
        if failure is None:
            yield first, end, context.failures, context.emitted, seconds
        elif number == 1 or failure.kind is FailureKind.CRITICAL:
            yield first, first + 1, {0: failure}, [], seconds
        else:
            half = first + number // 2
            yield from self._calls(item, rows, prepared, first, half)
            yield from self._calls(item, rows, prepared, half, end)

    def _prepare(self, rows: Rows, item: WorkItem) -> _Prepared:
        assigned, columns = item.lane.assigned, rows.batch
        if not need_no_preparation(rows, assigned.route, redelivered=assigned.redelivered):
            return self._prepare_each(rows, WorkItem(item.lane, []))
        attempts = pa.array(np.ones(len(rows), np.int32))
        batch = pa.RecordBatch.from_arrays(
            [*(columns.column(name).cast(COLUMNS.field(name).type) for name in COLUMNS.names[:-1]), attempts],
            schema=COLUMNS,
        )
        return _Prepared(batch, np.arange(len(rows)), [], [], [])

    def _prepare_each(self, rows: Rows, item: WorkItem) -> _Prepared:
        failures: list[tuple[int, Failure]] = []
        records: list[tuple[int, dict[str, object]]] = []
        traced, spans = self._spans is not None, dict[int, bytes]()
        for index, message in enumerate(rows):
            found = self._processor.prepare(item, message)
            if isinstance(found, Failure):
                failures.append((index, found))
            else:
                own = found.raw_headers
                if traced and (span := found.headers.get(LAST_ATTEMPT)) is not None:
                    spans[len(records)] = span
                    own = [pair for pair in own if pair[0] != LAST_ATTEMPT]
                records.append((index, _row(found, own, item.lineages[-1].deliveries if item.lineages else 0)))
        batch = pa.RecordBatch.from_pylist([row for _, row in records], COLUMNS)
        numbers = np.array([index for index, _ in records], np.int64)
        return _Prepared(batch, numbers, failures, item.lineages, item.lateness, spans)


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


def _row(record: Record, headers: Headers, deliveries: int) -> dict[str, object]:
    return {
        "key": record.raw_key,
        "value": record.raw_value,
        "headers": [{"key": name, "value": value} for name, value in headers],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "attempt": deliveries + 1,
    }


class VectorSpans(NamedTuple):
    """How calls become spans."""

    handler: Handler
    """The handler, whose failures say which span they were."""

    def call(self, batch: pa.RecordBatch, group: str, before: Mapping[int, bytes], first: int) -> Call:
        """Return the span of a call.

        Args:
            batch: its rows.
            group: the consumer group.
            before: the span of the attempt before, by row.
            first: the number of the first row in there.
        """
        from kafka_redelivery.consumers.handlers.spans import Call, Delivered  # noqa: PLC0415 - an optional dependency

        about = ("topic", "partition", "offset", "key", "headers", "attempt")
        rows = batch.select(list(about)).to_pylist()
        tombstones = batch.column("value").is_null().to_pylist()
        delivered = []
        for number, (row, tombstone) in enumerate(zip(rows, tombstones, strict=True)):
            headers: HeaderList = [(pair["key"], pair["value"]) for pair in row["headers"] or ()]
            if first + number in before:
                headers.append((LAST_ATTEMPT, before[first + number]))
            place = row["topic"], row["partition"], row["offset"]
            message_id = f"{place[0]}-{place[1]}@{place[2]}"
            delivered.append(Delivered(message_id, *place, row["key"], tombstone, headers, row["attempt"] - 1))
        return Call(delivered, group, batch=True, with_texts=not self.handler.details.class_only)


def vector_spans(handler: Handler) -> VectorSpans | None:
    """Return how the calls of a handler become spans; ``None`` if this process has no traces."""
    if not tracing():
        return None
    from kafka_redelivery.consumers.handlers.spans import with_failed_spans  # noqa: PLC0415 - an optional dependency

    return VectorSpans(with_failed_spans(handler))
