"""What a handler process returns: the outcomes of records, and the records that the handler emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from kafka_redelivery.pipeline.handler.rows import packed, unpacked
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.lineage import Lineage


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
