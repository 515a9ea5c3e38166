"""Records as Spark hands them over: Arrow batches of one partition, whose rows serve as the client's messages do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, overload

import pyarrow as pa

from topology.headers import HeaderList
from transport.protocols import Partition

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
"""What a task is given; ``timestamp`` in epoch ms."""

_CREATE_TIME: Final = 1
_LOST: Final = "\ufffd"
"""What the Java client puts in place of bytes that are no UTF-8."""


class Row:
    """One record; see :class:`transport.protocols.Message`."""

    __slots__ = ("_headers", "_key", "_offset", "_place", "_timestamp", "_value")

    def __init__(
        self,
        place: Partition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, Any]] | None,
        timestamp: int,
    ) -> None:
        self._place = place
        self._offset = offset
        self._key = key
        self._value = value
        self._headers: Any = headers
        self._timestamp = timestamp

    def topic(self) -> str:
        """Its topic."""
        return self._place.topic

    def partition(self) -> int:
        """Its partition."""
        return self._place.number

    def offset(self) -> int:
        """Its offset."""
        return self._offset

    def key(self) -> bytes | None:
        """Its raw key."""
        return self._key

    def value(self) -> bytes | None:
        """Its raw value."""
        return self._value

    def headers(self) -> HeaderList | None:
        """Its headers.

        Raises:
            SystemError: a name was not UTF-8, as the other client says it.
        """
        if not self._headers:
            return None
        pairs = [(each["key"], each["value"]) for each in self._headers]
        if any(_LOST in name for name, _ in pairs):
            raise SystemError("a header's name is not UTF-8")
        return pairs

    def set_headers(self, value: HeaderList) -> None:
        """Replace them."""
        self._headers = [{"key": name, "value": content} for name, content in value]

    def __len__(self) -> int:
        """Bytes of its value."""
        return len(self._value or b"")

    def timestamp(self) -> tuple[int, int]:
        """Type and epoch ms."""
        return _CREATE_TIME, self._timestamp


@dataclass(frozen=True, slots=True)
class Rows:
    """A run of records of one partition. A row is made when it is asked for, and then always the same one."""

    place: Partition
    batch: pa.RecordBatch
    _made: dict[int, Row] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Callable[..., Rows], tuple[Partition, pa.Buffer]]:
        """Of a slice nothing but the slice; Arrow's own way takes all that it is a slice of."""
        return _unpacked, (self.place, packed(self.batch))

    def __len__(self) -> int:
        """How many records."""
        return int(self.batch.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        """One record, or a run of them without copying."""
        if isinstance(index, slice):
            first, end, _ = index.indices(len(self))
            return Rows(self.place, self.batch.slice(first, end - first))
        made = self._made.get(index)
        if made is None:
            made = self._made[index] = self._row(index)
        return made

    def __iter__(self) -> Iterator[Row]:
        """All records, in order."""
        columns = (self.batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers", "timestamp"))
        for offset, key, value, headers, timestamp in zip(*columns, strict=True):
            yield Row(self.place, offset, key, value, headers, timestamp)

    def offsets(self) -> list[int]:
        """Of all records."""
        return list(self.batch.column("offset").to_pylist())

    @property
    def bytes(self) -> int:
        """About so many."""
        return int(self.batch.nbytes)

    def _row(self, index: int) -> Row:
        columns = ("offset", "key", "value", "headers", "timestamp")
        return Row(self.place, *(self.batch.column(name)[index].as_py() for name in columns))


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as bytes, which pickle leaves out of band."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpacked(body: pa.Buffer) -> pa.RecordBatch:
    """The batch of such bytes; they are not copied."""
    with pa.ipc.open_stream(body) as stream:
        return stream.read_next_batch()


def _unpacked(place: Partition, body: pa.Buffer) -> Rows:
    return Rows(place, unpacked(body))


def by_place(batch: pa.RecordBatch) -> Iterator[Rows]:
    """The runs of a batch: Spark gives a task the records of one partition, in order."""
    topics, numbers = batch.column("topic"), batch.column("partition")
    first, total = 0, batch.num_rows
    while first < total:
        place = Partition(topics[first].as_py(), numbers[first].as_py())
        end = total
        if (topics[total - 1].as_py(), numbers[total - 1].as_py()) != place:
            end = next(i for i in range(first, total) if (topics[i].as_py(), numbers[i].as_py()) != place)
        yield Rows(place, batch.slice(first, end - first))
        first = end
