"""A work item whose emitted records, and mostly also its own, stay in Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.pipeline.handler.outcomes import Emitted
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import ProducerRecord

_as_record: Final = cast("Callable[[tuple[object, ...]], ProducerRecord]", partial(tuple.__new__, ProducerRecord))
"""``ProducerRecord._make`` without a Python call for each record."""


@dataclass(slots=True, eq=False)
class RowsWorkItem(WorkItem):
    """A :class:`WorkItem` whose records all have their outcomes."""

    tables: list[Emitted] = field(default_factory=list)
    """Records that the handler emitted, as Arrow columns."""

    _offsets: list[int] = field(default_factory=list)

    def offsets(self) -> list[int]:
        """Return the offsets of all records."""
        if not self._offsets:
            messages = cast("Rows | list[Row]", self.messages)
            self._offsets = messages.offsets() if isinstance(messages, Rows) else [each.offset() for each in messages]
        return self._offsets

    def emitted(self, held: Container[int] = ()) -> tuple[list[ProducerRecord], list[int]]:
        """Return the emitted records, and for each the offset of the record that emitted it.

        ``held`` has no effect: every record of this item is written.
        """
        del held
        offsets = self.offsets()
        records = [record for _, outputs in self.outputs for record in outputs]
        owners = [offsets[index] for index, outputs in self.outputs for _ in outputs]
        for topic, partition, table in self.tables:
            rows, keys, values, headers = (table.column(number) for number in range(4))
            fields = zip(
                repeat(topic), repeat(partition), keys.to_pylist(), values.to_pylist(), _header_lists(headers),
                strict=False,
            )  # fmt: skip
            records += map(_as_record, fields)
            owners += map(offsets.__getitem__, rows.to_pylist())
        return records, owners

    def refuse(self, offset: int, failure: Failure) -> None:
        """Record a failure for one of the records in place of its outcome."""
        index = self.offsets().index(offset)
        self.outputs = [entry for entry in self.outputs if entry[0] != index]
        self.tables = [
            each._replace(table=each.table.filter(pc.not_equal(each.table.column("row"), index)))
            for each in self.tables
        ]  # fmt: skip
        others = [entry for entry in self.failures if entry[0] != index]
        self.failures = sorted([*others, (index, failure)], key=lambda entry: entry[0])


def _header_lists(headers: pa.Array) -> list[HeaderList | None] | repeat[None]:
    if headers.null_count == len(headers):
        return repeat(None)
    return [
        None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs] for pairs in headers.to_pylist()
    ]
