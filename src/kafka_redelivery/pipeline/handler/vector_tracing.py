"""The calls of a vectorised handler as spans, if this process traces them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.telemetry.tracing import tracing
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT, HeaderList

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_redelivery.consumers.handlers.spans import Call


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
