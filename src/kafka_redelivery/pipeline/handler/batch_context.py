"""The context of a vectorised handler, which fails rows and emits records through it.

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

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.outputs import check_destination, check_headers
from kafka_redelivery.pipeline.handler.outcomes import Emitted
from kafka_redelivery.pipeline.handler.rows import SCHEMA
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.headers import Headers
from kafka_redelivery.transport.protocols import TopicMetadata

COLUMNS: Final = SCHEMA.append(pa.field("attempt", pa.int32()))

HEADERS: Final = COLUMNS.field("headers").type


class BatchContext:
    """One call of a vectorised handler."""

    def __init__(self, rows: int, handler: Handler, topics: TopicMetadata | None) -> None:
        self._rows = rows
        self._handler = handler
        self._topics = topics
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
