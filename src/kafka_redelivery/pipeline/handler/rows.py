"""Records as Spark passes them to a task: Arrow batches whose rows have the interface of a Kafka client's message."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import Partition

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
    ]
)
"""The columns that a task receives; ``timestamp`` is in epoch ms."""

HEADERS: Final = SCHEMA.field("headers").type

_CREATE_TIME: Final = 1
_REPLACEMENT: Final = "\ufffd"
"""The character that the Java client puts in place of bytes that are not UTF-8."""


class Row:
    """One record, with the methods of :class:`Message`."""

    __slots__ = ("_given", "_headers", "_key", "_offset", "_partition", "_timestamp", "_value")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, Any]] | None,
        timestamp: int,
    ) -> None:
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = headers
        self._given: HeaderList | None = None
        self._timestamp = timestamp

    def topic(self) -> str:
        """Return the topic."""
        return self._partition.topic

    def partition(self) -> int:
        """Return the partition."""
        return self._partition.number

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the raw key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the raw value."""
        return self._value

    def headers(self) -> HeaderList | None:
        """Return the headers.

        Raises:
            SystemError: a name is not UTF-8; the same error as from the Kafka client of workers.
        """
        if self._given is not None:
            return self._given
        if not self._headers:
            return None
        pairs = [(each["key"], each["value"]) for each in self._headers]
        if any(_REPLACEMENT in name for name, _ in pairs):
            raise SystemError("a header's name is not UTF-8")
        return pairs

    def set_headers(self, value: HeaderList) -> None:
        """Replace the headers."""
        self._given = value

    def __len__(self) -> int:
        """Return the number of bytes of the value."""
        return len(self._value or b"")

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp's type and epoch ms."""
        return _CREATE_TIME, self._timestamp


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive records of one partition. ``rows[index]`` creates a row on first access and caches it."""

    partition: Partition
    batch: pa.RecordBatch
    _made: dict[int, Row] = field(default_factory=dict)
    _offsets: list[int] = field(default_factory=list)

    def __reduce__(self) -> tuple[Callable[..., Rows], tuple[Partition, pa.Buffer]]:
        """Pickle only the slice; Arrow's own pickling includes the whole batch that it is a slice of."""
        return _unpacked, (self.partition, packed(self.batch))

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self.batch.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        """Return one record, or a slice of them without a copy."""
        if isinstance(index, slice):
            first, end, _ = index.indices(len(self))
            return Rows(self.partition, self.batch.slice(first, max(0, end - first)))
        made = self._made.get(index)
        if made is None:
            made = self._made[index] = self._row(index)
        return made

    def __iter__(self) -> Iterator[Row]:
        """Iterate over all records in order."""
        return self._rows(self.batch)

    def prepare(self, indexes: Sequence[int]) -> None:
        """Create these rows together, which takes a fraction of the time of creating each on its first access."""
        self._made.update(zip(indexes, self._rows(self.batch.take(pa.array(indexes, pa.int64()))), strict=True))

    def offsets(self) -> list[int]:
        """Return the offsets of all records. The list is made once and not to be changed."""
        if not self._offsets:
            self._offsets.extend(self.batch.column("offset").to_pylist())
        return self._offsets

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the records of several parts of one partition."""
        if len(parts) == 1:
            return parts[0]
        table = pa.Table.from_batches([each.batch for each in parts])
        return cls(parts[0].partition, table.combine_chunks().to_batches()[0])

    def of(self, offsets: Sequence[int]) -> Rows:
        """Return the records with these offsets: without a copy if they are consecutive."""
        own = self.offsets()
        first = bisect_left(own, offsets[0])
        if own[first : first + len(offsets)] == offsets:
            return self[first : first + len(offsets)]
        return Rows(self.partition, self.batch.take(pa.array([bisect_left(own, each) for each in offsets])))

    @property
    def bytes(self) -> int:
        """The approximate size in memory."""
        return int(self.batch.nbytes)

    def _row(self, index: int) -> Row:
        (row,) = self._rows(self.batch.slice(index, 1))
        return row

    def _rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers", "timestamp"))
        return map(Row, repeat(self.partition), *columns)


def need_no_preparation(rows: Rows, route: Route, *, redelivered: bool) -> bool:
    """Whether :meth:`Processor.prepare` would neither read a header of these rows nor refuse one of them."""
    if redelivered or route.sets_expiration or route.exhausted_at_once:
        return False
    headers = rows.batch.column("headers")
    return headers.null_count == len(headers) or not len(headers.flatten())


def records_of(rows: Rows, route: Route, *, redelivered: bool) -> list[Row] | list[Record]:
    """Return the records for the handler if they need no preparation, otherwise rows that have to be prepared.

    Most records of most sources need none: they have no headers, and their values are not decoded. They are made from
    Arrow columns, without a step for each row.
    """
    if not route.raw or not need_no_preparation(rows, route, redelivered=redelivered):
        return list(rows)
    topic, number = rows.partition
    keys, values, timestamps = (rows.batch.column(name).to_pylist() for name in ("key", "value", "timestamp"))
    return [
        Record(topic, number, offset, key, value, key, value, [], timestamp)
        for offset, key, value, timestamp in zip(rows.offsets(), keys, values, timestamps, strict=True)
    ]


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """Serialise a batch to a buffer, which pickle transfers out of band."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpacked(body: pa.Buffer) -> pa.RecordBatch:
    """Deserialise a batch without copying the buffer."""
    with pa.ipc.open_stream(body) as stream:
        return stream.read_next_batch()


def _unpacked(partition: Partition, body: pa.Buffer) -> Rows:
    return Rows(partition, unpacked(body))


def by_partition(batch: pa.RecordBatch) -> Iterator[Rows]:
    """Split a batch by partition. Spark gives a task the records of one partition after the other, each in order."""
    topics, numbers = batch.column("topic"), batch.column("partition")
    total = batch.num_rows
    if not total:
        return
    changes = [pc.not_equal(column.slice(1), column.slice(0, total - 1)) for column in (topics, numbers)]
    starts = [0, *(np.flatnonzero(pc.or_(*changes).to_numpy(zero_copy_only=False)) + 1).tolist()]
    for first, end in pairwise((*starts, total)):
        yield Rows(Partition(topics[first].as_py(), numbers[first].as_py()), batch.slice(first, end - first))
