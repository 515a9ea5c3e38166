"""From a work item in the handler's process to the outcomes that it returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.pipeline.handler.batch_context import HEADERS
from kafka_redelivery.pipeline.handler.outcomes import Emitted, Outcomes
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import ProducerRecord


def outcomes_of(item: WorkItem, first: int = 0) -> Outcomes:
    """Return the outcomes of the handled records of a work item from index ``first`` on."""
    return Outcomes(
        item.position - first,
        [(index - first, failure) for index, failure in item.failures],
        item.lineages,
        item.lateness,
        item.seconds,
        list(_as_columns(item, first)) if item.outputs else (),
    )


def _as_columns(item: WorkItem, first: int) -> Iterator[Emitted]:
    """Yield the outputs as Arrow columns, which pickle faster than objects; in order within a topic partition."""
    destinations: defaultdict[tuple[str, int | None], list[tuple[int, ProducerRecord]]] = defaultdict(list)
    for index, records in item.outputs:
        for record in records:
            destinations[record.topic, record.partition].append((index - first, record))
    for (topic, partition), found in destinations.items():
        columns = [
            pa.array([row for row, _ in found], pa.int32()),
            pa.array([record.key for _, record in found], pa.binary()),
            pa.array([record.value for _, record in found], pa.binary()),
            _headers_column([record.headers for _, record in found]),
        ]
        yield Emitted(topic, partition, pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"]))


def _headers_column(lists: Sequence[HeaderList | None]) -> pa.Array:
    if not any(lists):
        return pa.nulls(len(lists), HEADERS)
    pairs = [None if not each else [{"key": name, "value": value} for name, value in each] for each in lists]
    return pa.array(pairs, HEADERS)
