"""What a handler emits arrives in the task as it was emitted: records, their order in each topic partition, owners."""

from collections import defaultdict
from collections.abc import Iterable
from typing import cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.pipeline.handler.items import Outcomes
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.pipeline.task.task_run import RowsOutcomes
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord
from tests.unit.consumers.records import source

_LANE = cast("Lane", None)
_RECORDS = 6
_BODIES = st.none() | st.binary(max_size=3)
_HEADERS = st.lists(st.tuples(st.text("aé", max_size=2), _BODIES), max_size=2)
_EMITTED = st.builds(ProducerRecord, st.sampled_from("ab"), st.sampled_from([None, 0, 1]), _BODIES, _BODIES, _HEADERS)
_OUTPUTS = st.dictionaries(st.integers(0, _RECORDS - 1), st.lists(_EMITTED, min_size=1, max_size=3))


@given(_OUTPUTS)
def test_emitted_records_keep_content_order_and_owner(outputs: dict[int, list[ProducerRecord]]) -> None:
    """Whichever records emitted any, to one destination or several."""
    item = WorkItem(_LANE, cast("list[Message]", list(range(_RECORDS))), _RECORDS, outputs=sorted(outputs.items()))

    outcomes = Outcomes.of(item)

    rows = _rows(range(100, 100 + outcomes.number))
    taken = RowsOutcomes(
        assigned=source(),
        messages=cast("list[Message]", rows),
        size=0,
        redelivered=False,
        tables=list(outcomes.emitted),
    )
    records, owners = taken.emitted()
    assert _by_destination(zip(records, owners, strict=True)) == _by_destination(
        (record, 100 + index) for index, emitted in item.outputs for record in emitted
    )
    assert len({(each.topic, each.partition) for each in outcomes.emitted}) == len(outcomes.emitted)


def _by_destination(
    pairs: Iterable[tuple[ProducerRecord, int]],
) -> dict[tuple[str, int | None], list[tuple[object, ...]]]:
    found: defaultdict[tuple[str, int | None], list[tuple[object, ...]]] = defaultdict(list)
    for record, owner in pairs:
        found[record.topic, record.partition].append((record.key, record.value, record.headers or None, owner))
    return dict(found)


def _rows(offsets: range) -> Rows:
    number = len(offsets)
    columns = [[None] * number, [b""] * number, [None] * number, ["t"] * number, [3] * number, offsets, offsets]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", 3), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
