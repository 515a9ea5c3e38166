"""Rows that are the same as what the handler is given: source records without headers, whose values are not decoded.

Most records of most sources are. Their records are made from Arrow columns, without a step for each row.
"""

from __future__ import annotations

import pyarrow as pa

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.pipeline.handler.shared_position import SharedPosition
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.transport.protocols import Message


def need_no_preparation(rows: Rows, route: Route, *, redelivered: bool) -> bool:
    """Whether :meth:`Processor.prepare` would neither read a header of these rows nor refuse one of them."""
    special = redelivered or route.sets_expiration or route.exhausted_at_once
    return not (special or _any_header(rows.batch.column("headers")))


def records_of(rows: Rows, route: Route, *, redelivered: bool) -> list[Row] | list[Record]:
    """Return what :class:`RowProcessor` handles: the records for the handler, or rows that it has to prepare."""
    if not route.raw or not need_no_preparation(rows, route, redelivered=redelivered):
        return list(rows)
    topic, number = rows.partition
    keys, values, offsets, timestamps = (
        rows.batch.column(name).to_pylist() for name in ("key", "value", "offset", "timestamp")
    )
    return [
        Record(topic, number, offset, key, value, key, value, [], timestamp)
        for offset, key, value, timestamp in zip(offsets, keys, values, timestamps, strict=True)
    ]


class RowProcessor(Processor):
    """A :class:`Processor` that is also given records that need no preparation.

    It publishes when the deadline of a call begins and ends: what a record needs before and after it may be slow.
    """

    position: SharedPosition | None = None

    def prepare(self, item: WorkItem, message: Message | Record) -> Record | Failure:
        """See :class:`Processor`."""
        if isinstance(message, Record):
            return message
        prepared = super().prepare(item, message)
        if self.position is not None:
            self.position.call()
        return prepared

    def _store_outcome(
        self, item: WorkItem, failure: Failure | None, context: Context | None, before: float
    ) -> float | None:
        if context is not None and context.outputs and self.position is not None:
            self.position.end_call()
        return super()._store_outcome(item, failure, context, before)


def _any_header(headers: pa.Array) -> bool:
    return headers.null_count < len(headers) and len(headers.flatten()) > 0
