"""The batch of records that a batch handler gets, and what the handler decides about each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic

from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject, V
from kafka_redelivery.consumers.inbox import Once
from kafka_redelivery.topology.wire.headers import Headers


class Batch(Generic[V]):
    """Records of one partition, in the order of their offsets, each with an outcome of its own.

    The records for which the handler calls neither :meth:`fail`, :meth:`retry` nor :meth:`reject` succeed when it
    returns::

        def charge(batch: Batch[Order]) -> None:
            for record, answer in zip(batch, bank.charge_all([record.value for record in batch])):
                if answer.refused:
                    batch.reject(record, answer.text)
                elif answer.busy:
                    batch.retry(record, after=timedelta(seconds=30))
                else:
                    batch.send(record, "receipts", answer.receipt, key=record.key)

    An exception that the handler raises names no record, so it decides about none: nothing of the call counts, and the
    records are handled again as batches of one. A batch of one that raises fails its record.
    """

    __slots__ = ("_deliveries", "_group", "_numbers", "_records", "contexts", "errors")

    def __init__(self, records: Sequence[Record[V]], deliveries: Sequence[int] = (), group: str = "") -> None:
        """Create a batch in which no record has failed.

        Args:
            records: the records.
            deliveries: number of deliveries of each before this one; empty = none of any.
            group: the consumer group.
        """
        self._records = records
        self._deliveries = deliveries
        self._group = group
        self._numbers: dict[int, int] = {}
        self.errors: dict[int, BaseException] = {}
        """The errors of the records that have failed so far, by index."""

        self.contexts: dict[int, Context] = {}
        """What :meth:`context` has returned so far, by index."""

    def __iter__(self) -> Iterator[Record[V]]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> Record[V]:
        return self._records[index]

    def fail(self, record: Record[V], error: BaseException) -> None:
        """Fail a record as if a handler of this record had raised the error. The last error of a record counts.

        Args:
            record: a record of this batch.
            error: its class decides as if it was raised: it may be a :class:`Reject`, a :class:`Redeliver`, or one that
                ``notRetryable`` names.

        Raises:
            TypeError: ``error`` is no exception.
            ValueError: the record is not of this batch.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, not {error!r}")
        self.errors[self._number(record)] = error

    def retry(self, record: Record[V], reason: str = "", *, after: timedelta | None = None) -> None:
        """Have a record redelivered: :meth:`fail` with :class:`Redeliver`, which explains the arguments."""
        self.fail(record, Redeliver(reason, after=after))

    def reject(self, record: Record[V], reason: str) -> None:
        """Dead-letter a record without a redelivery: :meth:`fail` with :class:`Reject`."""
        self.fail(record, Reject(reason))

    def send(
        self,
        record: Record[V],
        topic: str,
        value: Any,  # noqa: ANN401 - whatever the topic's codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: Mapping[str, bytes | None] | Headers = (),
        partition: int | None = None,
    ) -> None:
        """Emit a record for ``record``; it is written only if that succeeds. See :meth:`Context.send`.

        Raises:
            ValueError: ``record`` is not of this batch.
        """
        self.context(record).send(topic, value, key=key, headers=headers, partition=partition)

    def once(self, record: Record[V], connection: object, effect: str = "", *, commit: bool = True) -> Once:
        """Return a block that does an effect in a database once for a record. See :meth:`Context.once`.

        With ``commit=False`` the blocks of all records may be in one transaction.

        Raises:
            ValueError: the record is not of this batch.
        """
        return self.context(record).once(connection, effect, commit=commit)

    def attempt(self, record: Record[V]) -> int:
        """Return the number of this delivery of a record; the first one is 1.

        Raises:
            ValueError: the record is not of this batch.
        """
        return self.context(record).attempt

    def context(self, record: Record[V]) -> Context:
        """Return the context of a record, as a handler of single records gets it.

        Raises:
            ValueError: the record is not of this batch.
        """
        number = self._number(record)
        found = self.contexts.get(number)
        if found is None:
            deliveries = self._deliveries[number] if self._deliveries else 0
            found = self.contexts[number] = Context(deliveries, [], record, self._group)
        return found

    def _number(self, record: Record[V]) -> int:
        """Return the index of a record, by identity: two records may be equal, and a value may have no hash."""
        if not self._numbers:
            self._numbers = {id(each): index for index, each in enumerate(self._records)}
        number = self._numbers.get(id(record))
        if number is None:
            raise ValueError(f"{getattr(record, 'message_id', record)!r} is not a record of this batch")
        return number
