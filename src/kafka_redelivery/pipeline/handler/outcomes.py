"""What a handler process returns: the outcomes of records, and the records that the handler emitted.

:class:`Handling` is how a task has its records handled: one after the other, or several at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from kafka_redelivery.pipeline.handler.rows import Row, Rows, packed, unpacked
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.transport.protocols import Partition


class Emitted(NamedTuple):
    """Records that a handler emitted to one topic: columns ``row``, ``key``, ``value``, ``headers``.

    ``row`` is the index of the record whose handling emitted the record.
    """

    topic: str
    partition: int | None
    table: pa.RecordBatch

    def __reduce__(self) -> tuple[Callable[..., Emitted], tuple[str, int | None, pa.Buffer]]:
        """Pickle the table as one buffer, see :meth:`Rows.__reduce__`."""
        return _unpacked, (self.topic, self.partition, packed(self.table))


def _unpacked(topic: str, partition: int | None, body: pa.Buffer) -> Emitted:
    return Emitted(topic, partition, unpacked(body))


class Outcomes(NamedTuple):
    """Outcomes of the next ``number`` records of a run. Indexes count from the first of them.

    The fields mean the same as those of :class:`WorkItem`; a record without a failure has succeeded.
    """

    number: int
    failures: Sequence[tuple[int, Failure]] = ()
    lineages: Sequence[Lineage] = ()
    lateness: Sequence[tuple[int, int]] = ()
    seconds: Sequence[float] = ()
    emitted: Sequence[Emitted] = ()

    @property
    def critical(self) -> bool:
        """Whether a failure is critical: no further record is handled."""
        return any(failure.kind is FailureKind.CRITICAL for _, failure in self.failures)


class Handled(NamedTuple):
    """Records of one partition that were handled, with their outcomes."""

    partition: Partition
    records: Rows | list[Row]
    bytes: int
    """The approximate size of the records in memory."""

    outcomes: Outcomes


class Handling(Protocol):
    """Has the records of a task handled. Used by one thread."""

    @property
    def full(self) -> bool:
        """Whether so many records have no outcome yet that :meth:`collect` is to be called before :meth:`handle`."""
        ...

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """Accept records, and yield what was handled meanwhile, of these and of earlier ones.

        Raises:
            HandlerLoadError: a new child cannot load the handler any more.
            HaltedError: children die again and again without handling a record.
        """
        ...

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """Yield what was handled meanwhile. Wait for it, at most ``timeout_s``.

        Raises:
            HandlerLoadError, HaltedError: as in :meth:`handle`.
        """
        ...

    def abandon(self) -> None:
        """Forget the records that have no outcome yet."""
        ...

    def close(self) -> None:
        """Let the child end by itself within two seconds, else kill it."""
        ...
