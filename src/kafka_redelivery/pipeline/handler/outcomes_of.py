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
    rows = [index - first for index, records in item.outputs for _ in records]
    emitted = [record for _, records in item.outputs for record in records]
    destinations = {(topic, partition) for topic, partition, *_ in emitted}
    if len(destinations) == 1:
        yield _emitted(rows, emitted)
        return
    found: defaultdict[tuple[str, int | None], tuple[list[int], list[ProducerRecord]]] = defaultdict(lambda: ([], []))
    for row, record in zip(rows, emitted, strict=True):
        its_rows, its_records = found[record.topic, record.partition]
        its_rows.append(row)
        its_records.append(record)
    for its_rows, its_records in found.values():
        yield _emitted(its_rows, its_records)


def _emitted(rows: Sequence[int], records: Sequence[ProducerRecord]) -> Emitted:
    """Return records of one destination."""
    _, _, keys, values, headers = zip(*records, strict=True)
    columns = [pa.array(rows, pa.int32()), pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    columns.append(_headers_column(headers))
    topic, partition = records[0].topic, records[0].partition
    return Emitted(topic, partition, pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"]))


def _headers_column(lists: Sequence[HeaderList | None]) -> pa.Array:
    if not any(lists):
        return pa.nulls(len(lists), HEADERS)
    pairs = [None if not each else [{"key": name, "value": value} for name, value in each] for each in lists]
    return pa.array(pairs, HEADERS)
